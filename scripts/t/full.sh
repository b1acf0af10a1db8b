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
		t_run "$top/scripts/t/kcount.sh" "$build/bzImage" "$build/initramfs.cpio"
		cat "$tmp/out" >&2
		t_expect "$base kcount booted, on one and on two vCPUs" 0 '^ok boot-calibration-2-vcpus'
		counts "$base"
		if built "$base fresh build" --base "$base" --fresh "$tmp/fresh"; then
			for f in bzImage vmlinux initramfs.cpio objects config; do
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

	for variant in without-jump-label without-smp; do
		built "$base $variant" --base "$base" \
			--fragment "$top/Kconfig.fragments/$variant.config" || continue
		case $variant in without-smp) cpus=1 ;; *) cpus=2 ;; esac
		boots "$base $variant" --smp $cpus
	done
done
t_done
