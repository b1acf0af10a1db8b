#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# tree.sh - scripts/tree on a miniature kernel: same ids everywhere, every way
# a patch, a tarball, a download, the disk or the user's own tree can go wrong.
# No network: apt-get, dpkg-deb and curl are fakes. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

LC_ALL=C
GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
GIT_AUTHOR_NAME=tester GIT_AUTHOR_EMAIL=tester@localhost
GIT_COMMITTER_NAME=tester GIT_COMMITTER_EMAIL=tester@localhost
HOME=$tmp/home		# nobody's ~/.config/git
export LC_ALL GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM GIT_AUTHOR_NAME \
	GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL HOME
unset XDG_CONFIG_HOME GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_CEILING_DIRECTORIES || :
mkdir "$tmp/home"

repo=$tmp/repo		# a copy of the tools with a base and series of its own
fake=$tmp/fake		# fakes, first in PATH where a test says so
cache=$tmp/cache
src=''

# is NAME GOT WANT
is()
{
	if [ "$2" = "$3" ]; then t_ok "$1"; else t_notok "$1" "'$2', wanted '$3'"; fi
}

# tree ARGS...: the verb on the fake base and this test's cache.
tree()
{
	t_run env XDG_CACHE_HOME="$cache" "$repo/scripts/tree" --base 9.9 "$@"
}

# faked ARGS...: the same with the fakes first in PATH.
faked()
{
	t_run env PATH="$fake:$PATH" FAKE="$fake" XDG_CACHE_HOME="$cache" \
		"$repo/scripts/tree" --base 9.9 "$@"
}

# value KEY: from the last run's key=value lines.
value() { sed -n "s/^$1=//p" "$tmp/out"; }

# one NAME STATUS PATTERN: t_expect, and nothing else was said, in one line.
one()
{
	if [ "$(wc -l <"$tmp/err")" != 1 ] || [ -s "$tmp/out" ]; then
		t_notok "$1" "not one line: $(cat "$tmp/out" "$tmp/err" | head -n 3 | tr '\n' ';')"
	else
		t_expect "$1" "$2" "$3"
	fi
}

# nothing_left NAME: no scratch folder, no half-written base, no process.
nothing_left()
{
	left=$(find "$cache/hotpath" -mindepth 1 -maxdepth 1 -name 'hotpath.*')
	left="$left$(find "$cache/hotpath/src" -mindepth 1 -maxdepth 1 2>/dev/null || :)"
	is "$1" "$left" ''
}

# pin FILE: the tarball and the base commit are those of patches/bases.
pin()
{
	printf '# name version package suite file sha commit\n9.9\t9.9.1\tlinux-source-9.9=9.9.1-1\tsuite\tusr/src/linux.tar.xz\t%s\t%s\n' \
		"$(sha256sum "$1" | cut -c-64)" "$2" >"$repo/patches/bases"
}

# kernel DIR VERSION PATCHLEVEL: what tree looks at, and some hard files.
kernel()
{
	mkdir -p "$1/kernel" "$1/scripts"
	printf 'VERSION = %s\nPATCHLEVEL = %s\nSUBLEVEL = 1\n' "$2" "$3" >"$1/Makefile"
	awk 'BEGIN { for (i = 1; i <= 60; i++) print "obj-y += o" i ".o" }' >"$1/kernel/Makefile"
	awk 'BEGIN { for (i = 1; i <= 30; i++) print "int v" i ";" }' >"$1/kernel/jump_label.c"
	printf 'a\r\nb\r\n' >"$1/kernel/crlf.txt"
	printf '*.o\n' >"$1/.gitignore"
	printf 'ignored, but part of the kernel\n' >"$1/kernel/blob.o"
	printf '#!/bin/sh\n' >"$1/scripts/run.sh"
	chmod 755 "$1/scripts/run.sh"
	dd if=/dev/urandom of="$1/random" bs=1024 count=1024 2>/dev/null
}

# commit DIR SUBJECT
commit()
{
	git -C "$1" add -A -f .
	git -C "$1" commit -q -m "$2"
}

# export_patch DIR N FILE: the last commit as a mail
export_patch()
{
	git -C "$1" format-patch -q -1 --start-number "$2" --zero-commit \
		--no-signature --full-index --no-renames --stdout >"$3"
}

# --- the repository -------------------------------------------------------
mkdir -p "$repo/patches/9.9/alpha" "$repo/patches/9.9/beta" "$fake" "$tmp/k"
cp -r "$top/scripts" "$repo/"
sed -i 's/^cache_need_mb=.*/cache_need_mb=1/' "$repo/scripts/lib.sh"
sed -i "s|/etc/apt/|$tmp/etc/apt/|g" "$repo/scripts/tree"
mkdir -p "$tmp/etc/apt/sources.list.d"
echo 'deb [arch=amd64] http://mirror.invalid/debian stable main' >"$tmp/etc/apt/sources.list"
printf '# comment\nalpha\tone\nbeta\ttwo\n' >"$repo/patches/9.9/order"

kernel "$tmp/k/linux-9.9" 9 9
tarball=$tmp/good.tar.xz
tar -C "$tmp/k" -cJf "$tarball" linux-9.9

dev=$tmp/dev		# where the patches are made
cp -r "$tmp/k/linux-9.9" "$dev"
git -C "$dev" init -q -b main
commit "$dev" base
sed -i 's/^obj-y += o5.o$/obj-y += five.o/' "$dev/kernel/Makefile"
commit "$dev" "alpha: Rename object 5"
export_patch "$dev" 1 "$repo/patches/9.9/alpha/0001-five.patch"
sed -i 's/^obj-y += o20.o$/obj-y += twenty.o/; s/^obj-y += o40.o$/obj-y += forty.o/' "$dev/kernel/Makefile"
sed -i 's/^int v3;$/int three;/' "$dev/kernel/jump_label.c"
commit "$dev" "alpha: Rename objects 20 and 40"
export_patch "$dev" 2 "$repo/patches/9.9/alpha/0002-twenty.patch"
alpha_tree=$(git -C "$dev" rev-parse 'HEAD^{tree}')
git -C "$dev" checkout -q --detach main~2
echo 'int beta;' >"$dev/kernel/beta.c"
commit "$dev" "beta: Add a file"
export_patch "$dev" 1 "$repo/patches/9.9/beta/0001-file.patch"
beta_tree=$(git -C "$dev" rev-parse 'HEAD^{tree}')
base_tree=$(git -C "$dev" rev-parse 'main~2^{tree}')
printf 'Subject: [PATCH 0/2] alpha\n\ntree: %s\n' "$alpha_tree" >"$repo/patches/9.9/alpha/cover-letter"
printf 'Subject: [PATCH 0/1] beta\n\ntree: %s\n' "$beta_tree" >"$repo/patches/9.9/beta/cover-letter"

# Patches that must not go through.
git -C "$dev" checkout -q --detach main~2
sed -i 's/^obj-y += o41.o$/obj-y += other.o/' "$dev/kernel/Makefile"
commit "$dev" "drift"
sed -i 's/^obj-y += o10.o$/obj-y += ten.o/; s/^obj-y += o42.o$/obj-y += fortytwo.o/' "$dev/kernel/Makefile"
commit "$dev" "bad: Second hunk on a tree that is not ours"
export_patch "$dev" 1 "$tmp/bad-hunk.patch"
echo 'int missing;' >"$dev/kernel/missing.c"
commit "$dev" missing
echo 'int more;' >>"$dev/kernel/missing.c"
commit "$dev" "bad: Change a file that is not there"
export_patch "$dev" 1 "$tmp/missing-file.patch"
git -C "$dev" checkout -q --detach main~2
printf 'int blank; \n' >"$dev/kernel/blank.c"
commit "$dev" "bad: Trailing blank"
export_patch "$dev" 1 "$tmp/blank.patch"
printf 'From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nFrom: a <a@b>\nDate: Mon, 1 Jan 2026 00:00:00 +0000\nSubject: [PATCH 0/2] cover\n\nOnly words.\n' >"$tmp/0000-cover.patch"
git -C "$dev" checkout -q --detach main
sed -i 's/^obj-y += five.o$/obj-y += o5.o/' "$dev/kernel/Makefile"
commit "$dev" "mutant: Put object 5 back"
export_patch "$dev" 1 "$tmp/mutant one.patch"
mutant_tree=$(git -C "$dev" rev-parse 'HEAD^{tree}')

# --- the base -------------------------------------------------------------
pin "$tarball" none
tree --series stock --tarball "$tarball"
t_expect first_import 0 'tree ids are not compared'
base_commit=$(value base_commit)
is import_is_complete "$(value tree)" "$base_tree"
pin "$tarball" "$base_commit"
cache=$tmp/cache2
tree --series stock --tarball "$tarball"
is same_commit_in_another_cache "$rc $(value base_commit) $(value pinned)" "0 $base_commit yes"
cache=$tmp/cache3
mkdir -p "$HOME/.config/git"
echo '* text=auto' >"$HOME/.config/git/attributes"
printf '*.c\n' >"$HOME/.config/git/ignore"
umask 077
tree --series stock --tarball "$tarball"
umask 022
rm -r "$HOME/.config"
is same_commit_for_a_user_with_git_settings "$rc $(value base_commit)" "0 $base_commit"
cache=$tmp/cache
tree --series stock
is base_from_the_cache "$rc $(value commit) $(value pinned)" "0 $base_commit yes"
src=$(value src)
g() { git -C "$src" "$@"; }

# as_it_was NAME: nothing of the failed patch is left in the tree.
as_it_was()
{
	is "$1" "$(g status --porcelain --ignored; g rev-parse HEAD)$(ls -d "$src/.git/rebase-apply" 2>/dev/null || :)" "$base_commit"
}

# --- series ---------------------------------------------------------------
tree --series alpha
is series_right_tree_id "$rc $(value tree) $(value pinned)" "0 $alpha_tree yes"
# What it writes, it lists for build, which goes by times: on the way here, and back.
is series_is_listed "$(g diff --name-only "$base_commit" HEAD -- | sort -u)" \
	"$(g diff --name-only "$base_commit" HEAD -- | sort -u | grep -xFf "$src/.git/hotpath-written")"
is series_is_checked_out "$(g status --porcelain; g rev-parse 'HEAD^{tree}')" "$alpha_tree"
commit_1=$(value commit)
cache=$tmp/cache2
tree --series alpha
is same_series_commit_in_another_cache "$(value commit)" "$commit_1"
cache=$tmp/cache
tree --series beta
is series_alone "$rc $(value tree)" "0 $beta_tree"
tree
is all_is_every_series "$rc $(g show HEAD:kernel/beta.c) $(g show HEAD:kernel/Makefile | grep -c -E 'five|twenty|forty')" '0 int beta; 3'
mv "$repo/patches/9.9/beta/0001-file.patch" "$tmp/"
tree
t_expect all_with_an_empty_series 2 'beta.*no patches'
mv "$tmp/0001-file.patch" "$repo/patches/9.9/beta/"
tree --series alpha --upto 1
is upto "$rc $(g log --format=%s "$base_commit..HEAD")" '0 alpha: Rename object 5'
tree --series alpha --upto 0
is upto_0 "$rc $(value commit)" "0 $base_commit"
tree --series alpha --mutant "$tmp/mutant one.patch"
is mutant "$rc $(value tree)" "0 $mutant_tree"
sed -i "s/^tree: .*/tree: $beta_tree/" "$repo/patches/9.9/alpha/cover-letter"
tree --series alpha
one wrong_tree_id_says_both 1 "$alpha_tree.*$beta_tree"
tree --series alpha --upto 1
is wrong_tree_id_not_asked_of_a_part "$rc" 0
sed -i "s/^tree: .*/tree: $alpha_tree/" "$repo/patches/9.9/alpha/cover-letter"
mkdir "$tmp/a blank"
cp -r "$repo" "$tmp/a blank/"
t_run env XDG_CACHE_HOME="$tmp/cache2" "$tmp/a blank/repo/scripts/tree" --base 9.9 --series beta
is clone_in_a_folder_with_a_blank "$rc $(value tree)" "0 $beta_tree"

# --- patches that do not go through ---------------------------------------
bad_patch() # NAME FILE PATTERN
{
	tree --series alpha --mutant "$2"
	one "$1" 1 "$3"
	as_it_was "$1 leaves the tree as it was"
}
bad_patch bad_hunk "$tmp/bad-hunk.patch" 'bad-hunk\.patch does not apply: file kernel/Makefile, hunk 2 \(@@ -39,7 '
bad_patch file_that_is_not_there "$tmp/missing-file.patch" 'missing-file\.patch does not apply: kernel/missing\.c: does not exist'
bad_patch file_that_is_there "$repo/patches/9.9/alpha/0001-five.patch" '0001-five\.patch does not apply: file kernel/Makefile, hunk 1 '
bad_patch cover_letter_as_patch "$tmp/0000-cover.patch" '0000-cover\.patch does not apply: .*empty'
bad_patch no_mail "$repo/patches/9.9/order" 'order does not apply: .*format detection failed'
tree --series alpha
is next_call_works "$rc $(value tree)" "0 $alpha_tree"
bad_patch whitespace_error "$tmp/blank.patch" 'blank\.patch does not apply: .*whitespace'
cp "$tmp/bad-hunk.patch" "$repo/patches/9.9/beta/0002-bad.patch"
tree
one bad_patch_of_a_series 1 '0002-bad\.patch does not apply: file kernel/Makefile, hunk 2'
rm "$repo/patches/9.9/beta/0002-bad.patch"

# --- arguments ------------------------------------------------------------
t_run env XDG_CACHE_HOME="$cache" "$repo/scripts/tree" --base 1.0
one unknown_base 2 "no base '1\.0'.*9\.9"
tree --series nosuch
one unknown_series 2 "no series 'nosuch'.*alpha beta"
tree --nosuch
one unknown_option 2 "unknown argument '--nosuch'"
tree --series
one value_missing 2 '--series needs a value'
tree --upto x1
one upto_not_a_number 2 "'x1' is not a number"
tree --mutant "$tmp/nosuch"
one mutant_missing 2 'cannot read the mutant'
tree --tarball "$tmp/nosuch.tar.xz"
one tarball_missing 2 'cannot read .*nosuch\.tar\.xz'
tree --tarball "$tarball" --tree "$dev"
one tree_and_tarball 2 'exclude each other'
echo x >"$tmp/file"
t_run env XDG_CACHE_HOME="$tmp/file" "$repo/scripts/tree" --base 9.9
one cache_not_writable 2 'cannot write .*set XDG_CACHE_HOME'
t_run "$repo/scripts/tree" -h
is help_has_two_examples "$rc $(grep -c '^  scripts/tree' "$tmp/out")" '0 2'

# --- a cache that was damaged ---------------------------------------------
damaged() # NAME: the next run notices and is right
{
	tree --series alpha --tarball "$tarball"
	if grep -q 'is damaged: importing again' "$tmp/err"; then
		is "$1" "$rc $(value tree) $(value pinned)" "0 $alpha_tree yes"
	else
		t_notok "$1" "status $rc, not noticed: $(tail -n 1 "$tmp/err")"
	fi
}
rm -r "$src/.git/refs"
damaged damaged_refs
rm -r "$src/.git/objects"
damaged damaged_objects
rm -r "$src/.git"
damaged damaged_no_git
git -C "$tmp" init -q -b main .	# a repository around the cache is not ours
rm "$src/.git/HEAD"
damaged damaged_inside_another_repository
rm -rf "$tmp/.git"
echo changed >>"$src/kernel/jump_label.c"
tree --series alpha
is changed_file_in_the_cache_is_restored "$rc $(g status --porcelain)" '0 '
: >"$src/.git/index.lock"
tree --series beta
is stale_index_lock "$rc $(value tree)" "0 $beta_tree"
g am -q "$tmp/bad-hunk.patch" >/dev/null 2>&1 || :
tree --series alpha --upto 1
is am_of_a_killed_run "$rc $(g log --format=%s "$base_commit..HEAD")" '0 alpha: Rename object 5'

# --- tarballs -------------------------------------------------------------
cache=$tmp/cache4
cp -r "$tmp/k" "$tmp/k2"
echo 'int more;' >>"$tmp/k2/linux-9.9/kernel/jump_label.c"
tar -C "$tmp/k2" -cJf "$tmp/other.tar.xz" linux-9.9
tree --series alpha --tarball "$tmp/other.tar.xz"
t_expect another_tarball_is_not_pinned 0 'not the pinned 9\.9\.1.*tree ids are not compared'
is another_tarball_no_tree_id "$(value pinned)" no
tar -C "$tmp/k" -czf "$tmp/good.tar.gz" linux-9.9
tree --series alpha --tarball "$tmp/good.tar.gz"
is same_contents_in_another_tarball "$rc $(value pinned) $(value tree)" "0 yes $alpha_tree"
cache=$tmp/cache5
kernel "$tmp/k3/linux-9.8" 9 8
tar -C "$tmp/k3" -cJf "$tmp/wrong.tar.xz" linux-9.8
tree --tarball "$tmp/wrong.tar.xz"
t_expect tarball_of_another_version 2 "wrong base: the tarball holds Linux '9\.8', wanted 9\.9"
nothing_left tarball_of_another_version_leaves_nothing
head -c 2000 "$tarball" >"$tmp/short.tar.xz"
tree --tarball "$tmp/short.tar.xz"
t_expect truncated_tarball 2 'cannot unpack the tarball'
nothing_left truncated_tarball_leaves_nothing
tree --tarball "$repo/patches/bases"
t_expect not_a_tarball 2 'cannot unpack the tarball'
tar -C "$tmp/k" -cJf "$tmp/none.tar.xz" linux-9.9/kernel
tree --tarball "$tmp/none.tar.xz"
t_expect tarball_without_a_kernel 2 'wrong base'

# --- apt and kernel.org ---------------------------------------------------
cat >"$fake/apt-get" <<'FAKE'
#!/bin/sh
echo "apt-get $*" >>"$FAKE/calls"
case $* in
*update) cp "$APT_CONFIG" "$FAKE/conf"; cp "${APT_CONFIG%/conf}/sources.list" "$FAKE/list" ;;
*download*)
	for deb; do :; done
	[ -e "$FAKE/$deb.deb" ] || { echo "E: $deb was not found" >&2; exit 100; }
	cp "$FAKE/$deb.deb" . ;;
esac
FAKE
cat >"$fake/dpkg-deb" <<'FAKE'
#!/bin/sh
cat "$2"
FAKE
cat >"$fake/curl" <<'FAKE'
#!/bin/sh
# curl -fsSo FILE URL
echo "curl $*" >>"$FAKE/calls"
[ -e "$FAKE/${3##*/}" ] || { echo "curl: (22) 404" >&2; exit 22; }
cp "$FAKE/${3##*/}" "$2"
FAKE
chmod 755 "$fake/apt-get" "$fake/dpkg-deb" "$fake/curl"

# deb FILE NAME: a package with FILE inside, as the fake dpkg-deb reads it
deb()
{
	rm -rf "$tmp/deb"
	mkdir -p "$tmp/deb/usr/src"
	cp "$1" "$tmp/deb/usr/src/linux.tar.xz"
	tar -C "$tmp/deb" -cf "$fake/$2.deb" .
}
cache=$tmp/cache6
faked --series stock
t_expect apt_and_curl_fail 2 'cannot get 9\.9 from apt or kernel\.org: give --tarball FILE or --tree DIR'
nothing_left apt_and_curl_fail_leave_nothing
is apt_is_private "$(grep -c "\"$cache/hotpath/hotpath\.[^/]*/apt" "$fake/conf") $(sed 's/\[.*\] //' "$fake/list")" \
	'4 deb http://mirror.invalid/debian suite main'
deb "$tmp/other.tar.xz" linux-source-9.9=9.9.1-1
faked --series stock
t_expect apt_wrong_sha256 2 'linux\.tar\.xz has another sha256 than patches/bases: not unpacked'
nothing_left apt_wrong_sha256_leaves_nothing
deb "$tarball" linux-source-9.9=9.9.1-1
faked --series alpha
is apt_pinned "$rc $(value tree) $(value pinned)" "0 $alpha_tree yes"
: >"$fake/calls"
faked --series beta
is apt_not_asked_twice "$rc $(cat "$fake/calls")" '0 '
rm "$fake/linux-source-9.9=9.9.1-1.deb"
deb "$tmp/other.tar.xz" linux-source-9.9
cache=$tmp/cache7
faked --series alpha
t_expect apt_other_version_is_used 0 'linux-source-9\.9=9\.9\.1-1 is gone; using .* no tree id'
is apt_other_version_no_tree_id "$(value pinned)" no
: >"$fake/calls"
faked --series beta
is apt_other_version_not_fetched_twice "$rc $(value pinned) $(cat "$fake/calls")" '0 no '
rm "$fake/linux-source-9.9.deb"
cp "$tmp/other.tar.xz" "$fake/linux-9.9.1.tar.xz"
printf '%s  linux-9.9.1.tar.xz\n' "$(sha256sum "$tarball" | cut -c-64)" >"$fake/sha256sums.asc"
cache=$tmp/cache8
faked --series alpha
t_expect kernel_org_wrong_sum 2 'cannot get 9\.9 from apt or kernel\.org'
cp "$tarball" "$fake/linux-9.9.1.tar.xz"
faked --series alpha
t_expect kernel_org 0 "using kernel\.org's linux-9\.9\.1"
: >"$tmp/etc/apt/sources.list"
rm "$fake/linux-9.9.1.tar.xz"
cache=$tmp/cache9
faked --series alpha
t_expect no_mirror_configured 2 'cannot get 9\.9'
is no_mirror_is_said "$(grep -c 'no Debian mirror configured' "$tmp/err")" 2
printf 'Types: deb\nURIs: https://mirror.invalid/debian/\nSuites: x\n' >"$tmp/etc/apt/sources.list.d/d.sources"
faked --series alpha
is mirror_of_a_deb822_file "$(sed 's/\[.*\] //' "$fake/list")" 'deb https://mirror.invalid/debian/ suite main'

# --- the user's own tree --------------------------------------------------
cache=$tmp/cache10
user="$tmp/their tip"
cp -r "$tmp/k/linux-9.9" "$user"
git -C "$user" init -q -b trunk
commit "$user" "their import"
git -C "$user" checkout -q -b mine
sed -i 's/^obj-y += o8.o$/obj-y += eight.o/' "$user/kernel/Makefile"
commit "$user" "theirs: Drift the context of alpha 1/2"
git -C "$user" config user.name Somebody
git -C "$user" config am.keepcr true
printf '#!/bin/sh\nexit 1\n' >"$user/.git/hooks/applypatch-msg"
chmod 755 "$user/.git/hooks/applypatch-msg"
tree_is="$(git -C "$user" rev-parse HEAD)"
tree --series stock --tree "$user"
is user_tree_stock "$rc $(value commit) $(value pinned)" "0 $tree_is no"
echo staged >"$user/staged"
git -C "$user" add staged
echo 'int uncommitted;' >>"$user/kernel/jump_label.c"
echo untracked >"$user/untracked"
touch -d '2026-01-02' "$user/Makefile"	# git status would refresh the index

# state DIR: everything in it, .git too: contents, modes, times
state()
{
	(cd "$1" && find . -type f -exec sha256sum {} + | sort -k 2 &&
		find . -printf '%p %y %m %T@ %l\n' | sort &&
		git --no-optional-locks status --porcelain --branch) | sha256sum
}
before=$(state "$user")
tree --series alpha --tree "$user"
t_expect user_tree_three_way 0 'has uncommitted changes: they are not used, its HEAD is'
is user_tree_untouched "$(state "$user")" "$before"
src=$(value src)
is user_tree_result "$(g show HEAD:kernel/Makefile | grep -c -E 'five|eight|twenty|forty') $(g show HEAD:kernel/jump_label.c | grep -c uncommitted || :) $(value base_commit)" "4 0 $tree_is"
(cd "$tmp" && tree --series beta --tree "their tip" && cp out out2)
is user_tree_relative_path "$(g show HEAD:kernel/beta.c)" 'int beta;'
sed "s/five/V/" "$repo/patches/9.9/alpha/0001-five.patch" >"$tmp/conflict.patch"
tree --series alpha --mutant "$tmp/conflict.patch" --tree "$user"
t_expect user_tree_conflict 1 'conflict\.patch does not apply: .*kernel/Makefile'
is user_tree_untouched_by_a_conflict "$(state "$user")" "$before"
sed -i 's/^index [0-9a-f]*/index 1111111111111111111111111111111111111111/' "$tmp/conflict.patch"
tree --series alpha --mutant "$tmp/conflict.patch" --tree "$user"
t_expect user_tree_blob_unknown 1 'conflict\.patch does not apply: .*kernel/Makefile'
tree --series alpha --tree "$user"
is user_tree_after_a_conflict "$rc" 0
git -C "$user" worktree add -q "$tmp/linked" HEAD 2>/dev/null
before=$(state "$user")
tree --series beta --tree "$tmp/linked"
is user_tree_linked_worktree "$rc $(state "$user")" "0 $before"
git clone -q --depth 1 "file://$user" "$tmp/shallow"
cache=$tmp/cache11
before=$(state "$tmp/shallow")
tree --series beta --tree "$tmp/shallow"
is user_tree_shallow "$rc $(state "$tmp/shallow")" "0 $before"
rm -rf "$(value src)"
git clone -q "$user" "$tmp/first"
tree --series beta --tree "$tmp/first"
rm -rf "$tmp/first"
tree --series beta --tree "$user"
is user_tree_moved_elsewhere "$rc $(git -C "$(value src)" show HEAD:kernel/beta.c)" '0 int beta;'
tree --tree "$tmp/k/linux-9.9"
t_expect user_tree_without_git 2 'is not a git checkout'
git -C "$tmp" init -q -b main empty
tree --tree "$tmp/empty"
t_expect user_tree_without_a_commit 2 'is not a git checkout with a commit'
echo x >"$tmp/empty/x"
commit "$tmp/empty" x
tree --tree "$tmp/empty"
one user_tree_not_a_kernel 2 'is not a kernel tree'
tree --tree "$tmp/nosuch"
t_expect user_tree_missing 2 'is not a git checkout'

# --- the disk is full -----------------------------------------------------
mkdir "$tmp/small"
cat >"$tmp/full" <<'FULL'
set -eu
mount -t tmpfs -o size="$1" tmpfs "$2"
shift
export XDG_CACHE_HOME="$1"
shift
if [ "$1" = fill ]; then
	"$2" --base 9.9 --series stock --tarball "$3" >/dev/null 2>&1
	dd if=/dev/zero of="$XDG_CACHE_HOME/zero" bs=1024 2>/dev/null || :
	exec "$2" --base 9.9 --series alpha
fi
exec "$1" --base 9.9 --series alpha --tarball "$2"
FULL
if t_run unshare -m mount -t tmpfs tmpfs "$tmp/small" && [ "$rc" = 0 ]; then
	sed -i 's/^cache_need_mb=.*/cache_need_mb=64/' "$repo/scripts/lib.sh"
	t_run unshare -m sh "$tmp/full" 16m "$tmp/small" "$repo/scripts/tree" "$tarball"
	t_expect disk_too_small 2 'small/hotpath has 1[56] MB free and 64 MB are needed: free some or set XDG_CACHE_HOME'
	sed -i 's/^cache_need_mb=.*/cache_need_mb=0/' "$repo/scripts/lib.sh"
	t_run unshare -m sh "$tmp/full" 900k "$tmp/small" "$repo/scripts/tree" "$tarball"
	t_expect disk_full_in_tar 2 'cannot unpack the tarball.*disk is full'
	t_run unshare -m sh "$tmp/full" 1800k "$tmp/small" "$repo/scripts/tree" "$tarball"
	t_expect disk_full_in_git_add 2 'is the disk full'
	t_run unshare -m sh "$tmp/full" 8m "$tmp/small" fill "$repo/scripts/tree" "$tarball"
	t_expect disk_full_in_git_am 2 'is the disk full'
	sed -i 's/^cache_need_mb=.*/cache_need_mb=1/' "$repo/scripts/lib.sh"
else
	t_skip disk_full "cannot mount a small tmpfs here: $(tail -n 1 "$tmp/err")"
fi

# --- signals, and two at a time -------------------------------------------
cat >"$fake/tar" <<'FAKE'
#!/bin/sh
: >"$4/half-written"	# tar -xf FILE -C DIR
echo $$ >"$FAKE/tar.pid"
exec sleep 60
FAKE
chmod 755 "$fake/tar"

# wait_for FILE: at most 20 s
wait_for()
{
	n=0
	until [ -s "$1" ] || [ $n -ge 200 ]; do sleep 0.1; n=$((n + 1)); done
}
cache=$tmp/cache12
PATH="$fake:$PATH" FAKE="$fake" XDG_CACHE_HOME="$cache" \
	"$repo/scripts/tree" --base 9.9 --series alpha --tarball "$tarball" >"$tmp/out" 2>"$tmp/err" &
pid=$!
wait_for "$fake/tar.pid"
began=$(date +%s)
kill "$pid"
rc=0
wait "$pid" || rc=$?
t_expect term_during_import 130 'interrupted; nothing half-written is left'
if [ $(($(date +%s) - began)) -le 10 ]; then t_ok term_is_prompt; else t_notok term_is_prompt 'it took more than 10 s'; fi
nothing_left term_leaves_nothing
if kill -0 "$(cat "$fake/tar.pid")" 2>/dev/null; then
	t_notok term_ends_tar 'tar still runs'
	kill "$(cat "$fake/tar.pid")" || :
else
	t_ok term_ends_tar
fi
rm "$fake/tar"

# Both start on nothing: one imports, the other waits for it.
XDG_CACHE_HOME="$cache" "$repo/scripts/tree" --base 9.9 --series alpha --tarball "$tarball" >"$tmp/out1" 2>"$tmp/err1" &
one=$!
XDG_CACHE_HOME="$cache" "$repo/scripts/tree" --base 9.9 --series beta --tarball "$tarball" >"$tmp/out2" 2>"$tmp/err2" &
two=$!
rc1=0 rc2=0
wait $one || rc1=$?
wait $two || rc2=$?
is next_run_and_two_at_a_time "$rc1 $rc2 $(sed -n 's/^tree=//p' "$tmp/out1" "$tmp/out2" | tr '\n' ' ')" \
	"0 0 $alpha_tree $beta_tree "
is only_one_imports "$(cat "$tmp/err1" "$tmp/err2" | grep -c 'unpacking and importing')" 1

# A third that waits for the lock can be stopped, too.
src=$(sed -n 's/^src=//p' "$tmp/out1")
flock -F "$cache/hotpath/src-${src##*/}.lock" sleep 20 &
holder=$!
sleep 0.5
: >"$tmp/err"
XDG_CACHE_HOME="$cache" "$repo/scripts/tree" --base 9.9 --series alpha --tarball "$tarball" >"$tmp/out" 2>"$tmp/err" &
pid=$!
wait_for "$tmp/err"
began=$(date +%s)
kill "$pid"
rc=0
wait "$pid" || rc=$?
t_expect waits_for_a_lock_and_can_be_stopped 130 'waiting for another run that uses'
if [ $(($(date +%s) - began)) -le 10 ]; then t_ok stopped_at_once; else t_notok stopped_at_once 'it took more than 10 s'; fi
kill $holder 2>/dev/null || :
wait $holder || :
t_done
