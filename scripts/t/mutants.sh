#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# mutants.sh - break each series in a known way; the verdict must be FAIL and
# name the test that is there for it. Test output as tlib.sh says.
#
# A mutant is scripts/testdata/mutants/BASE/SERIES.WHAT.patch, a diff on top of
# all series; its line "Fails: TEST" names the test that must go red, "Config: NAME"
# the configuration that it needs. Those of "Fails: build:" and "Fails: layout:" are
# layout.sh's, without a boot. With --full also those that have everything compiled
# again: they change a header, or need a configuration.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

for mutant in "$top"/scripts/testdata/mutants/*/*.patch; do
	base=${mutant%/*}
	base=${base##*/}
	what=${mutant##*/}
	test=$(sed -n '1,/^diff/s/^Fails: //p' "$mutant")
	case $test in build:* | layout:*) continue ;; esac
	[ "${1-}" = --full ] || ! grep -qE '^(diff --git a/include/|Config: )' "$mutant" || continue
	config=$(sed -n '1,/^diff/s/^Config: //p' "$mutant")
	if ! build=$("$top/scripts/build" --base "$base" --series all ${config:+--config "$config"} --mutant "$mutant" 2>"$tmp/err"); then
		t_notok "$base $what" "$(tail -n 1 "$tmp/err")"
		continue
	fi
	t_run "$top/scripts/boot" --only "${test%/*}" "$build" "$tmp/$what"
	t_run "$top/scripts/report" "$tmp/$what"	# the tests that did not run are problems, too
	cat "$tmp/out" "$tmp/err" >&2
	if [ "$rc" != 1 ]; then
		t_notok "$base $what" "status $rc, wanted 1: $(tail -n 1 "$tmp/out")"
	elif ! grep -qxF -e "$test: fail, expected pass" "$tmp/$what/verdict"; then
		t_notok "$base $what" "the verdict does not name $test"
	else
		t_ok "$base $what: $test goes red"
	fi
done

# Symbols without addresses: SKIP in the guest, FAIL for the run.
build=$("$top/scripts/build" --series all 2>"$tmp/err") || { t_notok hidden_addresses "$(tail -n 1 "$tmp/err")"; t_done; }
t_run "$top/scripts/boot" --only static_keys/jump_label_order --append sysctl.kernel.kptr_restrict=2 "$build" "$tmp/hidden"
t_run "$top/scripts/report" "$tmp/hidden"
cat "$tmp/out" >&2
if [ "$rc" = 1 ] && grep -q 'unexpected SKIP: .*hides addresses' "$tmp/hidden/verdict"; then
	t_ok "hidden addresses: SKIP with its reason, and FAIL"
else
	t_notok "hidden addresses: SKIP with its reason, and FAIL" "status $rc: $(head -n 1 "$tmp/hidden/verdict")"
fi
t_done
