#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# run.sh - the main job itself, for each base: verdict PASS, its results in
# place, the second time from the cache. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

bases=$(awk '!/^#/ && NF { print $1 }' "$top/patches/bases")
for base in $bases; do
	t_run "$top/scripts/run" --base "$base" --out "$tmp/results"
	cat "$tmp/out" "$tmp/err" >&2
	last=$(tail -n 1 "$tmp/out")
	if [ "$rc" = 0 ] && [ "${last#PASS "$base"/all: }" != "$last" ]; then
		t_ok "$base verdict"
	else
		t_notok "$base verdict" "status $rc, last line: $last"
		continue
	fi
	bad=''
	for f in cmd meta console.log ktap samples.tsv verdict report.json; do
		[ -e "$tmp/results/$base/all/bench/run-1/$f" ] || bad="$bad $f"
	done
	if [ -z "$bad" ]; then t_ok "$base artefacts"; else t_notok "$base artefacts" "missing:$bad"; fi
	if jq -e '.verdict == "pass" and (.tests | length > 0) and .meta.tree != null' \
		"$tmp/results/$base/all/bench/run-1/report.json" >/dev/null; then
		t_ok "$base json"
	else
		t_notok "$base json" "report.json does not say pass with tests and a tree"
	fi
	t_run "$top/scripts/build" --base "$base"
	t_expect "$base second time from the cache" 0 'is in the cache'
done
t_done
