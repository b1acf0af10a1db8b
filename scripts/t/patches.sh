#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# patches.sh - the patch files themselves, per base and series: they apply
# alone, without fuzz or offset, survive a round trip, give the tree of their
# cover letter, carry the very files of selftests/, and checkpatch has nothing
# new to say. Works in sparse clones that borrow the cache's objects: the
# cache's own checkout is not touched. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

LC_ALL=C
GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
GIT_COMMITTER_NAME=hotpath GIT_COMMITTER_EMAIL=hotpath@localhost
export LC_ALL GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE || :
patches=$top/patches
cr=$(printf '\r')
hex='[0-9a-f]{40}'

# verdict NAME WHY: ok if WHY is empty
verdict()
{
	if [ -z "$2" ]; then t_ok "$1"; else t_notok "$1" "$2"; fi
}

# subject FILE: of a mail, unfolded
subject()
{
	awk '/^$/ { exit }
	     /^[ \t]/ { if (in_it) { sub(/^[ \t]+/, ""); s = s " " $0 }; next }
	     { in_it = 0 }
	     /^Subject: / { in_it = 1; s = substr($0, 10) }
	     END { print s }' "$1"
}

# source_of BASE: set src to the imported base; bring it if it is not there.
source_of()
{
	src=${XDG_CACHE_HOME:-$HOME/.cache}/hotpath/src/$base-$(printf %.12s "$sha")
	if [ "$(git -C "$src" rev-parse -q --verify refs/hotpath/base 2>/dev/null)" != "$commit" ]; then
		t_run "$top/scripts/tree" --base "$base" --series stock
		cat "$tmp/err" >&2
		src=$(sed -n 's/^src=//p' "$tmp/out")
		[ "$rc" = 0 ] && [ "$(sed -n 's/^base_commit=//p' "$tmp/out")" = "$commit" ]
	fi
}

# clone DIR FILE-OF-PATHS: only those files of the base are checked out.
clone()
{
	git clone -q --shared --no-checkout "$src" "$1"
	sed 's|^|/|' "$2" | git -C "$1" sparse-checkout set --no-cone --stdin
	git -C "$1" checkout -q --detach "$commit"
}

# touched FILE...: what patches change
touched() { sed -n 's/^\(---\|+++\) [ab]\///p' "$@" | sort -u; }

# text SERIES: what can be said without applying anything
text()
{
	bad='' names=''
	for p in "$dir"/*.patch; do
		f=${p##*/}
		s=$(subject "$p" | sed 's/^\[PATCH[^]]*\] //')
		grep -q "$cr" "$p" && bad="$bad $f: a CR;"
		grep -qE '^ *(Signed-off|Reviewed|Tested)-by: ' "$p" && bad="$bad $f: a trailer that people add;"
		[ "${#s}" -le 75 ] || bad="$bad $f: subject of ${#s} characters;"
		printf '%s\n' "$s" | grep -qE '^[a-z0-9_]+([/,: ]*[a-z0-9_]+)*: [A-Z]' ||
			bad="$bad $f: subject without a prefix and a capital;"
		grep '^index ' "$p" | grep -vqE "^index $hex\\.\\.$hex( [0-7]{6})?\$" && bad="$bad $f: a short index line;"
		grep -q '^index ' "$p" || bad="$bad $f: no index line;"
		grep -qE '^(GIT binary patch|rename from |similarity index )' "$p" && bad="$bad $f: binary or rename;"
		names="$names$s
"
	done
	twice=$(printf '%s' "$names" | sort | uniq -d)
	[ -z "$twice" ] || bad="$bad subject twice: $twice;"
	verdict "$id text" "$bad"
}

# cover SERIES: the letter decides from one screen and is machine-readable
cover()
{
	c=$dir/cover-letter
	if [ ! -r "$c" ]; then
		t_notok "$id cover letter" "there is none"
		return
	fi
	bad=''
	n=$(find "$dir" -name '*.patch' | wc -l)
	head -n 10 "$c" | grep -qE "^Subject: \\[PATCH( v[0-9]+)? 0+/$n\\] [a-z].*: [A-Z]" || bad="$bad no 'Subject: [PATCH 0/$n] area: Verb';"
	[ "$(grep -c '^Subject: ' "$c")" = 1 ] || bad="$bad not one Subject;"
	for line in "base: $base" "base-commit: $commit"; do
		[ "$(grep -c "^${line%% *} " "$c")" = 1 ] && grep -qxF -e "$line" "$c" || bad="$bad not '$line' once;"
	done
	[ "$(grep -c '^tree: ' "$c")" = 1 ] && grep -qxE "tree: $hex" "$c" || bad="$bad no 'tree:' with 40 digits;"
	grep -qE '^ +scripts/run |^ *Reproduce:|scripts/run ' "$c" || bad="$bad no command to reproduce;"
	words=$(grep -nE '\*\*\*|BLURB|TODO|TBD|FIXME|XXX|<[^@>]*(hex|here|fill|name)[^@>]*>|\?\?\?|lorem' "$c" | head -n 1)
	[ -z "$words" ] || bad="$bad placeholder: $words;"
	! grep -q "$cr" "$c" || bad="$bad a CR;"
	verdict "$id cover letter" "$bad"
}

# apply: each patch in turn, in four ways; then the tree id
apply()
{
	bad=''
	back "$k"
	for p in "$dir"/*.patch; do
		f=${p##*/}
		t_run git -C "$k" apply --check --whitespace=error-all "$p"
		[ "$rc" = 0 ] || bad="$bad git apply $f: $(head -n 1 "$tmp/err");"
		t_run patch -d "$k" -p1 -F0 -f --dry-run -i "$p"
		if [ "$rc" != 0 ] || grep -qiE 'fuzz|offset|FAILED|reversed' "$tmp/out" "$tmp/err"; then
			bad="$bad patch -F0 $f: $(cat "$tmp/out" "$tmp/err" | grep -m 1 -iE 'fuzz|offset|FAILED|reversed|malformed|can.t find');"
		fi
		t_run git -C "$k" am -q --whitespace=error-all "$p"
		if [ "$rc" != 0 ]; then
			bad="$bad git am $f: $(cat "$tmp/out" "$tmp/err" | head -n 1);"
			break
		fi
	done
	verdict "$id applies alone" "$bad"
	[ -z "$bad" ] || return 1
	verdict "$id clean" "$(git -C "$k" diff --check "$commit" HEAD | head -n 1)"
	is=$(git -C "$k" rev-parse 'HEAD^{tree}')
	want=$(sed -n 's/^tree: //p' "$dir/cover-letter" 2>/dev/null || :)
	if [ "$is" = "$want" ]; then
		t_ok "$id tree id"
	else
		t_notok "$id tree id" "it is $is, the cover letter says '$want'"
	fi
}

# back CLONE: at the base again
back()
{
	git -C "$1" am --abort >/dev/null 2>&1 || :
	git -C "$1" checkout -q -f --detach "$commit"
	git -C "$1" clean -qfdx
}

# round_trip: git writes the same files again
round_trip()
{
	rm -rf "$tmp/export"
	git -C "$k" format-patch -q -o "$tmp/export" --zero-commit --no-signature \
		--full-index --no-renames "$commit..HEAD"
	bad=''
	for p in "$dir"/*.patch "$tmp"/export/*.patch; do
		cmp -s "$dir/${p##*/}" "$tmp/export/${p##*/}" || bad="$bad ${p##*/}"
	done
	verdict "$id round trip" "${bad:+git format-patch writes another$bad}"
}

# selftests SERIES FOLDER: the kernel's copy and ours are the same files
selftests()
{
	ours=$top/selftests/$1 theirs=tools/testing/selftests/$2
	bad=''
	(cd "$ours" 2>/dev/null && find . -type f | sed 's|^\./||' | sort) >"$tmp/ours" || :
	[ -s "$tmp/ours" ] || bad=" no files in selftests/$1;"
	while read -r f; do
		git -C "$k" show "HEAD:$theirs/$f" 2>/dev/null | cmp -s - "$ours/$f" ||
			bad="$bad $f differs from $theirs/$f after the series;"
		mode=100644
		[ ! -x "$ours/$f" ] || mode=100755
		[ "$(git -C "$k" ls-tree HEAD "$theirs/$f" | cut -c-6)" = $mode ] || bad="$bad $f: another mode;"
	done <"$tmp/ours"
	git -C "$k" diff --name-only "$commit" HEAD -- "$theirs" | sed "s|^$theirs/||" | sort >"$tmp/changed"
	[ -s "$tmp/changed" ] || bad="$bad the series adds no test to $theirs;"
	more=$(comm -13 "$tmp/ours" "$tmp/changed" | tr '\n' ' ')
	verdict "$id selftests" "$bad${more:+ in the patches but not in selftests/$1: $more}"
}

# makefiles: kbuild takes the first of two entries and says nothing
makefiles()
{
	bad=''
	for m in kernel/Makefile arch/x86/kernel/Makefile; do
		n=$(git -C "$k" show "HEAD:$m" | grep -c 'jump_label\.o' || :)
		[ "$n" = 1 ] || bad="$bad $m has $n;"
	done
	verdict "$id one jump_label.o" "$bad"
}

# emitted FOLDER...: the tests that the kernel's Makefiles name there
emitted()
{
	for one in "$@"; do
		make -s -C "$k/tools/testing/selftests/$one" COLLECTION="$one" emit_tests
	done
}

# checkpatch: 7.3's, for both bases; what it says is in checkpatch-allow
checkpatch()
{
	for p in "$dir"/*.patch; do
		f=${p#"$patches/"}
		rc=0
		(cd "$tmp/k-7.3" && PATH=/usr/bin:/bin perl scripts/checkpatch.pl --strict \
			--no-signoff --show-types --codespell "$p") >"$tmp/out" 2>"$tmp/err" || rc=$?
		if ! grep -q '^total: ' "$tmp/out"; then
			t_notok "$f checkpatch" "it did not run: $(tail -n 1 "$tmp/err")"
			continue
		fi
		bad=$(sed -nE 's/^(ERROR|WARNING|CHECK):([A-Z0-9_]+): .*/\2/p' "$tmp/out" | sort -u |
			while read -r type; do
				if grep -qE "^$f	$type	.+" "$patches/checkpatch-allow"; then
					printf '%s\t%s\n' "$f" "$type" >>"$tmp/allowed"
				else
					grep -m 1 ":$type: " "$tmp/out"
				fi
			done)
		[ -n "$bad" ] || [ "$rc" = 0 ] || grep -q "^$f	" "$tmp/allowed" || bad="status $rc"
		verdict "$f checkpatch" "$(printf '%s' "$bad" | tr '\n' ' ')"
	done
}

: >"$tmp/allowed"
awk '!/^#/ && NF { print $1 "\t" $6 "\t" $7 }' "$patches/bases" >"$tmp/bases"
while read -r base sha commit <&3; do
	if ! source_of "$base"; then
		t_notok "$base" "cannot have the base: $(tail -n 1 "$tmp/err")"
		continue
	fi
	k=$tmp/k-$base
	# Beside the patched files: attributes, and what checkpatch looks for.
	{
		touched "$patches/$base"/*/*.patch || :
		printf '%s\n' .gitattributes COPYING CREDITS Kbuild MAINTAINERS Makefile README \
			scripts/checkpatch.pl scripts/spelling.txt scripts/const_structs.checkpatch \
			kernel/Makefile arch/x86/kernel/Makefile Documentation/process/deprecated.rst \
			drivers/Makefile fs/Makefile init/Makefile ipc/Makefile lib/Makefile include/uapi/Kbuild \
			include/linux/jump_label.h tools/testing/selftests/lib.mk
	} >"$tmp/paths"
	: >"$tmp/tests"
	clone "$k" "$tmp/paths"
	awk '!/^#/ && NF { print $1 "\t" $2 }' "$patches/$base/order" >"$tmp/order"
	if [ ! -s "$tmp/order" ]; then
		t_notok "$base" "no series in patches/$base/order"
		continue
	fi
	while read -r series folder <&4; do
		id=$base/$series dir=$patches/$base/$series
		if ! ls "$dir"/*.patch >/dev/null 2>&1; then
			t_notok "$id" "no patches"
			continue
		fi
		text
		cover
		if apply; then
			round_trip
			selftests "$series" "$folder"
			makefiles
			emitted "$folder" >>"$tmp/tests"
		fi
		checkpatch
	done 4<"$tmp/order"
	# A folder that no line of order names would never be tested.
	bad=''
	for d in "$patches/$base"/*/; do
		cut -f1 "$tmp/order" | grep -qxF -e "$(basename "$d")" || bad="$bad $(basename "$d")"
	done
	verdict "$base every folder in order" "$bad"
	twice=$(find "$patches/$base" -name '*.patch' | sed 's|.*/||' | sort | uniq -d)
	verdict "$base file names unique" "$twice"
	back "$k"
	# shellcheck disable=SC2046 # our own file names, without blanks
	t_run git -C "$k" am -q --whitespace=error-all $(cut -f1 "$tmp/order" | while read -r s; do
		ls "$patches/$base/$s"/*.patch; done)
	verdict "$base/all applies" "$([ "$rc" = 0 ] || cat "$tmp/out" "$tmp/err" | head -n 1)"
	# No Makefile of one series undoes what another's says in the same folder.
	# shellcheck disable=SC2046 # likewise
	emitted $(cut -f2 "$tmp/order" | sort -u) | sort -u >"$tmp/all"
	verdict "$base/all has the tests of each" "$(sort -u "$tmp/tests" | comm -3 - "$tmp/all" | tr '\n' ' ')"
	# A maintainer takes them in any order.
	is=$(git -C "$k" rev-parse 'HEAD^{tree}')
	back "$k"
	# shellcheck disable=SC2046 # likewise
	t_run git -C "$k" am -q --whitespace=error-all $(cut -f1 "$tmp/order" | tac | while read -r s; do
		ls "$patches/$base/$s"/*.patch; done)
	if [ "$rc" != 0 ]; then
		t_notok "$base/all backwards" "$(cat "$tmp/out" "$tmp/err" | head -n 1)"
	else
		verdict "$base/all backwards" "$([ "$(git -C "$k" rev-parse 'HEAD^{tree}')" = "$is" ] || echo 'another tree')"
	fi
done 3<"$tmp/bases"

bad=$(awk -F'\t' '/^#/ || !NF { next } NF != 3 || $3 == "" { print "line " NR ": not three fields"; next }
	{ print $1 "\t" $2 }' "$patches/checkpatch-allow" | sort >"$tmp/rows"
	sort -u "$tmp/allowed" | comm -23 "$tmp/rows" - | tr '\n' ' ')
verdict checkpatch-allow "${bad:+matches nothing: $bad}"
t_done
