#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# count.sh - scripts/boot --count on the stock kernel: the known-answer code is
# counted right, the same image twice gives the same bytes, and the checks of
# both can fail. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

build=$("$top/scripts/build" --series stock 2>"$tmp/err") || { t_notok build "$(tail -n 1 "$tmp/err")"; t_done; }
for n in 1 2; do
	t_run "$top/scripts/boot" --count cache=on "$build" "$tmp/run-$n"
	cat "$tmp/err" >&2
	t_expect "boot $n" 0 'icount shift=0'
done
if tail -n 1 "$tmp/run-1/calibration" | grep -qE '^calibration good: [1-9][0-9]+ ok, 0 off'; then
	t_ok "$(tail -n 1 "$tmp/run-1/calibration")"
else
	t_notok calibration "$(tail -n 1 "$tmp/run-1/calibration")"
fi
if cmp -s "$tmp/run-1/kcount.tsv" "$tmp/run-2/kcount.tsv"; then
	t_ok "the same image twice: the same $(wc -l <"$tmp/run-1/kcount.tsv") lines"
else
	t_notok 'the same image twice' "$(diff "$tmp/run-1/kcount.tsv" "$tmp/run-2/kcount.tsv" | head -n 2 | tr '\n' ' ')"
fi

# Without icount the clock is the host's: the comparison above must see it.
for n in 1 2; do
	sed "s/^\$ //; s/ -icount [^ ]*//; s|file:[^ ]*/|file:$tmp/noicount-$n-|g; s|,out=[^,]*|,out=$tmp/noicount-$n.tsv|" \
		"$tmp/run-1/cmd" >"$tmp/noicount-$n.sh"
	sh "$tmp/noicount-$n.sh" >"$tmp/noicount-$n.log" 2>&1 </dev/null || cat "$tmp/noicount-$n.log" >&2
done
if [ -s "$tmp/noicount-1.tsv" ] && [ -s "$tmp/noicount-2.tsv" ] &&
   ! cmp -s "$tmp/noicount-1.tsv" "$tmp/noicount-2.tsv"; then
	t_ok 'without icount two boots differ'
else
	t_notok 'without icount two boots differ' "they do not, or left no result: $(tail -n 1 "$tmp/noicount-1.log")"
fi

# They can fail: one instruction more in a region, another geometry.
awk -F '\t' -v OFS='\t' '$1 == "region" && $2 == 100 && $3 == "user" { $6++ } { print }' \
	"$tmp/run-1/kcount.tsv" >"$tmp/off.tsv"
t_run "$top/scripts/calib-check" "$tmp/run-1/calib.tsv" "$tmp/off.tsv"
t_expect 'one instruction too many is refused' 1 '^calibration off: .*refuse this result'
t_run "$top/scripts/boot" --count l1d=48K:8:64 "$build" "$tmp/bad"
t_expect 'sets that are no power of two' 4 'l1d.*power of two'
t_run "$top/scripts/boot" --count l1i=16K:8:64,l1d=48K:12:64 "$build" "$tmp/small"
t_expect 'another geometry, known to calibrate' 0 'l1d=48K:12:64'
t_run "$top/scripts/boot" --count cache=off "$build" "$tmp/off"
t_expect 'without the cache model' 0 'cache=off'
t_run "$top/scripts/boot" --count cache=on --append l1d=16K:8:64 "$build" "$tmp/other"
t_expect 'another geometry than calibrate expects' 8 'calibrate expects'
t_run "$top/scripts/boot" --list count "$build" "$tmp/list"
t_expect 'a list for nothing' 2 'for --count'
t_run "$top/scripts/boot" --accel kvm --count cache=on "$build" "$tmp/kvm"
t_expect 'not under KVM' 2 'not under KVM'
t_done
