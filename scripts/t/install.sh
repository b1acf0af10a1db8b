#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# install.sh - the series' selftests as a kernel CI installs and runs them: from
# the kernel's own tree after git am, out of it, and without our scripts.
# Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

# without PROGRAM: a PATH that has all but it
without()
{
	mkdir "$tmp/path"
	for dir in /usr/local/bin /usr/bin /bin; do
		find "$dir" -maxdepth 1 \( -type f -o -type l \) ! -name "$1" 2>/dev/null
	done | while read -r program; do
		[ -e "$tmp/path/${program##*/}" ] || ln -s "$program" "$tmp/path/"
	done
}
without rsync

bases=$(awk '!/^#/ && NF { print $1 }' "$top/patches/bases")
for base in $bases; do
	t_run "$top/scripts/tree" --base "$base"
	if [ "$rc" != 0 ]; then
		t_notok "$base tree" "$(tail -n 1 "$tmp/err")"
		continue
	fi
	src=$(sed -n 's/^src=//p' "$tmp/out")
	commit=$(sed -n 's/^commit=//p' "$tmp/out")
	k=$tmp/$base
	git clone -q --shared --no-checkout "$src" "$k"
	folders=$(awk '!/^#/ && NF { print $2 }' "$top/patches/$base/order" | sort -u)
	{
		printf '/tools/testing/selftests/%s\n' '*.mk' '*.h' '*.sh' Makefile kselftest
		printf '/tools/scripts\n/Makefile\n/scripts\n'
		for f in $folders; do
			printf '/tools/testing/selftests/%s\n' "$f"
		done
	} | git -C "$k" sparse-checkout set --no-cone --stdin
	for f in $folders; do
		# Some of stock's folders cannot be installed from objects elsewhere (7.3's
		# sched looks for cs_prctl_test among the sources): then ours need not.
		install="make -C $k/tools/testing/selftests TARGETS=$f INSTALL_PATH=$tmp/inst FORCE_TARGETS=1"
		git -C "$k" checkout -q --detach "$(git -C "$src" rev-parse refs/hotpath/base)"
		if ! [ -d "$k/tools/testing/selftests/$f" ] || $install O="$tmp/o" install >"$tmp/stock" 2>&1; then
			install="$install O=$tmp/o"
		else
			t_skip "$base $f from objects elsewhere" "not on stock either: $(grep -m 1 'failed' "$tmp/stock")"
		fi
		rm -rf "$tmp/inst" "$tmp/o"
		git -C "$k" checkout -q -f --detach "$commit"
		# shellcheck disable=SC2086 # a command with its words
		t_run env PATH="$tmp/path" $install install
		if [ "$rc" != 0 ] && grep -q 'rsync' "$tmp/err" "$tmp/out"; then
			t_ok "$base $f without rsync: refused by name"
		else
			t_notok "$base $f without rsync: refused by name" "status $rc: $(tail -n 1 "$tmp/err")"
		fi
		rm -rf "$tmp/inst"
		# shellcheck disable=SC2086
		t_run $install install gen_tar
		[ "$rc" = 0 ] || { t_notok "$base $f install" "$(tail -n 1 "$tmp/err")"; continue; }
		t_ok "$base $f install and gen_tar"
		"$tmp/inst/run_kselftest.sh" -l | sort >"$tmp/list"
		make -s -C "$k/tools/testing/selftests/$f" COLLECTION="$f" emit_tests 2>/dev/null | sort >"$tmp/due"
		if [ -s "$tmp/due" ] && cmp -s "$tmp/list" "$tmp/due"; then
			t_ok "$base $f lists every test"
		else
			t_notok "$base $f lists every test" "$(diff "$tmp/due" "$tmp/list" | head -n 2 | tr '\n' ' ')"
		fi
		# They run from there on this host's kernel; what they say of it is
		# not ours to judge, that each says something is.
		(cd "$tmp/inst" && ./run_kselftest.sh -c "$f") >"$tmp/out" 2>&1 || :
		cat "$tmp/out" >&2
		n=$(grep -cE '^(not )?ok [0-9]+ selftests: ' "$tmp/out" || :)
		if [ "$n" = "$(wc -l <"$tmp/due")" ] && ! grep -q 'exit=12[67]' "$tmp/out"; then
			t_ok "$base $f runs where it is installed"
		else
			t_notok "$base $f runs where it is installed" "$n results of $(wc -l <"$tmp/due")"
		fi
		rm -rf "$tmp/inst" "$tmp/o"
	done
	rm -rf "$k"
done
t_done
