#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# boot.sh - each way in which scripts/boot can end, with a fake QEMU: a shell
# script of that name, first in PATH, which writes into the files that the
# -serial arguments name. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp
boot=$top/scripts/boot
build=$tmp/build
run="$tmp/run 1"	# the blank is part of the test
mkdir "$tmp/fake" "$tmp/scratch" "$build"
FAKE=$tmp/fake TMPDIR=$tmp/scratch
export FAKE TMPDIR

# image BYTES: 2 setup sectors and 0x140 units of 16 bytes, 6144 bytes if whole
image()
{
	{
		head -c 497 /dev/zero
		printf '\001\000\000\100\001\000\000'
		head -c 5640 /dev/zero
	} | head -c "$1" >"$build/bzImage"
}
image 6144
for f in guest tests count; do
	echo "$f" >"$build/$f.cpio"
done
printf 'base=7.3\ntree=1234abcd\ncompiler=gcc 12\n' >"$build/meta"

# boot looks at its guest once a second; here ten times.
cat >"$FAKE/sleep" <<'EOT'
#!/bin/sh
[ "$1" != 1 ] || set -- 0.1
exec /bin/sleep "$@"
EOT
cat >"$tmp/head" <<'EOT'
#!/bin/sh
[ "$1" != --version ] || { echo 'QEMU emulator version 0.1 (fake)'; exit; }
printf '%s\n' "$@" >"$FAKE/args"
for a; do case $a in file:*) n=$((${n:-0} + 1)); eval "port$n=\${a#file:}" ;; esac; done
chat() { seq 30 | sed 's/.*/[    0.&] line &\r/' >>"$port1"; }
late() { printf '[    1.0] %s\r\n' "$@" >>"$port1"; }
finished() { printf 'KTAP version 1\n1..1\nok 1 a/b\n# init: done\n' >"$port2"; }
hang() { exec /bin/sleep 60; }
echo $$ >>"$FAKE/pids"
EOT

# fake: the next QEMU does what standard input says
fake()
{
	: >"$FAKE/pids"
	cat "$tmp/head" - >"$FAKE/qemu-system-x86_64"
	chmod +x "$FAKE/qemu-system-x86_64" "$FAKE/sleep"
}

go() { t_run env PATH="$FAKE:$PATH" "$boot" "$@" "$build" "$run"; }

# left: what must not be there when boot has ended
left()
{
	while read -r p; do
		! kill -0 "$p" 2>/dev/null || printf 'QEMU %s still runs; ' "$p"
	done <"$FAKE/pids"
	[ -z "$(ls -A "$TMPDIR")" ] || printf 'its scratch folder is still there; '
	[ ! -e "$run/initramfs.cpio" ] || printf 'its initramfs is still there; '
}

# ends NAME STATUS MESSAGE: boot ended so, said so, in RUN/status too, and
# showed what the console said last.
ends()
{
	why=$(left)
	[ "$rc" = "$2" ] || why="status $rc, wanted $2; $why"
	grep -qE -e "$3" "$run/status" 2>/dev/null ||
		why="${why}RUN/status is '$(cat "$run/status" 2>&1)', wanted '$3'"
	if [ "$2" != 0 ]; then
		grep -qxF -e "boot: $(cat "$run/status" 2>&1)" "$tmp/err" || why="$why; no message"
		tail -n 20 "$run/console.log" | tr -d '\r' >"$tmp/want"
		n=$(wc -l <"$tmp/want")
		tail -n "$n" "$tmp/err" | cmp -s - "$tmp/want" || why="$why; console not shown"
		tail -n $((n + 1)) "$tmp/err" | head -n 1 | grep -q '^boot: the last console lines' ||
			why="$why; not $n lines of the console"
	fi
	[ ! -s "$tmp/out" ] || why="$why; it wrote to standard output"
	if [ -z "$why" ]; then t_ok "$1"; else t_notok "$1" "$why"; fi
}

# refuses NAME MESSAGE: status 2, one line, and no word about a run
refuses()
{
	if [ "$rc" != 2 ]; then t_notok "$1" "status $rc: $(tail -n 1 "$tmp/err")"
	elif [ "$(cat "$tmp/out" "$tmp/err" | wc -l)" != 1 ]; then t_notok "$1" "not one line: $(head -n 3 "$tmp/err" | tr '\n' '|')"
	elif ! grep -qE -e "$2" "$tmp/err"; then t_notok "$1" "it says '$(cat "$tmp/err")'"
	elif [ -e "$run/status" ]; then t_notok "$1" "there is a status"
	else t_ok "$1"; fi
}

# hangs NAME MESSAGE: boot ends a QEMU that would go on for 60 s
hangs()
{
	began=$(date +%s)
	go --accel kvm --timeout 1
	took=$(($(date +%s) - began))
	if [ $took -gt 20 ]; then t_notok "$1" "it took $took s"; else ends "$1" 124 "$2"; fi
}
# KILL comes 5 s after TERM, so this test runs beside the others.
if [ "${1-}" = deaf ]; then
	fake <<-'EOT'
	chat; finished; trap '' TERM; hang
	EOT
	hangs hang_deaf_to_TERM '^hang: the guest did not end in 1 s$'
	t_done
fi
TMPDIR=$tmp "$0" deaf >"$tmp/deaf" 2>&1 &
deaf=$!

# What cannot run
fake <<'EOT'
chat; finished
EOT
rm -rf "$run"
while read -r name message args; do
	# shellcheck disable=SC2086 # a list of arguments
	t_run env PATH="$FAKE:$PATH" "$boot" $args
	refuses "options: $name" "$message"
done <<-CASES
	none	BUILD.and.a.RUN
	no_run	BUILD.and.a.RUN	$build
	third_folder	also.*'x'	$build $tmp/r x
	unknown	unknown.option	-x $build $tmp/r
	accel	not.auto	--accel hvf $build $tmp/r
	smp_zero	positive	--smp 0 $build $tmp/r
	smp_word	positive	--smp two $build $tmp/r
	smp_negative	positive	--smp -1 $build $tmp/r
	timeout_zeros	positive	--timeout 00 $build $tmp/r
	timeout_octal	positive	--timeout 08 $build $tmp/r
	timeout_unit	positive	--timeout 5s $build $tmp/r
	no_value	needs.a.value	$build $tmp/r --append
	build_missing	no.bzImage.in	$tmp/none $tmp/r
	run_in_a_file	cannot.write	$build $build/meta/r
CASES
t_run "$boot" --timeout '' "$build" "$run"
refuses "options: timeout_empty" positive
if [ -e "$tmp/r" ]; then t_notok "options: nothing made" "a RUN folder is there"; else t_ok "options: nothing made"; fi
t_run "$boot" -h
if [ "$rc" = 0 ] && [ "$(grep -c '^  scripts/boot' "$tmp/out")" = 2 ]; then t_ok help; else t_notok help "not two examples"; fi

mkdir "$tmp/path"
(IFS=:; for d in $PATH; do ln -s "$d"/* "$tmp/path/" 2>/dev/null || :; done)
rm -f "$tmp/path/qemu-system-x86_64"
t_run env PATH="$tmp/path" "$boot" "$build" "$run"
refuses qemu_missing 'no qemu-system-x86_64: apt-get install'
for f in bzImage guest.cpio tests.cpio meta; do
	mv "$build/$f" "$tmp/kept"
	go
	refuses "missing $f" "no $f in"
	mv "$tmp/kept" "$build/$f"
done
# root may read everything, unless it gives that up
weak=
[ "$(id -u)" != 0 ] || weak='setpriv --bounding-set -dac_override,-dac_read_search'
mkdir "$run"
chmod 000 "$build/bzImage"
if $weak test -r "$build/bzImage" 2>/dev/null || ! $weak true 2>/dev/null; then
	t_skip unreadable_image "root reads everything and setpriv does not help"
	t_skip unwritable_run "root writes everything and setpriv does not help"
	chmod 644 "$build/bzImage"
else
	# shellcheck disable=SC2086 # a command or nothing
	t_run env PATH="$FAKE:$PATH" $weak "$boot" "$build" "$run"
	refuses unreadable_image 'no bzImage in'
	chmod 644 "$build/bzImage"
	chmod 555 "$run"
	# shellcheck disable=SC2086
	t_run env PATH="$FAKE:$PATH" $weak "$boot" "$build" "$run"
	refuses unwritable_run 'cannot write'
	chmod 755 "$run"
fi

for n in 6143 1024 1023; do
	image $n
	go
	ends "truncated to $n bytes" 3 "truncated: $n bytes, its header says (6144|at least 1024)\$"
done
if [ -s "$run/meta" ] && [ -e "$run/ktap" ] && [ ! -s "$FAKE/pids" ]; then
	t_ok truncated_can_be_reported
else
	t_notok truncated_can_be_reported "no meta, no ktap, or QEMU was started"
fi
image 6144

# What ends well
t_run env PATH="$FAKE:$PATH" "$boot" --accel tcg --timeout 7 --smp 3 --append "a='b c'" --only sched/one "$build" "$run"
ends good 0 '^ended$'
why=
for line in base=7.3 tree=1234abcd 'compiler=gcc 12' 'qemu=QEMU emulator version 0.1 (fake)' accel=tcg,thread=single smp=3 timeout_s=35 \
	"cmdline=console=ttyS0 panic=-1 nokaslr norandmaps no_timer_check only=sched/one a='b c'" "repo_commit=$(git -C "$top" describe --always --dirty 2>/dev/null || echo none)"; do
	grep -qxF -e "$line" "$run/meta" || why="$why no '$line'"
done
[ "$(cut -d= -f1 "$run/meta" | sort | uniq -d)" = '' ] || why="$why a key twice"
if [ -z "$why" ]; then t_ok meta; else t_notok meta "$why"; fi
cp "$FAKE/args" "$tmp/args"
: >"$FAKE/args"
t_run env PATH="$FAKE:$PATH" sh -c "$(sed -n 's/^\$ //p' "$run/cmd")"
if [ "$rc" = 0 ] && [ -s "$FAKE/args" ] && cmp -s "$FAKE/args" "$tmp/args"; then t_ok cmd_can_be_pasted; else t_notok cmd_can_be_pasted "other arguments: $(diff "$FAKE/args" "$tmp/args" | head -n 3 | tr '\n' ' ')"; fi
why=
for line in -no-reboot "file:$run/console.log" "file:$run/ktap" "file:$run/samples.tsv" "$build/bzImage" "$run/initramfs.cpio"; do
	grep -qxF -e "$line" "$tmp/args" || why="$why no $line"
done
if [ -z "$why" ]; then t_ok arguments; else t_notok arguments "$why"; fi

# --only a test that is not there
fake <<'EOT'
chat; printf 'KTAP version 1\r\n1..0\r\n# init: done\r\n' >"$port2"
EOT
t_run env PATH="$FAKE:$PATH" "$boot" --accel tcg --only no/such "$build" "$run"
ends no_such_test 7 "no test 'no/such'"

# harmless: words of scripts/badness in lines that mean nothing bad
fake <<'EOT'
chat; printf '[    1.0] DEBUG: a bug, an oops and a warning\n[    1.1] rcu: no stall detected\n' >>"$port1"; finished
EOT
go --accel tcg
ends harmless 0 '^ended$'

# What ends badly
fake <<'EOT'
chat; echo 'qemu: out of luck' >&2; exit 3
EOT
go --accel tcg
ends qemu_dies 4 '^QEMU died with status 3: qemu: out of luck$'
fake <<'EOT'
chat; finished; kill -s SEGV $$
EOT
go --accel tcg
ends qemu_crashes 4 '^QEMU died with status 139'
fake <<'EOT'
chat; kill -s KILL $$
EOT
go --accel tcg
ends qemu_out_of_memory 4 '^QEMU died with status 137'
fake <<'EOT'
chat; late 'Kernel panic - not syncing: VFS: Unable to mount root fs'
EOT
go --accel tcg
ends panic 5 '^panic: .*Unable to mount root fs'
fake <<'EOT'
chat; finished; late 'Kernel panic - not syncing: Fatal exception'
EOT
go --accel tcg
ends panic_after_the_last_test 5 '^panic: .*Fatal exception'
fake <<'EOT'
chat; late 'Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100'
EOT
go --accel tcg
ends init_exits 6 '^init exited: .*exitcode=0x00000100'
fake <<'EOT'
chat; printf 'init: test 1 a/b\r\n' >>"$port1"; printf 'KTAP version 1\n1..2\nok 1 a/b\n' >"$port2"
EOT
go --accel tcg
ends early_poweroff 7 '^the guest ended before its last test: init: test 1 a/b$'

bad_console()	# NAME LINE
{
	fake <<-EOT
	late '$2'; chat; finished
	EOT
	go --accel tcg
	ends "console: $1" 1 "^bad console line: .*$(printf '%s' "$2" | sed 's/[][*+.]/\\&/g')\$"
}
bad_console oops 'Oops: Oops: 0002 [#1] SMP NOPTI'
bad_console warning 'WARNING: kernel/jump_label.c:266 at static_key_disable+0x7c/0x90, CPU#0: a/61'
bad_console lockdep 'possible recursive locking detected'
bad_console rcu_stall 'rcu: INFO: rcu_sched self-detected stall on CPU'
bad_console hung_task 'INFO: task flip:61 blocked for more than 120 seconds.'
cat >"$tmp/bad" <<'EOT'
BUG: kernel NULL pointer dereference, address: 0000000000000010
BUG: sleeping function called from invalid context at kernel/x.c:1
watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [flip:61]
rcu: INFO: rcu_sched detected stalls on CPUs/tasks:
WARNING: suspicious RCU usage
WARNING: inconsistent lock state
WARNING: possible circular locking dependency detected
jump_label: Fatal kernel bug, unexpected op at enqueue_timer+0x63/0xe0
UBSAN: array-index-out-of-bounds in kernel/x.c:1:2
general protection fault, probably for non-canonical address 0xdead000000000100
kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
 Call Trace:
EOT
fake <<EOT
chat; cat '$tmp/bad' >>"\$port1"; finished
EOT
go --accel tcg
sed 's/^[0-9]*://' "$run/badness" | diff "$tmp/bad" - >"$tmp/diff" || :
if [ -s "$tmp/diff" ]; then t_notok badness_lists_all "$(sed -n 2p "$tmp/diff")"; else t_ok badness_lists_all; fi

# What never ends
fake <<'EOT'
chat; hang
EOT
hangs hang '^hang: the guest did not end in 1 s$'
fake <<'EOT'
hang
EOT
hangs hang_without_output '^hang: not one console line in 1 s'
wait "$deaf" || :
if grep -q '^ok ' "$tmp/deaf"; then t_ok hang_deaf_to_TERM; else t_notok hang_deaf_to_TERM "$(head -n 1 "$tmp/deaf")"; fi

# interrupt NAME SIGNAL [COMMAND...]: boot gets it while the guest hangs
interrupt()
{
	name=$1 signal=$2
	shift 2
	rm -rf "$run"
	mkdir "$run"
	echo ended | tee "$run/status" >"$run/verdict"
	: >"$FAKE/pids"
	PATH="$FAKE:$PATH" "$@" env --default-signal=INT "$boot" "$build" "$run" >"$tmp/out" 2>"$tmp/err" &
	pid=$! i=0
	while [ ! -s "$FAKE/pids" ] && [ $i -lt 200 ]; do
		sleep 0.1
		i=$((i + 1))
	done
	kill -s "$signal" $pid 2>/dev/null || :
	rc=0
	wait $pid || rc=$?
	why=$(left)
	[ -s "$FAKE/pids" ] || why="$why; no QEMU was started"
	[ $rc = 130 ] || why="$why; status $rc, wanted 130"
	[ ! -e "$run/status" ] && [ ! -e "$run/verdict" ] || why="$why; there is a status or verdict"
	grep -q '^boot: interrupted' "$tmp/err" || why="$why; no message"
	if [ -z "$why" ]; then t_ok "$name"; else t_notok "$name" "$why"; fi
}
fake <<'EOT'
chat; hang
EOT
for signal in TERM INT; do interrupt "interrupted by $signal" $signal; done

# The KVM probe, with a /dev of our own. Status 77: it could not be made.
cat >"$tmp/with_dev" <<'EOT'
kvm=$1 dev=$2
shift 2
for n in null zero random urandom; do
	: >>"$dev/$n" && mount --bind "/dev/$n" "$dev/$n" || exit 77
done
rm -f "$dev/kvm"
[ $kvm = no ] || : >"$dev/kvm"
[ $kvm != closed ] || chmod 000 "$dev/kvm"
mount --rbind "$dev" /dev || exit 77
exec "$@"
EOT
mkdir "$tmp/dev"
own=
for u in 'unshare -m' 'unshare -rm'; do
	if [ -z "$own" ] && $u sh "$tmp/with_dev" no "$tmp/dev" true 2>/dev/null; then own=$u; fi
done

probe()	# NAME KVM ACCEL TIMEOUT CALLS WHY [COMMAND...]
{
	if [ -z "$own" ]; then
		t_skip "$1" "unshare cannot give a /dev of our own"
		return
	fi
	name=$1 kvm=$2 accel=$3 timeout=$4 calls=$5 message=$6
	shift 6
	# shellcheck disable=SC2086 # a command and its options
	t_run env PATH="$FAKE:$PATH" $own sh "$tmp/with_dev" "$kvm" "$tmp/dev" "$@" "$boot" "$build" "$run"
	if ! grep -qE "^accel=$accel(,|\$)" "$run/meta" || ! grep -qx "timeout_s=$timeout" "$run/meta" ||
	   ! grep -qE -e "-accel ${accel}[, ]" "$run/cmd"; then
		t_notok "$name" "it took $(sed -n '/^accel=/p; /^timeout_s=/p' "$run/meta" | tr '\n' ' ')"
	elif ! grep -q "^boot: accelerator $accel: $message" "$tmp/err"; then
		t_notok "$name" "it says $(grep accelerator "$tmp/err")"
	elif [ "$(wc -l <"$FAKE/pids")" != "$calls" ]; then
		t_notok "$name" "QEMU was started $(wc -l <"$FAKE/pids") times"
	else
		ends "$name" 0 '^ended$'
	fi
}
fake <<'EOT'
chat; finished
EOT
probe kvm_absent no tcg 600 1 'no usable /dev/kvm'
if [ "$(id -u)" = 0 ] && ! $weak true 2>/dev/null; then
	t_skip kvm_forbidden "root opens everything and setpriv does not help"
elif [ "$own" = 'unshare -m' ]; then
	fake <<-'EOT'
	chat; finished
	EOT
	# shellcheck disable=SC2086
	probe kvm_forbidden closed tcg 600 1 'no usable /dev/kvm' $weak
else
	t_skip kvm_forbidden "not root, so /dev/kvm cannot be put there"
fi
fake <<'EOT'
case $* in *ktap*) chat; finished ;; *'-accel kvm'*) echo hello >"$port1"; hang ;; esac
EOT
probe kvm_speaks yes kvm 120 2 'a probe guest spoke'
fake <<'EOT'
case $* in *ktap*) chat; finished ;; *) hang ;; esac
EOT
probe kvm_is_silent yes tcg 600 2 'the KVM probe guest said nothing'
fake <<'EOT'
case $* in *ktap*) chat; finished ;; *) echo 'failed to initialize kvm' >&2; exit 1 ;; esac
EOT
probe kvm_fails yes tcg 600 2 'the KVM probe guest said nothing'
fake <<'EOT'
hang
EOT
if [ -n "$own" ]; then
	# shellcheck disable=SC2086
	interrupt 'interrupted in the probe' TERM $own sh "$tmp/with_dev" yes "$tmp/dev"
else
	t_skip 'interrupted in the probe' "unshare cannot give a /dev of our own"
fi
t_done
