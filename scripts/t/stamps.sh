#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# stamps.sh - the bookkeeping of the sched-stat series against a model of a task,
# on the host: nothing reported that should not be, nothing lost, each delay and
# each sum exact. Mutants of it must be found out. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE || :
file=kernel/sched/stats.c

# model CONFIG SEED: prints what the model says of $tmp/hooks.h
model()
{
	# shellcheck disable=SC2086 # nothing or one flag
	cc -std=gnu11 -O1 -w $1 -DHOOKS="\"$tmp/hooks.h\"" \
		"$top/scripts/testdata/stamps/model.c" -o "$tmp/model" || return 2
	"$tmp/model" "$2"
}

# mutant NAME SED: the hooks without something that they need
mutant()
{
	cp "$tmp/hooks.good" "$tmp/hooks.h"
	sed -i "$2" "$tmp/hooks.h"
	if cmp -s "$tmp/hooks.good" "$tmp/hooks.h"; then
		t_notok "$id mutant $1" "the series has no such line any more"
	elif said=$(model -DCONFIG_SCHEDSTATS 1 2>&1); then
		t_notok "$id mutant $1" "not found out: $said"
	elif [ "${said#step }" = "$said" ] && [ "${said#waits }" = "$said" ]; then
		t_notok "$id mutant $1" "does not build: $(echo "$said" | head -n 1)"
	else
		t_ok "$id mutant $1"
	fi
}

for dir in "$top"/patches/*/sched-stat; do
	id=$(basename "$(dirname "$dir")")/sched-stat
	sha=$(awk -v b="${id%/*}" '$1 == b { print $6 }' "$top/patches/bases")
	src=${XDG_CACHE_HOME:-$HOME/.cache}/hotpath/src/${id%/*}-$(printf %.12s "$sha")
	if ! git -C "$src" rev-parse -q --verify refs/hotpath/base >/dev/null 2>&1; then
		t_run "$top/scripts/tree" --base "${id%/*}" --series stock
		if [ "$rc" != 0 ]; then
			t_notok "$id" "cannot have the base: $(tail -n 1 "$tmp/err")"
			continue
		fi
	fi
	rm -rf "$tmp/k"
	mkdir -p "$tmp/k/kernel/sched"
	git -C "$src" show "refs/hotpath/base:$file" >"$tmp/k/$file"
	(cd "$tmp/k" && git init -q && for p in "$dir"/*.patch; do
		! grep -q "^+++ b/$file" "$p" || git apply --include="$file" "$p"
	done)
	awk '/^#include "sched.h"/ { on = 1; next }
	     /^#ifdef CONFIG_SCHEDSTATS/ { held = $0; next }
	     /Current schedstat API version/ { exit }
	     on { if (held != "" && $0 != "/*") print held
		  if (held == "" || $0 != "/*") print
		  held = "" }' "$tmp/k/$file" >"$tmp/hooks.h"
	cp "$tmp/hooks.h" "$tmp/hooks.good"
	for config in '' -DCONFIG_SCHEDSTATS; do
		bad=''
		for seed in 1 2 3 4 5; do
			said=$(model "$config" "$seed" 2>&1) || bad="$bad seed $seed: $said;"
		done
		if [ -z "$bad" ]; then
			t_ok "$id model ${config:-without schedstats}"
		else
			t_notok "$id model ${config:-without schedstats}" "$bad"
		fi
	done
	mutant any-epoch 's/(int)(stamp->epoch - READ_ONCE(sched_stat_since)) >= 0/true/'
	mutant sums-any-epoch 's/(int)(stamp->epoch - READ_ONCE(schedstat_since)) >= 0/true/'
	mutant equal-epoch 's/(int)(stamp->epoch - READ_ONCE(sched_stat_since)) >= 0/stamp->epoch == sched_stat_epoch/'
	mutant no-sum-of-queues 's/stamp->time = now - stamp->time;/stamp->time = now;/'
	mutant one-user 's/^	static_branch_dec(&sched_stat_key);/	sched_stat_key.count = 0;/'
done
t_done
