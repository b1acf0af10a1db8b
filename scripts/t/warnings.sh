#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# warnings.sh - what each prefix of each series touches compiles with W=1 and
# says nothing that stock does not say. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

# warnings BASE SERIES: compile what each patch touches with W=1, in a clone and
# an object folder of their own; what stock says is no news. (Sparse is left out:
# Debian 12 has 0.6.4, and 7.3 calls that not up to date and does not run it.)
warnings()
{
	src=$("$top/scripts/tree" --base "$1" --series "$2" 2>/dev/null | sed -n 's/^src=//p')
	commit=$("$top/scripts/tree" --base "$1" --series "$2" 2>/dev/null | sed -n 's/^commit=//p')
	git clone -q --shared --no-checkout "$src" "$tmp/src"
	# No more than one object needs: a whole checkout takes minutes.
	printf '%s\n' '/*' '!/*/' 'Kconfig*' /include/ /arch/x86/ /scripts/ /tools/ '!/tools/testing/' '!/tools/perf/' \
		/kernel/ /mm/ /lib/ | git -C "$tmp/src" sparse-checkout set --no-cone --stdin
	git -C "$tmp/src" checkout -q --detach "$commit"
	n=$(find "$top/patches/$1/$2" -name '*.patch' | wc -l)
	mkdir "$tmp/obj"
	cp "$("$top/scripts/build" --base "$1" --series "$2" 2>/dev/null)/config" "$tmp/obj/.config"
	# The objects of touched C files, and those that a Makefile's diff names.
	objects=$(git -C "$tmp/src" diff --name-only "$commit~$n" "$commit" |
		sed -n '/^tools\//d; s/\.c$/.o/p'
		git -C "$tmp/src" diff -U0 "$commit~$n" "$commit" -- '*/Makefile' ':!tools' |
		awk '/^\+\+\+ / { d = $2; sub(/^b\//, "", d); sub(/Makefile$/, "", d) }
			/^[+-]obj/ { for (i = 1; i <= NF; i++) if ($i ~ /\.o$/) print d $i }')
	objects=$(printf '%s\n' "$objects" | sort -u)
	k=0	# patches applied; 0 is stock
	while [ "$k" -le "$n" ]; do
		git -C "$tmp/src" checkout -q --detach "$commit~$((n - k))"
		for o in $objects; do
			rm -f "$tmp/obj/$o"
		done
		rc=0
		# shellcheck disable=SC2086 # a list of objects
		make -s -C "$tmp/src" O="$tmp/obj" -j"$(nproc)" olddefconfig $objects W=1 \
			>"$tmp/w1" 2>&1 </dev/null || rc=$?
		cat "$tmp/w1" >&2
		grep -E '(warning|error):' "$tmp/w1" | sed 's/:[0-9:]*:/:/' | sort -u >"$tmp/w1.$k" || :
		name="$1 $2 prefix $k W=1"
		new=$(comm -13 "$tmp/w1.0" "$tmp/w1.$k")
		if [ "$rc" = 0 ] && [ -n "$objects" ] && [ -z "$new" ]; then
			t_ok "$name: $(echo "$objects" | tr '\n' ' ')"
		else
			t_notok "$name" "status $rc; new: $new; $(tail -n 1 "$tmp/w1")"
		fi
		k=$((k + 1))
	done
	rm -rf "$tmp/src" "$tmp/obj"
}

bases=$(awk '!/^#/ && NF { print $1 }' "$top/patches/bases")
for base in $bases; do
	series=$(awk '!/^#/ && NF { print $1 }' "$top/patches/$base/order")
	for one in $series; do
		warnings "$base" "$one"
	done
done
t_done
