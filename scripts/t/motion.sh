#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# motion.sh - proof that jump-label moves code and changes none: the objects
# are the same bytes, their order differs by jump_label.o alone, and on the
# linked image every function's body is the same apart from addresses. Prints
# what moved and the sizes to stderr. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

# bodies VMLINUX: one line a function: name, its instructions with every
# address in the kernel replaced: a branch's target by its symbol, else by ADDR.
# Padding behind the last instruction belongs to no function.
bodies()
{
	objdump -d --no-show-raw-insn "$1" | awk '
		function flush() {
			if (name == "")
				return
			while (n && ins[n] ~ /^(nop|int3|xchg +%ax,%ax|cs nop|data16|add +%al,\(%rax\))/)
				n--
			printf "%s", name
			for (i = 1; i <= n; i++)
				printf "|%s", ins[i]
			print ""
		}
		/^[0-9a-f]+ <.*>:$/ {
			flush()
			name = $2
			n = 0
			next
		}
		/^ *[0-9a-f]+:/ {
			sub(/^ *[0-9a-f]+:[ \t]*/, "")
			if (/^(call|j[a-z]+)[ ,]/)
				sub(/ [0-9a-f]+ </, " <")
			else
				sub(/[ \t]*#.*/, "")
			gsub(/-?0x(ffffffff)?[89][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]/, "ADDR")
			gsub(/-0x[67][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]/, "ADDR")
			gsub(/-?0x[0-9a-f]+\(%rip\)/, "ADDR(%rip)")
			ins[++n] = $0
		}
		END { flush() }' | sort
}

bases=$(awk '!/^#/ && NF { print $1 }' "$top/patches/bases")
for base in $bases; do
	rc=0
	stock=$("$top/scripts/build" --base "$base" --series stock 2>"$tmp/err") &&
		patched=$("$top/scripts/build" --base "$base" --series jump-label 2>"$tmp/err") || rc=$?
	if [ $rc != 0 ]; then
		t_notok "$base builds" "$(tail -n 1 "$tmp/err")"
		continue
	fi

	sort "$stock/objects" >"$tmp/a"
	sort "$patched/objects" >"$tmp/b"
	n=$(wc -l <"$tmp/a")
	if [ "$n" -gt 100 ] && cmp -s "$tmp/a" "$tmp/b"; then
		t_ok "$base objects are the same bytes"
		echo "$base: $n objects, all the same bytes" >&2
	else
		t_notok "$base objects are the same bytes" \
			"$(diff "$tmp/a" "$tmp/b" | head -n 2 | tr '\n' ' ')"
	fi

	grep -v '/jump_label\.o$' "$stock/link-order" >"$tmp/a"
	grep -v '/jump_label\.o$' "$patched/link-order" >"$tmp/b"
	if cmp -s "$tmp/a" "$tmp/b" && ! cmp -s "$stock/link-order" "$patched/link-order"; then
		t_ok "$base only jump_label.o moves"
	else
		t_notok "$base only jump_label.o moves" "$(diff "$tmp/a" "$tmp/b" | head -n 2 | tr '\n' ' ')"
	fi
	bad=$(for dir in kernel arch/x86/kernel; do
		last=$(grep "^$dir/" "$patched/link-order" | tail -n 1)
		[ "$last" = "$dir/jump_label.o" ] || echo "$last is last in $dir;"
	done)
	if [ -z "$bad" ]; then t_ok "$base jump_label.o is last"; else t_notok "$base jump_label.o is last" "$bad"; fi

	bodies "$stock/vmlinux" >"$tmp/a"
	bodies "$patched/vmlinux" >"$tmp/b"
	n=$(wc -l <"$tmp/a")
	comm -3 "$tmp/a" "$tmp/b" | cut -c-60 >"$tmp/diff"
	if [ "$n" -gt 1000 ] && [ ! -s "$tmp/diff" ]; then
		t_ok "$base function bodies"
		echo "$base: $n functions, every body the same" >&2
	else
		t_notok "$base function bodies" "$n functions; $(wc -l <"$tmp/diff") differ: $(head -n 2 "$tmp/diff" | tr '\n' ' ')"
	fi

	# What moved: functions whose neighbour below is another one.
	for k in stock patched; do
		if [ $k = stock ]; then f=$stock; else f=$patched; fi
		nm -n "$f/vmlinux" | awk '$2 ~ /^[tT]$/ { print prev " < " $3; prev = $3 }' | sort >"$tmp/$k"
	done
	echo "$base: functions with another neighbour below than on stock:" >&2
	comm -13 "$tmp/stock" "$tmp/patched" >&2
	size "$stock/vmlinux" "$patched/vmlinux" >&2
	a=$(size "$stock/vmlinux" | awk 'NR == 2 { print $1 }')
	b=$(size "$patched/vmlinux" | awk 'NR == 2 { print $1 }')
	echo "$base: text $a -> $b bytes ($((b - a)))" >&2
	# Only alignment between objects can differ: less than a page.
	if [ $((b - a)) -lt 4096 ] && [ $((a - b)) -lt 4096 ]; then
		t_ok "$base text size"
	else
		t_notok "$base text size" "$a -> $b bytes"
	fi
done
t_done
