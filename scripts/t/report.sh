#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# report.sh - what scripts/report says of RUN folders made from golden KTAP and
# a small file of expectations. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp
report=$top/scripts/report
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME

{
	echo '# base series test stock patched'
	echo
	printf '%s\t%s\t%s\t%s\t%s\n' \
		b jl jl/order fail pass  b jl jl/config skip skip \
		b jl jl pass pass  b ctl ctl/start pass pass \
		b two two/x fail pass  other jl only/there pass pass \
		c jl jl/order fail skip  c jl jl/config pass pass
	printf '%s\t%s\t%s\t%s\t%s\t%s\n' c jl jl/order fail pass stats  c jl jl/only pass pass stats
	printf '%s\t%s\t%s\t%s\t%s\n' c jl jl/order fail skip \
		q jl "q/it's \"a\\b\" \\n &<%s" pass pass
} >"$tmp/expected"

# mk NAME SERIES [BASE [CONFIG]]: a RUN folder of a boot that ended, KTAP from stdin
mk()
{
	rm -rf "${tmp:?}/$1"
	mkdir "$tmp/$1"
	printf 'base=%s\nseries=%s\nconfig=%s\ntree=12ab\naccel=tcg\ncmdline=a=b c\n' "${3:-b}" "$2" "${4:-bench}" >"$tmp/$1/meta"
	echo ended >"$tmp/$1/status"
	cat >"$tmp/$1/ktap"
}

# log ORDER TWO [PARENT]: KTAP with all that is expected of base b; the words
# are the results of jl/order, two/x and jl
log()
{
	cat <<-LOG
	KTAP version 1
	1..3
	  KTAP version 1
	  1..2
	  # a diagnostic
	  $1 1 order
	  ok 2 config # SKIP CONFIG_X is not set
	${3:-ok} 1 jl
	ok 2 ctl/start
	$2 3 two/x
	# init: done
	LOG
}

# judge NAME STATUS PATTERN RUN: report ends so, and the files say so
judge()
{
	dir=$tmp/$4
	t_run "$report" --expected "$tmp/expected" "$dir"
	same "$1" "$2" "$3"
}

# same NAME STATUS PATTERN: report ended so; RUN/verdict and its problems,
# stdout and RUN/report.json say the same, and a line of them PATTERN.
same()
{
	why='' word=FAIL first=''
	[ "$2" != 0 ] || word=PASS
	[ ! -r "$dir/verdict" ] || IFS= read -r first <"$dir/verdict" || :
	if [ "$rc" != "$2" ]; then why="status $rc, wanted $2: $(tail -n 1 "$tmp/err")"
	elif [ "${first%% *}" != $word ]; then why="RUN/verdict says '$first'"
	elif ! grep -qxF -e "$first" "$tmp/out"; then why="stdout does not say '$first'"
	elif ! grep -qE -e "$3" "$dir/verdict"; then why="RUN/verdict does not say '$3': $first"
	elif [ -e "$dir/verdict.tmp" ]; then why="a half-written file is left"
	elif ! jq -e --rawfile all "$dir/verdict" '($all | split("\n")) as $v |
		.text == $v[0] and (.verdict | ascii_upcase) == ($v[0] | split(" ")[0]) and
		.problems == $v[1:-1] and (.verdict == "pass") == (.problems == []) and
		.meta.tree == "12ab" and .meta.cmdline == "a=b c"' "$dir/report.json" >/dev/null 2>"$tmp/jq"; then
		why="report.json: another verdict, other problems or no JSON: $(cat "$tmp/jq")"
	fi
	if [ -z "$why" ]; then t_ok "$1"; else t_notok "$1" "$why"; fi
}

# json NAME RUN FILTER [ARGS...]: the filter says true of RUN/report.json
json()
{
	name=$1 file=$tmp/$2/report.json filter=$3
	shift 3
	if jq -e "$@" "$filter" "$file" >/dev/null 2>&1; then
		t_ok "$name"
	else
		t_notok "$name" "$(jq -c .tests "$file" 2>&1)"
	fi
}

# together STATUS: one call of report for all runs since the last such call,
# then each by itself
set_up=$tmp/set_up
: >"$set_up"
together()
{
	set --
	while IFS='	' read -r name pattern; do set -- "$@" "$tmp/$name"; done <"$set_up"
	t_run "$report" --expected "$tmp/expected" "$@"
	while IFS='	' read -r name pattern; do
		dir=$tmp/$name
		same "$name" 1 "$pattern"
	done <"$set_up"
}

# what is as expected
log ok ok | mk all all
judge all_as_expected 0 '^PASS b/all: 4 pass, 1 skip as expected$' all
log 'not ok' 'not ok' 'not ok' | mk red all
judge red_on_patched 1 '^FAIL b/all: jl/order: fail, expected pass \(and 2 more\)$' red
json table_in_json red '[.tests[] | select(.verdict != .expected) | .test] == ["jl/order", "jl", "two/x"] and
	([.tests[] | select(.test == "jl/config")] == [{test: "jl/config", verdict: "skip", expected: "skip", detail: "CONFIG_X is not set"}])'
if grep -qx '  \* fail (due pass) jl/order' "$tmp/out" && grep -qx '    skip (due skip) jl/config: CONFIG_X is not set' "$tmp/out" &&
   grep -qx '  problem: two/x: fail, expected pass' "$tmp/out"; then
	t_ok table
else
	t_notok table "no line for jl/order, jl/config or two/x on stdout"
fi

# stock: the same log without a nested block, so that its parent may be green
flat() { printf 'KTAP version 1\n1..5\n%s 1 jl/order\nok 2 jl/config # SKIP x\nok 3 jl\nok 4 ctl/start\n%s 5 two/x\n' "$1" "$2"; }
flat 'not ok' 'not ok' | mk stock stock
judge stock_as_expected 0 '^PASS b/stock: 2 fail, 2 pass, 1 skip as expected$' stock
printf 'KTAP version 1\n1..2\nok 1 jl/order # SKIP x\nok 2 jl/config\n# init: done\n' | mk config_none all c
judge row_without_configuration 0 '^PASS c/all: 1 pass, 1 skip as expected$' config_none
printf 'KTAP version 1\n1..3\nok 1 jl/order\nok 2 jl/config\nok 3 jl/only\n# init: done\n' >"$tmp/config"
mk config_own all c stats <"$tmp/config"
judge row_of_the_configuration 0 '^PASS c/all: 3 pass as expected$' config_own
mk config_other all c bench <"$tmp/config"
judge row_of_another_configuration 1 '^FAIL c/all: jl/order: pass, expected skip \(and 1 more\)$' config_other
flat ok 'not ok' | mk alone jl
judge one_series_alone 0 '^PASS b/jl: ' alone
# what is not
wrong()	# NAME PATTERN SED-COMMAND: the good log after SED
{
	log ok ok | sed "$3" | mk "$1" all
	printf '%s\t%s\n' "$1" "$2" >>"$set_up"
}
like()	# NAME PATTERN [SERIES [BASE]]: the log on stdin
{
	mk "$1" "${3:-all}" "${4:-b}"
	printf '%s\t%s\n' "$1" "$2" >>"$set_up"
}
wrong unexpected_skip '^ctl/start: unexpected SKIP: no module$' 's/^ok 2 ctl.*/& # SKIP no module/'
wrong unexpected_skip_without_reason '^ctl/start: unexpected SKIP: no reason given$' 's/^ok 2 ctl.*/& # SKIP/'
wrong expected_skip_did_not_come '^jl/config: pass, expected skip$' 's/ # SKIP.*//'
wrong never_ran '^two/x: never ran$' '/two/d; s/^1\.\.3/1..2/'
wrong not_expected '^new/y: not in selftests/expected$' 's/^1\.\.3/1..4/; s/^ok 3 .*/&\nok 4 new\/y/'
wrong timeout '^ctl/start: timeout, expected pass$' 's/^ok 2 ctl.*/not &# TIMEOUT 300 seconds/; s/start#/start #/'
wrong plan_does_not_add_up 'plan does not add up: planned 4, seen 3' 's/^1\.\.3/1..4/'
wrong nested_plan_does_not_add_up '^KTAP of jl: .*planned 3, seen 2' 's/^  1\.\.2/  1..3/'
wrong two_plans 'second plan' 's/^1\.\.3/&\n&/'
wrong no_plan 'no plan' '/^1\.\.3/d'
wrong truncated_after_a_test '^two/x: never ran$' '/two/Q'
wrong truncated_in_a_block 'truncated' '/^ok 1 jl/Q'
wrong hidden_failure 'parent hides the failure of a child' 's/ok 1 order/not &/'
wrong duplicate_path '^ctl/start: reported twice$' 's/^1\.\.3/1..4/; s/^ok 3 .*/&\nok 4 ctl\/start/'
wrong duplicate_number 'duplicate number 2' 's/^ok 3 /ok 2 /'
wrong only_noise 'never ran' 's/.*/hello/'
wrong test_of_another_base '^only/there: not in selftests/expected$' 's/^1\.\.3/1..4/; s/^ok 3 .*/&\nok 4 only\/there/'
{ log ok ok; head -c 64 /dev/zero; echo; } | like binary_noise 'binary noise'
log ok ok | head -c -1 | like last_line_cut truncated
like empty_ktap 'empty input' </dev/null
log ok ok | like nothing_expected_of_that_base 'names no test for base nobase' all nobase
flat ok 'not ok' | like green_on_stock '^jl/order: pass, expected fail$' stock
flat ok ok | like green_without_its_series '^two/x: pass, expected fail$' jl
# the boot's own word
log ok ok | like empty_status '^boot: '
: >"$tmp/empty_status/status"
log ok ok | like status_not_ended '^boot: bad console line: 7:WARNING: "x\\y" %s$'
printf 'bad console line: 7:WARNING: "x\\y" %%s\n' >"$tmp/status_not_ended/status"
log ok ok | like status_almost_ended '^boot: not ended$'
echo 'not ended' >"$tmp/status_almost_ended/status"
printf 'KTAP version 1\n1..1\nnot ok 1 %s # "why\\" \t %%d\n' "x\"\\y" | like odd_unexpected_name '^x"\\y: not in selftests/expected$'
together

log ok ok | mk wrong all
: >"$tmp/none"
t_run "$report" --expected "$tmp/none" "$tmp/wrong"
dir=$tmp/wrong
same nothing_expected_at_all 1 'names no test for base b'

for case in 'unexpected_skip:unexpected SKIP' 'hidden_failure:hides' 'status_not_ended:^boot: ' 'two_plans:second plan'; do
	judge "${case%%:*} alone" 1 "${case#*:}" "${case%%:*}"
done
rm "$tmp/wrong/status"
judge no_status 1 '^the boot has no status: it was interrupted$' wrong

# names that JSON and printf could stumble over
printf 'KTAP version 1\n1..1\nok 1 %s\n' "q/it's \"a\\b\" \\n &<%s" | mk names all q
judge odd_name 0 '^PASS q/all: 1 pass as expected$' names
json odd_name_in_json names '[.tests[].test] == ["q/it\u0027s \"a\\b\" \\n &<%s"]'

# two runs: both get their verdict, and one bad is bad
log ok ok | mk good all
log ok ok | mk bad all
rm "$tmp/bad/status"
for order in 'bad good' 'good bad'; do
	rm -f "$tmp/good/verdict" "$tmp/bad/verdict"
	# shellcheck disable=SC2086 # two names
	t_run env -C "$tmp" "$report" --expected expected $order
	dir=$tmp/bad
	same "$order: status and FAIL" 1 'no status'
	rc=0 dir=$tmp/good
	same "$order: PASS beside it" 0 '^PASS'
done

# golden KTAP, all of its results due: only a defect of form is wrong (t/ktap
# reads all of them; these are one of each kind)
awk -F '\t' -v OFS='\t' 'FNR == 1 { n = split(FILENAME, p, "/"); base = substr(p[n], 1, length(p[n]) - 4); next }
	$2 != "broken" { print base, "jl", $1, $2, $2 }' "$top"/scripts/testdata/ktap/*.tsv >"$tmp/golden"
set --
for name in binary early-return empty harness-guest nested-hidden-fail nested-pass \
	plan-missing plan-more plan-twice skip skip-document truncated-nested; do
	mk "golden-$name" all "$name" <"$top/scripts/testdata/ktap/$name.ktap"
	set -- "$@" "$tmp/golden-$name"
done
t_run "$report" --expected "$tmp/golden" "$@"
[ "$rc" = 1 ] || t_notok golden "status $rc: $(tail -n 1 "$tmp/err")"
for dir; do
	name=${dir##*/golden-} first=''
	tsv=$top/scripts/testdata/ktap/$name.tsv
	want="PASS $name/all: * as expected"
	if grep -q "	broken	" "$tsv"; then
		want="FAIL $name/all: *"
		grep -q '^KTAP of ' "$dir/verdict" || want="a defect of form"
	elif [ "$(wc -l <"$tsv")" = 1 ]; then
		want="FAIL $name/all: selftests/expected names no test*"
	fi
	[ ! -r "$dir/verdict" ] || IFS= read -r first <"$dir/verdict" || :
	# shellcheck disable=SC2254 # a pattern
	case $first in
	$want) t_ok "golden $name" ;;
	*) t_notok "golden $name" "'$first', wanted '$want'" ;;
	esac
done

# what cannot run
refuses()	# NAME PATTERN
{
	if [ "$rc" != 2 ]; then t_notok "$1" "status $rc: $(tail -n 1 "$tmp/err")"
	elif [ "$(wc -l <"$tmp/err")" != 1 ] || grep -qE '^(PASS|FAIL)' "$tmp/out"; then t_notok "$1" "not one line, or a verdict"
	elif ! grep -qE -e "$2" "$tmp/err"; then t_notok "$1" "it says '$(cat "$tmp/err")'"
	else t_ok "$1"; fi
}
t_run "$report"
refuses no_run 'needs a RUN folder'
t_run "$report" -x
refuses unknown_option 'unknown option'
t_run "$report" --expected
refuses no_value 'needs a value'
t_run "$report" --expected "$tmp/missing" "$tmp/good"
refuses no_expected 'cannot read'
t_run "$report" "$tmp/missing"
refuses no_folder 'no meta in'
mkdir "$tmp/empty"
t_run "$report" "$tmp/empty"
refuses no_meta 'no meta in'
log ok ok | mk gone all
rm "$tmp/gone/ktap"
echo PASS | tee "$tmp/gone/verdict" >"$tmp/gone/report.json"
t_run "$report" --expected "$tmp/expected" "$tmp/gone"
refuses no_ktap 'gone/ktap: No such file'
if [ -e "$tmp/gone/verdict" ] || [ -e "$tmp/gone/report.json" ]; then t_notok no_stale_verdict "an old verdict is left"; else t_ok no_stale_verdict; fi
t_run "$report" -h
if [ "$rc" = 0 ] && [ "$(grep -cE '^  (scripts/report|jq) ' "$tmp/out")" = 2 ]; then t_ok help; else t_notok help "not two examples"; fi
t_done
