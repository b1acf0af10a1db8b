#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# kcount.sh - tests of scripts/kcount.c, calib-check, selftests/calibrate and roi
#
# usage: scripts/t/kcount.sh [BZIMAGE INITRAMFS]
#
# Builds strictly, plays golden traces through the plugin under ASan and UBSan,
# has QEMU refuse bad options before it boots, and compares golden calibrations.
# With a kernel (serial console, uncompressed initramfs) and any initramfs it also
# boots: calibration on one and two vCPUs, two equal results, roi. The initramfs is
# extended by calibrate, which is then the init.
#
# Output: one line per test, "ok NAME", "not ok NAME: why", "skip NAME: reason";
# last line "1..N". Exit status: 0, or 1 if a test was not ok.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

# passes NAME CMD...: ok if CMD exits 0; else the last line of its output is the why.
passes()
{
	name=$1
	shift
	if "$@" >"$tmp/passes" 2>&1; then
		t_ok "$name"
	else
		t_notok "$name" "$(tail -n 1 "$tmp/passes")"
		return 1
	fi
}

warn='-std=c11 -O2 -Wall -Wextra -Wconversion -Werror'
guest='-static -no-pie -pthread'
qemu='qemu-system-x86_64'
so=$tmp/kcount.so

# --- builds
# shellcheck disable=SC2086 # lists of words
passes build-plugin cc $warn -shared -fPIC -fvisibility=hidden -o "$so" \
	"$top/scripts/kcount.c" || t_done
# shellcheck disable=SC2086
passes build-calibrate cc $warn $guest -o "$tmp/calibrate" "$top/selftests/calibrate.c" || t_done
# shellcheck disable=SC2086
passes build-roi cc $warn $guest -o "$tmp/roi" "$top/selftests/roi.c" || t_done

if cc -DKCOUNT_API=4 -shared -fPIC -o "$tmp/api4.so" "$top/scripts/kcount.c" 2>"$tmp/err"; then
	t_notok build-other-api 'KCOUNT_API=4 was built'
elif grep -q 'only QEMU plugin API 1' "$tmp/err"; then
	t_ok build-other-api
else
	t_notok build-other-api "$(head -n 1 "$tmp/err")"
fi

# Undefined symbols must be ones that this QEMU exports, or libc's.
if ! command -v "$qemu" >"$tmp/which"; then
	t_skip symbols-in-qemu "no $qemu"
else
	nm -D "$(cat "$tmp/which")" | awk '$2 == "T" { print $3 }' | sort -u >"$tmp/have"
	nm -D "$so" | awk '$1 == "U" && $2 ~ /^qemu/ { print $2 }' | sort -u >"$tmp/need"
	lacking=$(comm -13 "$tmp/have" "$tmp/need" | tr '\n' ' ')
	exported=$(nm -D "$so" | awk '$2 ~ /^[TDB]$/ { print $3 }' | sort | tr '\n' ' ')
	if [ -n "$lacking" ] || [ ! -s "$tmp/need" ]; then
		t_notok symbols-in-qemu "not in $qemu: $lacking"
	elif [ "$exported" != 'qemu_plugin_install qemu_plugin_version ' ]; then
		t_notok symbols-in-qemu "exports $exported"
	else
		t_ok symbols-in-qemu
	fi
fi

# --- golden traces, under the sanitizers
# shellcheck disable=SC2086
if passes build-host cc $warn -g -fsanitize=address,undefined -fno-sanitize-recover=all \
	-o "$tmp/host" "$top/scripts/t/kcount_host.c"; then
	"$tmp/host" "$tmp" >"$tmp/host.out" 2>&1 || :
	n=0
	while read -r line; do
		case $line in
		ok\ *|not\ ok\ *)
			n=$((n + 1)) t_nr=$((t_nr + 1))
			printf '%s\n' "$line"
			case $line in not*) t_bad=1 ;; esac
			;;
		esac
	done <"$tmp/host.out"
	# a driver that dies in the middle must not look shorter, but fail
	want=$(awk '/^static const struct .* bad\[\] =/ { on = 1; next } /^};/ { on = 0 }
		on && /^\t\{/ { n++ } /^\trun_test\(/ { n++ } END { print n + 4 }' \
		"$top/scripts/t/kcount_host.c")
	if [ "$n" -eq "$want" ]; then
		t_ok host-all-ran
	else
		t_notok host-all-ran "$n of $want tests reported"
	fi
fi

# --- roi on the host: exit status and messages
roi_is()	# NAME STATUS TEXT ARGS...
{
	name=$1 want=$2 text=$3
	shift 3
	got=0
	"$tmp/roi" "$@" >"$tmp/out" 2>&1 || got=$?
	if [ "$got" -ne "$want" ]; then
		t_notok "$name" "exit status $got, not $want"
	elif [ "$(cat "$tmp/out")" != "$text" ]; then
		t_notok "$name" "printed: $(cat "$tmp/out")"
	else
		t_ok "$name"
	fi
}
roi_is roi-status 7 '' 5 -- sh -c 'exit 7'
# shellcheck disable=SC2016 # the inner shell's pid
roi_is roi-signal 137 '' 5 -- sh -c 'kill -9 $$'
roi_is roi-output 0 hello 127 -- echo hello
roi_is roi-no-command 2 'roi: /nonexistent: No such file or directory' 5 -- /nonexistent
roi_is roi-id 2 'roi: 128: the region id is a number, 0 to 127' 128 -- true
roi_is roi-rubbish 2 'roi: 1x: the region id is a number, 0 to 127' 1x -- true
roi_is roi-usage 2 'roi: usage: roi ID -- CMD [ARG]...' 5 true
n=$(objdump -d "$tmp/roi" | grep -cE 'nopl +0x4b4300[0-9a-f]{2}\(%rax,%rax,1\)') || :
if [ "$n" -eq 256 ]; then t_ok roi-table; else t_notok roi-table "$n markers, not 256"; fi

# --- calib-check: golden pairs
tab=$(printf '\t')
calib_is()	# NAME STATUS PATTERN: $tmp/e and $tmp/k
{
	got=0
	"$top/scripts/calib-check" "$tmp/e" "$tmp/k" >"$tmp/out" 2>&1 || got=$?
	if [ "$got" -ne "$2" ]; then
		t_notok "$1" "exit status $got, not $2: $(tail -n 1 "$tmp/out")"
	elif ! grep -q "$3" "$tmp/out"; then
		t_notok "$1" "printed: $(tail -n 1 "$tmp/out")"
	else
		t_ok "$1"
	fi
}
expected()	# [SED-SCRIPT]
{
	sed -e "${1-}" <<'E' | tr ' ' '\t' | sed 's/$/\r/' >"$tmp/e"
[0.1]noise
calib geom l1d 32768:8:64
calib expect 100 insns_n 100 100 loop
calib diff 111 110 insns_n 1000 1000 plus
calib end 3
E
}
counted()	# [SED-SCRIPT]
{
	sed -e "${1-}" <<'E' | tr ' ' '\t' | sed 's/^#./# /' >"$tmp/k"
# kcount 1
# l1d 32768:8:64
# unmatched_stops 0
# anomalies 0
section roi mode name entries_n insns_n
region 100 kernel - 1 5
region 100 user - 1 100
region 110 user - 1 7
region 111 user - 1 1007
E
}
expected; counted
calib_is calib-good 0 '^calibration good: 2 ok, 0 off, 0 skipped'
counted 's/1 100$/1 101/'
calib_is calib-one-more 1 "^off${tab}100${tab}insns_n${tab}101${tab}"
counted 's/1007/1006/'
calib_is calib-diff 1 '^calibration off'
counted '/^region 111/d'
calib_is calib-absent 1 absent
counted 's/1 100$/1 -/'
calib_is calib-not-measured 1 '^calibration off'
counted 's/32768/16384/'
calib_is calib-geometry 2 'calibrate expects 32768:8:64'
counted 's/anomalies 0/anomalies 1/'
calib_is calib-anomalies 2 'not to be trusted'
counted 's/insns_n/insn_n/'
calib_is calib-column 2 'no column insns_n'
counted; expected '/end/d'
calib_is calib-truncated 2 'no complete output'
expected '/diff/d'
calib_is calib-lost-record 2 '2 records, 3 were written'
: >"$tmp/e"
calib_is calib-empty 2 'no complete output'
expected; : >"$tmp/k"
calib_is calib-no-counts 2 'not a result of kcount'

# --- QEMU refuses before it boots
refuse()	# NAME WHY [OPTION]...
{
	name=$1 why=$2 opts=
	shift 2
	for o; do opts=$opts,$o; done
	got=0
	timeout 60 "$qemu" -machine none -display none -plugin "$so$opts" >"$tmp/out" 2>&1 || got=$?
	if [ "$got" -eq 0 ] || [ "$got" -ge 124 ]; then
		t_notok "$name" "exit status $got"
	elif [ "$(grep -c '^kcount: ' "$tmp/out")" -ne 1 ] || ! grep -q "^kcount: .*$why" "$tmp/out"; then
		t_notok "$name" "printed: $(head -n 1 "$tmp/out")"
	elif [ -e "$tmp/r.tsv" ] || [ -e "$tmp/r.tsv.tmp" ]; then
		t_notok "$name" 'left a result file'
	else
		t_ok "$name"
	fi
}
if ! command -v "$qemu" >/dev/null; then
	t_skip qemu-refuses "no $qemu"
else
	refuse qemu-refuses-no-out 'out=PATH is missing'
	refuse qemu-refuses-sets '96 sets is not a power of two' "out=$tmp/r.tsv" l1d=48K:8:64
	refuse qemu-refuses-zero 'the ways must be' "out=$tmp/r.tsv" l1i=32K:0:64
	refuse qemu-refuses-rubbish 'not SIZE:WAYS:LINE' "out=$tmp/r.tsv" llc=big
	refuse qemu-refuses-key 'unknown option' "out=$tmp/r.tsv" icache=32K
	refuse qemu-refuses-folder 'No such file' "out=$tmp/none/r.tsv"
fi

# --- booted
boot()		# SMP APPEND RESULT LOG [PLUGIN-OPTION]
{
	rc=0
	timeout 300 "$qemu" -nodefaults -no-user-config -display none -no-reboot -m 512 \
		-accel tcg,thread=single -smp "$1" -icount shift=0,sleep=off -seed 42 \
		-rtc clock=vm,base=2026-01-01 -kernel "$kernel" -initrd "$tmp/initrd" \
		-serial stdio -append "console=ttyS0 nokaslr norandmaps panic=-1 quiet $2" \
		-plugin "$so,out=$3${5-}" >"$4" 2>&1 || rc=$?
}
calibrated()	# NAME LOG RESULT
{
	if [ "$rc" -ne 0 ]; then
		t_notok "$1" "qemu: exit status $rc, 124 is the time limit of 300 s"
		return
	fi
	if "$top/scripts/calib-check" "$2" "$3" >"$tmp/out" 2>&1; then
		t_ok "$1"
	else
		t_notok "$1" "$(grep -m 1 '^off' "$tmp/out" | tr '\t' ' ') $(tail -n 1 "$tmp/out")"
	fi
}
[ $# = 2 ] || t_done	# full.sh gives a kernel; count.sh boots one by default
kernel=$1
cat >"$tmp/roi-init.c" <<'E'
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	if (!fork())
		execl("/roi", "roi", "77", "--", "/calibrate", (char *)0);
	wait(0);
	return reboot(RB_AUTOBOOT);
}
E
cc -O2 -static -no-pie -o "$tmp/roi-init" "$tmp/roi-init.c"
(cd "$tmp" && printf '%s\n' calibrate roi roi-init | cpio -o -H newc >"$tmp/add.cpio" 2>"$tmp/cpio.err")
cat "$2" "$tmp/add.cpio" >"$tmp/initrd"

boot 1 rdinit=/calibrate "$tmp/k1.tsv" "$tmp/log1"
calibrated boot-calibration "$tmp/log1" "$tmp/k1.tsv"
boot 1 rdinit=/calibrate "$tmp/k2.tsv" "$tmp/log2"
passes boot-identical cmp "$tmp/k1.tsv" "$tmp/k2.tsv" || :

# Without the caches everything else must be counted the same.
boot 1 rdinit=/calibrate "$tmp/k3.tsv" "$tmp/log3" ,cache=off
for k in k1 k3; do
	grep '^region' "$tmp/$k.tsv" | cut -f1-10,14,15 >"$tmp/$k.cut" || :
done
passes boot-cache-off cmp "$tmp/k1.cut" "$tmp/k3.cut" || :

boot 2,sockets=2 rdinit=/calibrate "$tmp/k4.tsv" "$tmp/log4"
if grep -q "^calib${tab}skip${tab}ping-pong" "$tmp/log4"; then
	t_skip boot-calibration-2-vcpus 'the kernel brings up one CPU'
else
	calibrated boot-calibration-2-vcpus "$tmp/log4" "$tmp/k4.tsv"
fi

# The region of roi holds all those of the program it runs.
boot 1 rdinit=/roi-init "$tmp/k5.tsv" "$tmp/log5"
# shellcheck disable=SC2016 # awk's fields
passes boot-roi awk -F "$tab" '$1 == "region" && $3 == "user" { n[$2] = $6; all += $2 >= 100 ? $6 : 0 }
	END { if (!n[77] || !n[100] || n[77] <= all - n[114]) { print "77 has " n[77] " of " all; exit 1 } }' \
	"$tmp/k5.tsv" || :
t_done
