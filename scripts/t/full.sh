#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# full.sh - what takes too long for the default tier: a second build from
# nothing in another folder, every prefix of every series built and booted,
# each series alone, the debug kernels, configurations that must still work.
# Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

# built NAME ARGS...: build, and set $build; says not ok itself
built()
{
	name=$1
	shift
	if ! build=$("$top/scripts/build" "$@" 2>"$tmp/err"); then
		t_notok "$name" "$(tail -n 1 "$tmp/err")"
		return 1
	fi
	cat "$tmp/err" >&2
}

# boots NAME ARGS...: $build boots, all tests run, the console is clean
boots()
{
	name=$1
	shift
	t_run "$top/scripts/boot" "$@" "$build" "$tmp/boot"
	t_expect "$name" 0 ''
	"$top/scripts/report" "$tmp/boot" >&2 || :
}

# word NAME CASE TEST WORDS: $build boots with these words on the command line, and
# the case of that test, which skips without them, passes
word()
{
	t_run "$top/scripts/boot" --only "$3" --append "$4" "$build" "$tmp/boot"
	if [ "$rc" = 0 ] && grep -qE "^ +ok [0-9]+ $2 *$(printf '\r')?\$" "$tmp/boot/ktap"; then
		t_ok "$1"
	else
		t_notok "$1" "status $rc: $(grep -E "$2|^# " "$tmp/boot/ktap" | tail -n 1 | tr -d '\r')"
	fi
}

# same NAME: the last count has the bytes of the first, and is one
same()
{
	if [ "$rc" = 0 ] && [ -s "$tmp/here/kcount.tsv" ] && cmp -s "$tmp/here/kcount.tsv" "$tmp/there/kcount.tsv"; then
		t_ok "$1"
	else
		t_notok "$1" "status $rc: $(diff "$tmp/here/kcount.tsv" "$tmp/there/kcount.tsv" 2>&1 | head -n 2 | tr '\n' ' ')"
	fi
	rm -rf "$tmp/there"
}

# counts BASE: counts of the image in $build depend neither on the host's load nor
# on the folder nor on the user
counts()
{
	t_run "$top/scripts/boot" --count cache=on "$build" "$tmp/here"
	(while :; do :; done) & load1=$!
	(while :; do :; done) & load2=$!
	t_run "$top/scripts/boot" --count cache=on "$build" "$tmp/there"
	kill $load1 $load2
	wait $load1 $load2 2>/dev/null || :
	same "$1 the same count on a loaded host"
	if [ "$(id -u)" != 0 ]; then
		t_skip "$1 the same count in another folder, as another user" 'not root'
		return
	fi
	mkdir "$tmp/else where"
	cp -r "$top/scripts" "$build" "$tmp/else where/"
	chmod 755 "$tmp"
	chmod -R a+rX "$tmp/else where"
	mkdir -m 777 "$tmp/there" "$tmp/cache"
	t_run setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/ XDG_CACHE_HOME="$tmp/cache" \
		TMPDIR="$tmp/cache" "$tmp/else where/scripts/boot" --count cache=on \
		"$tmp/else where/${build##*/}" "$tmp/there"
	cat "$tmp/err" >&2
	same "$1 the same count in another folder, as another user"
}

bases=$(awk '!/^#/ && NF { print $1 }' "$top/patches/bases")
for base in $bases; do
	# The place and a clean start make no difference, the cache invents nothing.
	if built "$base cached build" --base "$base"; then
		cached=$build
		cat "$build/guest.cpio" "$build/count.cpio" >"$tmp/initramfs.cpio"
		t_run "$top/scripts/t/kcount.sh" "$build/bzImage" "$tmp/initramfs.cpio"
		cat "$tmp/out" >&2
		t_expect "$base kcount booted, on one and on two vCPUs" 0 '^ok boot-calibration-2-vcpus'
		counts "$base"
		if built "$base fresh build" --base "$base" --fresh "$tmp/fresh"; then
			for f in bzImage vmlinux guest.cpio tests.cpio count.cpio objects config; do
				if cmp -s "$cached/$f" "$build/$f"; then
					t_ok "$base reproducible $f"
				else
					t_notok "$base reproducible $f" "$cached/$f differs from a build from nothing"
				fi
			done
			rm -rf "$tmp/fresh"
		fi
	fi

	series=$(awk '!/^#/ && NF { print $1 }' "$top/patches/$base/order")
	for one in $series; do
		n=$(find "$top/patches/$base/$one" -name '*.patch' | wc -l)
		i=1
		while [ $i -lt "$n" ]; do
			! built "$base $one prefix $i of $n" --base "$base" --series "$one" --upto $i ||
				boots "$base $one prefix $i of $n"
			i=$((i + 1))
		done
		t_run "$top/scripts/run" --base "$base" --series "$one" --out "$tmp/alone"
		t_expect "$base $one alone" 0 "^PASS $base/$one: "
	done

	t_run "$top/scripts/run" --base "$base" --config debug --out "$tmp/debug"
	t_expect "$base debug kernels" 0 "^PASS $base/all: "
	cat "$tmp/out" >&2

	# The event self-test at boot, under lockdep; then the keys flipped for long.
	if built "$base debug, event self-test" --base "$base" --config debug \
		--fragment "$top/Kconfig.fragments/startup-test.config"; then
		t_run "$top/scripts/boot" --timeout 300 --only sched/sched_stat_enable \
			--append "SCHED_STAT_SECONDS=600 test_timeout=1200" "$build" "$tmp/boot"
		t_expect "$base debug, event self-test and ten minutes of toggles" 0 ''
		tr -d '\r' <"$tmp/boot/ktap" >&2
		if grep -q 'Testing event sched_stat_wait: OK' "$tmp/boot/console.log"; then
			t_ok "$base event self-test of sched_stat_wait"
		else
			t_notok "$base event self-test of sched_stat_wait" "$(grep -m 1 'Testing event sched_stat' "$tmp/boot/console.log" || echo 'it did not run')"
		fi
	fi

	t_run "$top/scripts/run" --base "$base" --config schedstats --out "$tmp/schedstats"
	t_expect "$base with schedstats" 0 "^PASS $base/all: "
	cat "$tmp/out" >&2
	# What only the kernel's command line can ask for: skips elsewhere. global.boot
	# was seen to fail on stock (no event since boot), abi.command_line when it ran
	# behind a test that had switched schedstats off.
	if built "$base schedstats" --base "$base" --config schedstats; then
		word "$base schedstats=enable" abi.command_line sched/sched_stat_abi schedstats=enable
		word "$base trace_event= with schedstats" global.boot sched/sched_stat_enable \
			trace_event=sched:sched_stat_sleep,sched:sched_stat_wait
	fi
	if built "$base" --base "$base"; then
		word "$base trace_event=" global.boot sched/sched_stat_enable \
			trace_event=sched:sched_stat_sleep,sched:sched_stat_wait
	fi

	for variant in without-jump-label without-smp; do
		built "$base $variant" --base "$base" \
			--fragment "$top/Kconfig.fragments/$variant.config" || continue
		case $variant in without-smp) cpus=1 ;; *) cpus=2 ;; esac
		boots "$base $variant" --smp $cpus
	done
done
t_done
