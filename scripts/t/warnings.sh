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
	t_clone "$src" "$commit" "$tmp/src"
	n=$(find "$top/patches/$1/$2" -name '*.patch' | wc -l)
	mkdir "$tmp/obj"
	cp "$("$top/scripts/build" --base "$1" --series stock 2>/dev/null)/config" "$tmp/obj/.config"
	objects=$(t_objects "$tmp/src" "$commit~$n" "$commit")
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
