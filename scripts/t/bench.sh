#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# bench.sh - scripts/bench: what it refuses; with a build and a boot that are
# fakes, each verdict and each way to fail; with real kernels, one instruction
# more is found. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

repo=$tmp/repo
mkdir -p "$repo/selftests"
cp -r "$top/scripts" "$top/patches" "$repo/"
cp -r "$top/selftests/bench" "$repo/selftests/"
printf '2\tpipe\t10\tsome pipe\n3\tloop\t10\tsome.ko\n' >"$repo/selftests/bench/jump-label.list"
cat >"$repo/scripts/build" <<'F'
#!/bin/sh
# a build is its arguments
for arg; do
	case $arg in *.patch) [ -r "$arg" ] || exit 2 ;; esac
done
case "$*" in
*irrelevant*) echo irrelevant ;;
*order-?.patch*) echo "$*" | sed 's/.*\(order-.\).*/\1/' ;;
*"--series stock"*) echo stock ;;
*) echo patched ;;
esac
F
cat >"$repo/scripts/boot" <<'F'
#!/bin/sh
# --count OPTIONS --list LIST --append WORDS BUILD RUN
mkdir -p "$8"
base=1000
case $7 in irrelevant) base=1008 ;; order-1) base=990 ;; order-?) base=1001 ;; patched) base=$PATCHED ;; esac
case $6 in *mem=*) m=${6##*mem=}; base=$((base + (${m%M} * 3) % 5)) ;; esac
case $8 in *again) base=$((base + ${AGAIN:-0})) ;; esac
printf '# kcount\t1\nsection\troi\tmode\tname\tentries_n\tinsns_n\tl1i_miss_n\n' >"$8/kcount.tsv"
printf 'region\t%s\tkernel\t-\t1\t%s\t5\n' 2 $base 3 7 4 $base >>"$8/kcount.tsv"
printf 'pipe/refills\tn\tcount\t%s\r\n' $((base / 10)) >"$8/samples.tsv"
printf '%s\n' "${KTAP:-ok 1 bench/pipe}" >"$8/ktap"
echo "${STATUS:-ended}" >"$8/status"
F
bench()
{
	t_run "$repo/scripts/bench" --no-install --out "$tmp/out dir" "$@"
	result="$tmp/out dir/7.3/bench/jump-label/last/bench.tsv"
}
found()	# NAME LINE
{
	if [ "$rc" = 0 ] && grep -qxF -e "$(printf '%s' "$2" | tr ' ' '\t' | tr _ ' ')" "$result"; then
		t_ok "$1"
	else
		t_notok "$1" "status $rc, not in it: $2; it has $(grep -m 1 "^${2%% *}" "$result" | tr '\t' ' ')"
	fi
}

bench
t_expect 'no name' 2 '^bench: needs a NAME'
bench nothing
t_expect 'a name that is no bench' 2 "^bench: no bench 'nothing'"
bench --boots 4 jump-label
t_expect 'too few boots' 2 'fewer than 5 samples show nothing'
bench --boots x jump-label
t_expect 'boots that are no number' 2 'neither 1 nor 5 to 99'
bench --base 9.9 jump-label
t_expect 'no such base' 2 "no base '9.9'"
bench --list
t_expect 'list' 0 '^jump-label$'

# scripts/fields, before it builds
t_run "$top/scripts/fields" --no-install nothing
t_expect 'fields of no row' 2 "^fields: no row 'nothing' .there are: pipe-2 "
t_run "$top/scripts/fields" --no-install --series nothing
t_expect 'fields of no series' 2 "^fields: .*nothing"
t_run "$top/scripts/fields" --no-install --base 9.9
t_expect 'fields of no base' 2 "no base '9.9'"

# The real lists: four fields, ids and names once; the patches of the columns are there.
bad=$(awk -F '\t' '/^#/ || NF == 0 { next }
	NF != 4 || $2 "" == "" || $3 !~ /^[1-9][0-9]*$/ || $1 !~ /^[0-9]+$/ || $1 < 2 || $1 > 99 ||
		seen[FILENAME, $1]++ || seen[FILENAME, $2]++ { print FILENAME ": " $0 ";" }' "$top"/selftests/bench/*.list)
if [ -z "$bad" ]; then t_ok 'lists'; else t_notok 'lists' "$bad"; fi
bad=$(grep -ohE '[^ ]+\.patch' "$top"/selftests/bench/*.columns | while read -r f; do
	ls "$top"/scripts/testdata/*/*/"$f" >/dev/null 2>&1 || echo "$f;"
done)
if [ -z "$bad" ]; then t_ok 'patches of the columns'; else t_notok 'patches of the columns' "not there: $bad"; fi

PATCHED=1000 export PATCHED
bench jump-label
found 'the same twice is equal' 'pipe 10 insns patched 1000 1000 +0.0000 -1.0000 +0.8000 equal stock'
if [ "$(cut -f10 "$result" | sort -u | tr '\n' ' ')" = 'equal verdict ' ]; then t_ok 'no winner among equals'; else t_notok 'no winner among equals' "$(cut -f10 "$result" | sort -u | tr '\n' ' ')"; fi
found 'what the guest counted' 'pipe 10 refills patched 100 100 +0.0000 -1.0000 +0.0000 equal stock'
PATCHED=991
bench jump-label
found 'inside the null range' 'pipe 10 insns patched 1000 991 -0.9000 -1.0000 +0.8000 not_significant stock'
PATCHED=980
bench jump-label
found 'below the null range' 'pipe 10 insns patched 1000 980 -2.0000 -1.0000 +0.8000 lower stock'
PATCHED=1009
bench jump-label
found 'above the null range, but not beyond its other end' \
	'pipe 10 insns patched 1000 1009 +0.9000 -1.0000 +0.8000 not_significant stock'
PATCHED=1011
bench jump-label
found 'above the null range' 'pipe 10 insns patched 1000 1011 +1.1000 -1.0000 +0.8000 higher stock'
PATCHED=1003
bench --no-controls jump-label
found 'no null range, no verdict' 'pipe 10 insns patched 1000 1003 +0.3000 - - higher,_no_null stock'
# A mutant of the series is found by its name, as a control is.
printf 'stock\t--series stock\nmutant\t--series @SERIES@ --mutant jump-label.second-entry.patch\n' >"$repo/selftests/bench/jump-label.columns"
bench --no-controls jump-label
found 'a mutant for a column' 'pipe 10 insns mutant 1000 1003 +0.3000 - - higher,_no_null stock'
printf 'one\t--series stock\ntwo\t--series @SERIES@\twords\nthree\t--series @SERIES@\t\ttwo\n' >"$repo/selftests/bench/jump-label.columns"
bench --no-controls jump-label
found 'kernels of its own' 'pipe 10 insns two 1000 1003 +0.3000 - - higher,_no_null one'
found 'compared with another than the first' 'pipe 10 insns three 1003 1003 +0.0000 - - equal two'
sed -i 's/two$/four/' "$repo/selftests/bench/jump-label.columns"
bench --no-controls jump-label
t_expect 'compared with none' 2 "jump-label.columns: there is no kernel 'four'"
bench --no-controls --stock-patched jump-label
found 'stock and patched all the same' 'pipe 10 insns patched 1000 1003 +0.3000 - - higher,_no_null stock'
rm "$repo/selftests/bench/jump-label.columns"
PATCHED=1100
bench --boots 5 jump-label
if [ "$rc" = 0 ] && grep -q "^pipe${t_tab:=$(printf '\t')}10${t_tab}insns${t_tab}patched${t_tab}1001${t_tab}1101${t_tab}+9.9900${t_tab}.*${t_tab}higher${t_tab}stock\$" "$result"; then
	t_ok 'five boots through ab'
else
	t_notok 'five boots through ab' "status $rc: $(grep '^pipe' "$result")"
fi
AGAIN=1 export AGAIN
bench jump-label
t_expect 'the same image twice, two results' 1 'nothing here is to be believed'
AGAIN=0
STATUS='panic: x' export STATUS
bench jump-label
t_expect 'a boot that did not end well' 2 'did not end well: .*panic: x'
STATUS=ended
KTAP='not ok 1 bench/pipe' export KTAP
bench jump-label
t_expect 'a row that failed' 2 'a row failed in the guest: .*not ok 1 bench/pipe'
unset STATUS KTAP AGAIN PATCHED

# The real thing: +1,000 instructions, nothing else, whatever the links do.
t_run "$top/scripts/bench" --out "$tmp/real" control
cat "$tmp/out" "$tmp/err" >&2
result=$tmp/real/7.3/bench/control/last/bench.tsv
t_expect 'control counted' 0 'plus-one'
plus=$(awk -F '\t' '$1 == "key-loop" && $3 == "insns" { print $6 - $5, $8, $9, $10 }' "$result")
if [ "$plus" = '1000 +0.0000 +0.0000 higher' ]; then
	t_ok 'one instruction in 1,000 calls: +1000; irrelevant text and link orders: 0'
else
	t_notok 'one instruction in 1,000 calls' "$plus"
fi
t_done
