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

# A report that says FAIL is the last word, whatever is counted after it.
repo=$tmp/repo
mkdir -p "$repo/selftests"
cp -r "$top/scripts" "$top/patches" "$repo/"
cp -r "$top/selftests/bench" "$repo/selftests/"
mkdir "$tmp/build"
: >"$tmp/build/warnings"
printf '#!/bin/sh\necho "%s"\n' "$tmp/build" >"$repo/scripts/build"
printf '#!/bin/sh\nexit 0\n' >"$repo/scripts/boot"
printf '#!/bin/sh\necho a table\n' >"$repo/scripts/bench"
printf '#!/bin/sh\necho "FAIL 7.3/all: one/test: fail, expected pass"\nexit 1\n' >"$repo/scripts/report"
t_run "$repo/scripts/run" --no-install --out "$tmp/fake"
last=$(tail -n 1 "$tmp/out")
if [ "$rc" = 1 ] && [ "$last" = 'FAIL 7.3/all: 7.3/all: one/test: fail, expected pass' ] && grep -qx 'a table' "$tmp/out"; then
	t_ok 'a failed report is not forgotten over the counts'
else
	t_notok 'a failed report is not forgotten over the counts' "status $rc, last line: $last"
fi

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

	# Stopped while the guest runs: no QEMU is left, no verdict, and a next
	# run carries on (the build step above and all of scripts/t/mutants.sh).
	: >"$tmp/err"
	"$top/scripts/run" --base "$base" --out "$tmp/stopped" >"$tmp/out" 2>"$tmp/err" &
	pid=$!
	i=0
	until grep -q '^\$ qemu' "$tmp/err" || [ $i -ge 1200 ]; do
		sleep 0.1
		i=$((i + 1))
	done
	kill "$pid"
	rc=0
	wait "$pid" || rc=$?
	t_expect "$base TERM while the guest runs" 130 'interrupted; nothing half-written is left'
	left=''
	for p in /proc/[0-9]*; do
		[ "$(cat "$p/comm" 2>/dev/null)" != qemu-system-x86 ] ||
			! tr '\0' ' ' <"$p/cmdline" | grep -qF "$tmp/stopped" || left="$left ${p#/proc/}"
	done
	found=$(find "$tmp/stopped" -name status -o -name verdict)
	if [ -z "$left$found" ]; then t_ok "$base nothing is left of it"; else t_notok "$base nothing is left of it" "QEMU:$left files: $found"; fi
done
t_done
