#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Tests of scripts/ab.c: goldens, symmetry, error rates, power, t quantiles.
# Usage: scripts/t/ab.sh
# Output: "ok NAME", "not ok NAME: why" or "skip NAME: reason" per test, last line 1..N.
# Exit: 0 if nothing is "not ok", else 1. CC (default cc) compiles.
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
src=$top/scripts/ab.c
data=$top/scripts/testdata/ab
CC=${CC:-cc}
t_tmp
export LC_ALL=C


# ab BUILD ARGS: run a build; leaves $rc, $tmp/out, $tmp/err
ab() {
	ab_build=$1
	shift
	rc=0
	"$tmp/$ab_build" "$@" >"$tmp/out" 2>"$tmp/err" || rc=$?
}

# is NAME TRUE WHY: one test line; TRUE is 1 or 0, the value of a shell expression
is() { if [ "$2" = 1 ]; then t_ok "$1"; else t_notok "$1" "$3"; fi; }

# same NAME FILE FILE: one test line, the files must be the same bytes
same() { if cmp -s "$2" "$3"; then t_ok "$1"; else t_notok "$1" "$2 has other bytes"; fi; }

# other INPUT: the second file of a golden
other() {
	if [ -f "$1.patched.tsv" ]; then echo "$1.patched.tsv"; else echo "$1.stock.tsv"; fi
}

# verdicts FILE: metric and verdict
verdicts() { awk -F'\t' 'NR > 1 { print $1 "\t" $11 }' "$1"; }

# share "VERDICT|VERDICT": how many metrics of $tmp/out have one of these verdicts
share() {
	awk -F'\t' -v want="|$1|" '
	NR > 1 && index(want, "|" $11 "|") { n++ }
	END { print n + 0 }' "$tmp/out"
}

# synth PAIRS BOOTS PER_BOOT SHIFT BOOT_SD DIST: $tmp/s.tsv and $tmp/p.tsv with mean 100 and sd 1
# (Park and Miller's generator, so that every awk draws the same numbers)
synth() {
	awk -v m="$1" -v boots="$2" -v per="$3" -v shift="$4" -v bsd="$5" -v dist="$6" -v dir="$tmp" '
	function u() { x = (16807 * x) % 2147483647; return x / 2147483647 }
	function normal() { return sqrt(-2 * log(u())) * cos(6.283185307179586 * u()) }
	function draw() {
		return dist == "uniform" ? u() : normal() + (dist == "two" ? 14 * (k % 2) : 0)
	}
	BEGIN {
		x = 20260101
		for (f = 0; f < 2; f++) {
			out = dir (f ? "/p.tsv" : "/s.tsv")
			print "boot\tmetric\tunit\tkind\tvalue" > out
			for (i = 0; i < m; i++)
				for (b = 0; b < boots; b++) {
					e = bsd > 0 ? bsd * normal() : 0
					for (j = 0; j < per; j++) {
						k++
						printf "b%02d\tm%04d\tus\ttime\t%.6f\n", b, i, 100 + f * shift + e + draw() > out
					}
				}
		}
	}'
}

cd "$data"
# compile OUTPUT SOURCE FLAGS...
compile() {
	out=$1 in=$2
	shift 2
	# shellcheck disable=SC2086 # $CC may be a compiler with options
	if ! $CC -std=c11 -O2 -Wall -Wextra -Wconversion -Werror "$@" -o "$tmp/$out" "$in" -lm \
			2>"$tmp/err"; then
		t_notok "compile $out" "$(grep -m 1 error "$tmp/err" || echo "$CC failed")"
		t_done
	fi
	t_ok "compile $out"
}
compile strict "$src"
compile asan "$src" -g -fsanitize=address,undefined -fno-sanitize-recover=all

# goldens
while read -r name want input opt; do
	case $name in '' | '#'*) continue ;; esac
	for build in strict asan; do
		ab "$build" ${opt:+"$opt"} "$input.stock.tsv" "$(other "$input")"
		why=
		for s in out err; do
			if [ -f "$name.$s" ]; then
				cmp -s "$name.$s" "$tmp/$s" || why="std$s is not $name.$s"
			elif [ -s "$tmp/$s" ]; then
				why="std$s has: $(head -n 1 "$tmp/$s")"
			fi
		done
		[ -f "$name.out" ] || [ -f "$name.err" ] || why="no golden file"
		[ "$rc" = "$want" ] || why="exit status $rc instead of $want"
		if [ "$why" ]; then t_notok "golden $name $build" "$why"; else t_ok "golden $name $build"; fi
	done
done <cases

# every input on its own: no winner; the files exchanged: the mirrored verdict
while read -r name want input opt; do
	case $name in '' | '#'* | mm-*) continue ;; esac
	[ -f "$name.out" ] || continue
	for f in "$input".stock.tsv "$input".patched.tsv; do
		[ -f "$f" ] || continue
		ab strict "$f" "$f"
		is "A/A $name ${f#"$input".}" $(($(share 'lower|higher') == 0)) "a winner against itself"
	done
	ab strict "$(other "$input")" "$input.stock.tsv"
	verdicts "$name.out" | sed 's/lower$/x/; s/higher$/lower/; s/x$/higher/' >"$tmp/want"
	verdicts "$tmp/out" >"$tmp/got"
	if cmp -s "$tmp/want" "$tmp/got" && [ "$rc" = "$want" ]; then
		t_ok "mirror $name"
	else
		t_notok "mirror $name" "$(diff "$tmp/want" "$tmp/got" | sed -n 2p), exit status $rc"
	fi
done <cases

# input order
for name in twoboots bimodal zero win; do
	for s in stock patched; do
		awk 'NR == 1 { print; next } { l[NR] = $0 } END { for (i = NR; i > 1; i--) print l[i] }' \
			"$name.$s.tsv" >"$tmp/$s"
	done
	ab strict "$tmp/stock" "$tmp/patched"
	same "order $name" "$name.out" "$tmp/out"
done

# seeds: another seed gives other intervals for noise, but the same verdict in clear cases
ab strict --seed 1 noise.stock.tsv noise.patched.tsv
same "seed default is 1" noise.out "$tmp/out"
ab strict --seed 7 noise.stock.tsv noise.patched.tsv
cp "$tmp/out" "$tmp/seven"
ab strict --seed 7 noise.stock.tsv noise.patched.tsv
same "seed repeats" "$tmp/seven" "$tmp/out"
if cmp -s noise.out "$tmp/out"; then t_notok "seed matters" "same bytes"; else t_ok "seed matters"; fi
for name in win loss even noise twoboots; do
	verdicts "$name.out" >"$tmp/want"
	why=
	for seed in 2 3 4 5 18446744073709551615; do
		ab strict --seed "$seed" "$name.stock.tsv" "$name.patched.tsv"
		verdicts "$tmp/out" >"$tmp/got"
		cmp -s "$tmp/want" "$tmp/got" || why="other verdict with seed $seed"
	done
	if [ "$why" ]; then t_notok "seeds agree $name" "$why"; else t_ok "seeds agree $name"; fi
done

# error rates: at most 8 % false positives, and a clear shift is found
for n in 5 10; do
	synth 200 "$n" 1 0 0 normal
	ab strict "$tmp/s.tsv" "$tmp/p.tsv"
	k=$(share 'lower|higher')
	is "false positives, n=$n" $((k <= 16 && $(share 'no difference shown') > 180)) "$k of 200"
done
synth 200 5 4 0 2 normal
ab strict "$tmp/s.tsv" "$tmp/p.tsv"
k=$(share 'lower|higher')
is "false positives, 5 boots that differ" $((k <= 16)) "$k of 200"
synth 100 10 1 5 0 normal
ab strict "$tmp/s.tsv" "$tmp/p.tsv"
k=$(share higher)
is "power, 5 % shift and 1 % noise, n=10" $((k >= 99)) "$k of 100 found"
# the notes' smallest visible change is 1.6 % on average here: to be found in 80 %, +- 8 %
synth 200 10 1 1.6 0 normal
ab strict "$tmp/s.tsv" "$tmp/p.tsv"
k=$(share higher)
is "power, smallest visible change" $((k >= 144 && k <= 176)) "$k of 200 found"
synth 200 10 1 0 0 normal
ab strict "$tmp/s.tsv" "$tmp/p.tsv"
k=$(awk -F'\t' '
	{ split($12, w, " ") }
	w[1] == "smallest" { sum += w[4]; n++ }
	END { print n ? int(100 * sum / n) : 0 }' "$tmp/out")
is "smallest visible change, n=10" $((k >= 145 && k <= 175)) "mean $k/100 % instead of 1.6 %"
for n in 8 20; do
	synth 400 "$n" 1 0 0 uniform
	ab strict "$tmp/s.tsv" "$tmp/p.tsv"
	k=$(share bimodal)
	is "bimodal in uniform data, n=$n" $((k <= 16)) "$k of 800 sides"
	synth 100 "$n" 1 0 0 two
	ab strict "$tmp/s.tsv" "$tmp/p.tsv"
	k=$(share bimodal)
	is "bimodal found, n=$n" $((k >= 95)) "$k of 100"
done

# t quantiles against the tables
cat >"$tmp/t.c" <<'EOF'
#define main ab_main
#include AB_C
#undef main
int main(void)
{
	static const double want[][2] = {
		{ 1, 12.706205 }, { 2, 4.302653 }, { 5, 2.570582 }, { 10, 2.228139 },
		{ 30, 2.042272 }, { 1000, 1.962339 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		if (fabs(t_quantile(0.95, want[i][0]) - want[i][1]) > 1e-6)
			die("t(0.95, %g) = %.7f", want[i][0], t_quantile(0.95, want[i][0]));
	return 0;
}
EOF
compile tquant "$tmp/t.c" -DAB_C="\"$src\""
if "$tmp/tquant" 2>"$tmp/err"; then t_ok "t quantiles"; else t_notok "t quantiles" "$(head -n 1 "$tmp/err")"; fi

# command line; every complaint is one line and nothing else is printed
ab strict -h
is "-h" $((rc == 0 && $(grep -c '^  ab ' "$tmp/out") == 2)) "exit status $rc or not two examples"
bad() {
	name=$1
	shift
	ab strict "$@"
	is "$name" $((rc == 2 && $(wc -l <"$tmp/err") == 1 && $(wc -c <"$tmp/out") == 0)) \
		"exit status $rc, or not one line on stderr"
}
bad "no files"
bad "one file" win.stock.tsv
bad "three files" win.stock.tsv win.patched.tsv win.patched.tsv
bad "unknown option" --median win.stock.tsv win.patched.tsv
bad "missing file" win.stock.tsv "$tmp/none.tsv"
bad "folder" win.stock.tsv "$tmp"
bad "seed missing" win.stock.tsv win.patched.tsv --seed
bad "seed negative" --seed -1 win.stock.tsv win.patched.tsv
bad "seed too large" --seed 18446744073709551616 win.stock.tsv win.patched.tsv
if [ -c /dev/full ]; then
	rc=0
	"$tmp/strict" win.stock.tsv win.patched.tsv >/dev/full 2>"$tmp/err" || rc=$?
	is "full disk" $((rc == 2)) "exit status $rc"
else
	t_skip "full disk" "no /dev/full"
fi

# another compiler, no optimisation: the same bytes
if clang=$(command -v clang); then
	CC=$clang
	compile clang "$src" -O0
	why=
	for name in noise equal twoboots zero; do
		ab clang "$name.stock.tsv" "$(other "$name")"
		cmp -s "$name.out" "$tmp/out" || why="other bytes for $name"
	done
	if [ "$why" ]; then t_notok "clang -O0" "$why"; else t_ok "clang -O0"; fi
else
	t_skip "clang -O0" "no clang"
fi
t_done
