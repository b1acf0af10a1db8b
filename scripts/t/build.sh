#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# build.sh - scripts/build on a miniature kernel whose Makefile is a tiny kbuild:
# what it refuses, what it names when something fails, and what the cache may
# be trusted with. No network. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

LC_ALL=C
GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
GIT_AUTHOR_NAME=tester GIT_AUTHOR_EMAIL=tester@localhost
GIT_COMMITTER_NAME=tester GIT_COMMITTER_EMAIL=tester@localhost
XDG_CACHE_HOME=$tmp/cache
MAKES=$tmp/makes	# the tiny kbuild notes its targets there
export LC_ALL GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL \
	GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL XDG_CACHE_HOME MAKES
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE SLOW || :
repo=$tmp/repo cache=$tmp/cache/hotpath fake=$tmp/fake

is()
{
	if [ "$2" = "$3" ]; then t_ok "$1"; else t_notok "$1" "'$2', wanted '$3'"; fi
}

# build ARGS...: the verb; $entry is what it printed
build()
{
	: >"$MAKES"
	t_run "$repo/scripts/build" --base 9.9 --no-install "$@"
	entry=$(cat "$tmp/out")
}

# one NAME STATUS PATTERN: t_expect, and nothing else was said, in one line.
one()
{
	if [ "$(wc -l <"$tmp/err")" != 1 ] || [ -s "$tmp/out" ]; then
		t_notok "$1" "not one line: $(cat "$tmp/out" "$tmp/err" | head -n 3 | tr '\n' ';')"
	else
		t_expect "$1" "$2" "$3"
	fi
}

# entries: what the cache has built; scraps: what should not be there
entries() { find "$cache/build" -mindepth 1 -maxdepth 1 2>/dev/null | sort | tr '\n' ' '; }
scraps() { find "$cache" -mindepth 1 -maxdepth 1 -name 'hotpath.*'; }

# another NAME: the last build went well, and is another entry than the first
another()
{
	if [ "$rc" = 0 ] && [ -d "$entry" ] && [ "$entry" != "$first" ]; then
		t_ok "$1"
	else
		t_notok "$1" "status $rc, entry $entry: $(tail -n 1 "$tmp/err")"
	fi
}

# wait_for FILE: at most 20 s
wait_for()
{
	n=0
	until [ -s "$1" ] || [ $n -ge 200 ]; do sleep 0.1; n=$((n + 1)); done
}

# export_patch DIR FILE: the last commit as a mail
export_patch()
{
	git -C "$1" commit -q -a -m "$3"
	git -C "$1" format-patch -q -1 --zero-commit --no-signature --full-index --stdout >"$2"
}

# --- the kernel -----------------------------------------------------------
k=$tmp/k/linux-9.9
st=tools/testing/selftests
mkdir -p "$k/kernel" "$k/scripts/kconfig" "$k/$st/one" "$k/$st/two" "$k/$st/kselftest" "$fake"
cat >"$k/Makefile" <<'MAKE'
VERSION = 9
PATCHLEVEL = 9
tinyconfig olddefconfig modules:
	@sh kbuild.sh $@ "$(O)" "$(M)"
bzImage: $(patsubst %.c,$(O)/%.o,$(wildcard kernel/*.c))
	@sh kbuild.sh $@ "$(O)"
$(O)/kernel/%.o: kernel/%.c
	@mkdir -p $(@D)
	@echo "  CC      kernel/$*.o"
	@gcc -Wall -c $< -o $@
MAKE
cat >"$k/kbuild.sh" <<'KBUILD'
set -eu
echo "$1" >>"$MAKES"
case $1 in
tinyconfig) echo '# CONFIG_TINY is not set' >"$2/.config" ;;
olddefconfig)
	awk '
	NR == FNR && $1 == "config" { s = $2; k[++n] = s; next }
	NR == FNR && $1 == "depends" { need[s] = $3; next }
	NR == FNR && $1 == "if" { block = $2; next }
	NR == FNR && $1 == "endif" { block = ""; next }
	NR == FNR && $1 == "default" { def[s] = $2; next }
	NR == FNR && $1 == "bool" { if (block) need[s] = block; next }
	NR == FNR { next }
	{ name = $0; sub(/^# /, "", name); sub(/^CONFIG_/, "", name); sub(/[ =].*/, "", name) }
	/^CONFIG_/ { v[name] = "y" }
	/^# CONFIG_/ { v[name] = "n" }
	END { for (i = 1; i <= n; i++) { s = k[i]
		if (need[s] != "" && v[need[s]] != "y") { v[s] = "n"; continue }
		if (v[s] == "") v[s] = def[s]
		if (def[s] == "always") v[s] = "y"
		print (v[s] == "y" ? "CONFIG_" s "=y" : "# CONFIG_" s " is not set") } }' \
		Kconfig "$2/.config" >"$2/.config.new"
	mv "$2/.config.new" "$2/.config" ;;
bzImage)
	mkdir -p "$2/arch/x86/boot" "$2/usr"
	if [ -n "${SLOW:-}" ]; then echo $$ >"$SLOW"; exec sleep 60; fi
	(cd "$2" && rm -f vmlinux.a && ar rcsDT vmlinux.a kernel/*.o)
	(cd "$2" && ld -r -o vmlinux kernel/*.o)
	cp "$2/vmlinux" "$2/arch/x86/boot/bzImage"
	nm "$2/vmlinux" >"$2/System.map"
	printf '#!/bin/sh\ncat "$3"\n' >"$2/usr/gen_init_cpio"
	chmod 755 "$2/usr/gen_init_cpio" ;;
modules)
	if [ -n "$3" ]; then
		echo module | tee "$3/bench.ko" >"$3/sizes.ko"
		echo 'char size_of_thing[300];' | gcc -x c -c - -o "$3/sizes.o"
		exit
	fi
	mkdir -p "$2/lib/tests"
	echo module >"$2/lib/tests/test_static_key_base.ko"
	echo module >"$2/lib/tests/test_static_keys.ko" ;;
esac
KBUILD
cat >"$k/scripts/kconfig/merge_config.sh" <<'MERGE'
#!/bin/sh
# merge_config.sh -m -O DIR CONFIG FRAGMENT
grep -hE '^(# )?CONFIG_' "$4" "$5" >"$3/.config.new"
mv "$3/.config.new" "$3/.config"
MERGE
chmod 755 "$k/scripts/kconfig/merge_config.sh"
cat >"$k/Kconfig" <<'KCONFIG'
config PARENT
	bool "parent"
config CHILD
	bool "child"
	depends on PARENT
if PARENT
config INNER
	bool "inner"
endif
config OPTION
	bool "option"
config DEFAULT
	bool "default"
	default n
config ALWAYS
	bool
	default always
config BENCH
	bool "bench"
config DEBUG
	bool "debug"
config TESTED
	bool "what the tests need"
config NESTED
	bool "what a module of the tests needs"
KCONFIG
echo 'int good(int a); int good(int a) { return a; }' >"$k/kernel/good.c"
echo 'int jump(int a); int jump(int a) { return a; }' >"$k/kernel/jump_label.c"
: >"$k/$st/kselftest.h"
: >"$k/$st/kselftest_harness.h"
: >"$k/$st/kselftest/runner.sh"
: >"$k/$st/one/Makefile"
: >"$k/$st/two/Makefile"
cat >"$k/$st/lib.mk" <<'LIB'
all: $(TEST_GEN_PROGS)
$(TEST_GEN_PROGS): %: %.c
	gcc -Wall $(USERCFLAGS) -o $@ $<
install: all
	mkdir -p $(INSTALL_PATH)
	cp $(TEST_GEN_PROGS) $(INSTALL_PATH)/
emit_tests:
	@for t in $(TEST_GEN_PROGS); do echo "$(COLLECTION):$$t"; done
LIB
tar -C "$tmp/k" -cJf "$tmp/base.tar.xz" linux-9.9

# --- the repository -------------------------------------------------------
mkdir -p "$repo/patches/9.9/alpha" "$repo/patches/9.9/beta" "$repo/patches/9.9/gamma" "$repo/Kconfig.fragments" \
	"$repo/selftests/alpha" "$repo/selftests/beta" "$repo/selftests/gamma/module"
cp -r "$top/scripts" "$repo/"
sed -i 's/^cache_need_mb=.*/cache_need_mb=1/' "$repo/scripts/lib.sh"
sed -i 's/need_space 2048 /need_space 1 /' "$repo/scripts/build"
printf 'make\tmake\n' >"$repo/scripts/packages"
printf 'alpha\tone\nbeta\ttwo\ngamma\tone\n' >"$repo/patches/9.9/order"
printf '9.9\t9.9.1\tpackage=9.9.1-1\tsuite\tlinux.tar.xz\t%s\tnone\n' \
	"$(sha256sum "$tmp/base.tar.xz" | cut -c-64)" >"$repo/patches/bases"
f=$repo/Kconfig.fragments
printf '# Help: base\nCONFIG_PARENT=y\nCONFIG_OPTION=y\n' >"$f/base.config"
printf '# Help: bench\nCONFIG_BENCH=y\n# CONFIG_DEBUG is not set\n' >"$f/bench.config"
printf '# Help: debug\nCONFIG_DEBUG=y\n' >"$f/debug.config"
printf '# Help: schedstats\nCONFIG_OPTION=y\n' >"$f/schedstats.config"
printf '# Help: 9.9\n#CHECK# CONFIG_ALWAYS=y\n' >"$f/9.9.config"
for s in alpha beta gamma; do
	echo CONFIG_TESTED=y >"$repo/selftests/$s/config"
	printf 'TEST_GEN_PROGS := test_%s\ninclude ../lib.mk\n' $s >"$repo/selftests/$s/Makefile"
	echo 'int main(void) { return 0; }' >"$repo/selftests/$s/test_$s.c"
done
echo CONFIG_NESTED=y >"$repo/selftests/gamma/module/config"
rm "$repo/selftests/gamma/config"
for prog in init calibrate roi; do
	echo 'int main(void) { return 0; }' >"$repo/selftests/$prog.c"
done
echo 'exit 0' >"$repo/selftests/guest.sh"
: >"$repo/selftests/roi.h"
mkdir "$repo/selftests/bench"
echo 'exit 0' >"$repo/selftests/bench/bench.sh"
echo 'int main(void) { return 0; }' >"$repo/selftests/bench/prog.c"
printf '2\tbare\t1\t/bin/true\n' >"$repo/selftests/bench/bare.list"
printf '# needs: bench/bench.sh bench/prog\n2\tone\t1\t./bench.sh\n3\ttwo\t1\tbench.ko\n4\tthree\t1\t./prog -r @ID@ x\n' >"$repo/selftests/bench/alpha.list"
dev=$tmp/dev
cp -r "$k" "$dev"
git -C "$dev" init -q -b main
git -C "$dev" add -A
git -C "$dev" commit -q -m base
echo 'int alpha(int a); int alpha(int a) { return a + 1; }' >>"$dev/kernel/good.c"
export_patch "$dev" "$repo/patches/9.9/alpha/0001-a.patch" 'alpha: Add a function'
git -C "$dev" checkout -q --detach main~1
sed -i '/"default"/{n;s/n$/y/}' "$dev/Kconfig"
export_patch "$dev" "$repo/patches/9.9/beta/0001-b.patch" 'beta: Change a default'
git -C "$dev" checkout -q --detach main
echo 'int gamma(int a); int gamma(int a) { return a; }' >>"$dev/kernel/good.c"
export_patch "$dev" "$repo/patches/9.9/gamma/0001-c.patch" 'gamma: Add another function'
git -C "$dev" checkout -q --detach main
sed -i '1s/return a;/return b;/' "$dev/kernel/jump_label.c"
export_patch "$dev" "$tmp/broken.patch" 'mutant: Does not compile'
git -C "$dev" checkout -q --detach main
sed -i '1s/return a;/int unused; return a;/' "$dev/kernel/jump_label.c"
export_patch "$dev" "$tmp/warns.patch" 'mutant: Warns'
t_run "$repo/scripts/tree" --base 9.9 --series stock --tarball "$tmp/base.tar.xz"
t_expect set_up 0 '^commit='
sed -i "s/none\$/$(sed -n 's/^base_commit=//p' "$tmp/out")/" "$repo/patches/bases"

# --- what is refused ------------------------------------------------------
build --config bench --config debug
one bench_and_debug 2 'bench and debug together'
build --config debug --config bench
one debug_and_bench 2 'debug and bench together'
build --config fast
one unknown_config 2 "'fast' is none of bench, debug and schedstats"
build --series alpha --config
one config_without_value 2 '--config needs a value'
build --series
one series_without_value 2 '--series needs a value'
build --series nosuch
one unknown_series 2 "no series 'nosuch'"
build --nosuch
one unknown_option 2 "unknown argument '--nosuch'"
build --fragment "$tmp/nosuch"
one fragment_missing 2 'cannot read .*nosuch'
build --fresh "$tmp"
one fresh_exists 2 'exists already'
mv "$repo/selftests/beta/config" "$tmp/kept"
build --series alpha
one selftests_config_missing 2 'no selftests/beta/config, nor one further down$'
mv "$tmp/kept" "$repo/selftests/beta/config"
mv "$f/9.9.config" "$tmp/kept"
build --series alpha
one base_fragment_missing 2 'Kconfig\.fragments/9\.9\.config'
mv "$tmp/kept" "$f/9.9.config"
echo '# CONFIG_PARENT is not set' >>"$f/bench.config"
build --series alpha
one contradiction 2 'contradict each other: CONFIG_PARENT=y and # CONFIG_PARENT is not set'
sed -i '$d' "$f/bench.config"
echo 'CONFIG_OPTION=m' >>"$repo/selftests/beta/config"
build --series alpha
one contradiction_of_a_test 2 'contradict each other: CONFIG_OPTION=y and CONFIG_OPTION=m'
sed -i '$d' "$repo/selftests/beta/config"
printf 'make\tmake\n# no\nno-such-a\tno-such-command-a\nno-such-b\t/no/such/file\n' >"$repo/scripts/packages"
build --series alpha
one package_missing 2 'missing packages: no-such-a no-such-b; as root: apt-get install -y --no-install-recommends no-such-a no-such-b$'
printf '#!/bin/sh\necho "apt-get $*" >>"%s"\nexit 100\n' "$fake/calls" >"$fake/apt-get"
chmod 755 "$fake/apt-get"
if [ "$(id -u)" = 0 ]; then
	t_run env PATH="$fake:$PATH" "$repo/scripts/build" --base 9.9 --series alpha
	t_expect package_not_installable 2 'apt-get update failed'
else
	t_skip package_not_installable 'only root installs'
fi
printf 'make\tmake\n' >"$repo/scripts/packages"
is nothing_was_made "$(cat "$MAKES"; entries)" ''

# --- options that do not survive ------------------------------------------
# lost NAME FRAGMENT-LINE PATTERN
lost()
{
	echo "$2" >>"$f/base.config"
	build --series alpha
	t_expect "$1" 1 "$3"
	sed -i '$d' "$f/base.config"
}
lost option_unknown CONFIG_NOSUCH=y "'CONFIG_NOSUCH=y' did not survive olddefconfig: no Kconfig file has it"
sed -i 's/^CONFIG_PARENT=y/CONFIG_BENCH=y/' "$f/base.config"
lost option_with_a_dependency CONFIG_CHILD=y "'CONFIG_CHILD=y' did not survive olddefconfig: it depends on PARENT; not set: PARENT"
lost option_in_an_if_block CONFIG_INNER=y "'CONFIG_INNER=y' did not survive olddefconfig: it depends on PARENT; not set: PARENT"
sed -i '2s/^CONFIG_BENCH=y/CONFIG_PARENT=y/' "$f/base.config"
printf '# CONFIG_ALWAYS is not set\n' >"$tmp/frag"
build --series alpha --fragment "$tmp/frag"
t_expect option_that_cannot_be_off 1 "'# CONFIG_ALWAYS is not set' did not survive olddefconfig"
lost option_only_checked '#CHECK# CONFIG_DEFAULT=y' "'CONFIG_DEFAULT=y' did not survive olddefconfig"
is nothing_was_built "$(grep -c bzImage "$MAKES" || :)$(entries)" 0

# --- a build, and the cache -----------------------------------------------
build --series alpha
first=$entry
bad=''
for file in bzImage vmlinux System.map config guest.cpio tests.cpio count.cpio count.alpha.cpio objects link-order warnings build.log meta sha256sums; do
	[ -e "$entry/$file" ] || bad="$bad $file"
done
is build "$rc$bad" 0
is sizes "$(cat "$entry/sizes")" "$(printf 'thing\t300')"
is build_meta "$(sed -n 's/=.*//p' "$entry/meta" | tr '\n' ' ')" \
	'base series config commit tree config_id tests compiler linker bzimage_sha256 '
is build_config "$(tr '\n' ' ' <"$entry/config")" \
	'CONFIG_PARENT=y # CONFIG_CHILD is not set # CONFIG_INNER is not set CONFIG_OPTION=y # CONFIG_DEFAULT is not set CONFIG_ALWAYS=y CONFIG_BENCH=y # CONFIG_DEBUG is not set CONFIG_TESTED=y CONFIG_NESTED=y '
is build_objects "$(cut -c67- "$entry/objects" | tr '\n' ' ')" 'kernel/good.o kernel/jump_label.o '
# alpha and gamma have the same folder, and each only its own programs.
is build_tests "$(grep -c -E '^file /tests/(one/test_alpha|two/test_beta|one/test_gamma) ' "$entry/tests.cpio")" 3
# The guest of a bench has what the bench names, not what is edited beside it.
is build_count_archive "$(sed -n 's|^file /tests/\([^ ]*\) .*|\1|p' "$entry/count.alpha.cpio" | tr '\n' ' ')" \
	'bench/bench.sh bench/prog count.alpha guest/calibrate guest/roi '
is build_count_folder "$(grep -c '^dir /tests/bench ' "$entry/count.alpha.cpio" "$entry/count.bare.cpio" | cut -d : -f 2 | tr '\n' ' ')" '1 1 '
lists=$(echo "$cache"/obj/*/hotpath-tests/out/tests)
is build_list "$(tr '\n' ';' <"$lists/list")" 'guest/sanity ./guest.sh start;one/test_alpha ./test_alpha;two/test_beta ./test_beta;one/test_gamma ./test_gamma;guest/test_static_keys test_static_key_base.ko test_static_keys.ko;guest/untainted ./guest.sh end;'
is build_count_list "$(tr '\n' ';' <"$lists/count.alpha")" 'guest/calibrate ./calibrate;bench/one ../guest/roi 2 -- ./bench.sh;bench/two bench.ko;bench/three ./prog -r 4 x;'
is build_no_warnings "$(cat "$entry/warnings")" ''
is build_no_scraps "$(scraps)" ''
sed -i 's/^# needs:.*/& bench\/nothing/' "$repo/selftests/bench/alpha.list"
build --series alpha
t_expect build_without_what_a_bench_needs 1 'selftests/bench/alpha.list needs tests/bench/nothing: nothing makes that'
sed -i 's/^# needs:\(.*\) bench.nothing/# needs:\1/' "$repo/selftests/bench/alpha.list"
: >"$MAKES"
build --series alpha
t_expect cache_hit 0 'is in the cache'
is cache_hit_builds_nothing "$entry $(cat "$MAKES")" "$first "
mkdir "$tmp/other place"
cp -r "$repo" "$tmp/other place/"
t_run "$tmp/other place/repo/scripts/build" --base 9.9 --no-install --series alpha
is cache_hit_from_another_clone "$rc $(cat "$tmp/out")" "0 $first"
sum=$(sha256sum <"$first/bzImage")
before=$(cd "$cache" && find build obj -printf '%p %T@\n' | sort)
build --series alpha --fresh "$tmp/fresh1"
is fresh_is_the_same "$rc $(sha256sum <"$tmp/fresh1/bzImage")" "0 $sum"
is fresh_builds_from_nothing "$(tr '\n' ' ' <"$MAKES" | grep -c 'tinyconfig.*bzImage')" 1
is fresh_leaves_the_cache_alone "$(cd "$cache" && find build obj -printf '%p %T@\n' | sort)" "$before"

# damage NAME: the next run notices, builds again, and the entry is good
damage()
{
	build --series alpha
	t_expect "$1" 0 'is damaged: building again'
	is "$1 is built again" "$entry $(cd "$entry" && sha256sum -c --quiet sha256sums 2>&1; sha256sum <bzImage)" "$first $sum"
}
printf X | dd of="$first/bzImage" bs=1 seek=100 conv=notrunc 2>/dev/null
damage flipped_byte
rm "$first/vmlinux"
damage file_missing
: >"$first/sha256sums"
damage sums_empty

# --- what makes another build ---------------------------------------------
build --series beta
another another_series
cp "$entry/config" "$tmp/config"
build --series beta --fresh "$tmp/fresh3"
is config_has_no_history "$(cat "$tmp/fresh3/config")" "$(cat "$tmp/config")"
cp "$repo/patches/9.9/alpha/0001-a.patch" "$tmp/kept"
sed -i 's/return a + 1/return a + 2/' "$repo/patches/9.9/alpha/0001-a.patch"
build --series alpha
another another_patch
cp "$tmp/kept" "$repo/patches/9.9/alpha/0001-a.patch"
echo 'CONFIG_CHILD=y' >>"$f/base.config"
build --series alpha
another another_fragment
sed -i '$d' "$f/base.config"
echo '// comment' >>"$repo/selftests/beta/test_beta.c"
build --series alpha
another another_selftest
sed -i '$d' "$repo/selftests/beta/test_beta.c"
cp "$repo/selftests/beta/Makefile" "$tmp/kept"
# shellcheck disable=SC2016 # make's
printf '$(shell echo x >>%s/selftests/beta/new)\n' "$repo" >>"$repo/selftests/beta/Makefile"
build --series alpha
t_expect changed_during_the_build 2 'were changed during the build: run it again'
mv "$tmp/kept" "$repo/selftests/beta/Makefile"
rm "$repo/selftests/beta/new"
build --series alpha --config debug
another another_config
build --series alpha --config schedstats
another schedstats_config
is schedstats_is_bench_and_more "$(grep -c '^CONFIG_BENCH=y' "$entry/config") $(sed -n 's/^config=//p' "$entry/meta")" '1 schedstats'
printf '# CONFIG_OPTION is not set\n' >"$tmp/frag"
build --series alpha --fragment "$tmp/frag"
another fragment_on_top
is fragment_on_top_wins "$(grep -c '^# CONFIG_OPTION is not set' "$entry/config")" 1
# shellcheck disable=SC2016 # expanded by the fake
printf '#!/bin/sh\n[ "$*" != --version ] || { echo "gcc (fake) 99.1"; exit 0; }\nexec "%s" "$@"\n' "$(command -v gcc)" >"$fake/gcc"
chmod 755 "$fake/gcc"
t_run env PATH="$fake:$PATH" "$repo/scripts/build" --base 9.9 --no-install --series alpha
entry=$(cat "$tmp/out")
another another_compiler
build --series alpha
is all_put_back_is_the_first "$rc $entry $(cat "$MAKES")" "0 $first "

# --- builds that fail, and warnings ---------------------------------------
was=$(entries)
build --series alpha --mutant "$tmp/broken.patch"
t_expect compile_error 1 "does not build: kernel/jump_label\.c:1:.* error: .*log: $cache/failed-build\.log"
is compile_error_log "$(grep -c 'error:' "$cache/failed-build.log") $(entries) $(scraps)" "1 $was "
build --series alpha --mutant "$tmp/warns.patch"
is warning_is_listed "$rc $(grep -c '^kernel/jump_label.c:1:.*warning: unused variable' "$entry/warnings")" '0 1'
echo '// comment' >>"$repo/selftests/beta/test_beta.c"
build --series alpha --mutant "$tmp/warns.patch"
is warning_of_an_object_not_rebuilt "$rc $(grep -c '^kernel/jump_label.c:1:.*warning: unused variable' "$entry/warnings")" '0 1'
sed -i '$d' "$repo/selftests/beta/test_beta.c"
build --series stock
is warning_not_of_stock "$rc $(cat "$entry/warnings")" '0 '
cp "$repo/selftests/beta/test_beta.c" "$tmp/kept"
echo 'int main(void) { int unused; return 0; }' >"$repo/selftests/beta/test_beta.c"
build --series alpha
t_expect selftest_that_warns 1 'the selftests of beta do not build: .*test_beta\.c:1:.*unused'
cp "$tmp/kept" "$repo/selftests/beta/test_beta.c"
cp "$repo/selftests/init.c" "$tmp/kept"
echo 'int main(void) { int unused; return 0; }' >"$repo/selftests/init.c"
build --series alpha
t_expect init_that_warns 1 'selftests/init\.c does not build'
cp "$tmp/kept" "$repo/selftests/init.c"

# --- signals, and two at a time -------------------------------------------
# stopped NAME PIDFILE: TERM to $pid, whose slow part has written PIDFILE
stopped()
{
	wait_for "$2"
	began=$(date +%s)
	kill "$pid"
	rc=0
	wait "$pid" || rc=$?
	t_expect "$1" 130 'interrupted; nothing half-written is left'
	took=$(($(date +%s) - began))
	if [ $took -le 10 ]; then t_ok "$1 at once"; else t_notok "$1 at once" "it took $took s"; fi
	n=0	# a zombie until its new parent looks
	while kill -0 "$(cat "$2")" 2>/dev/null && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
	if kill -0 "$(cat "$2")" 2>/dev/null; then
		t_notok "$1 ends its children" 'they still run'
		kill "$(cat "$2")" || :
	else
		t_ok "$1 ends its children"
	fi
	is "$1 leaves nothing" "$(scraps) $(entries)" " $was"
}
echo 'int late; // comment' >>"$repo/selftests/alpha/test_alpha.c"
was=$(entries)
SLOW=$tmp/slow.pid "$repo/scripts/build" --base 9.9 --no-install --series alpha --mutant "$tmp/warns.patch" >"$tmp/out" 2>"$tmp/err" &
pid=$!
stopped term_during_make "$tmp/slow.pid"
build --series alpha --mutant "$tmp/warns.patch"
is next_run_carries_on "$rc $(grep -c 'unused variable' "$entry/warnings")" '0 1'

: >"$MAKES"
"$repo/scripts/build" --base 9.9 --no-install --series alpha >"$tmp/out1" 2>"$tmp/err1" &
pid=$!
rc1=0
build2=$("$repo/scripts/build" --base 9.9 --no-install --series alpha 2>"$tmp/err2") || rc1=$?
wait $pid || rc1=$?
is two_at_a_time "$rc1 $build2" "0 $(cat "$tmp/out1")"
is only_one_builds "$(grep -c bzImage "$MAKES")" 1

cat >"$fake/tar" <<'FAKE'
#!/bin/sh
echo $$ >"$FAKE/tar.pid"
exec sleep 60
FAKE
chmod 755 "$fake/tar"
cache=$tmp/cache2/hotpath was=''
PATH="$fake:$PATH" FAKE="$fake" XDG_CACHE_HOME="$tmp/cache2" "$repo/scripts/build" --base 9.9 \
	--no-install --series alpha --tarball "$tmp/base.tar.xz" >"$tmp/out" 2>"$tmp/err" &
pid=$!
stopped term_during_tree "$fake/tar.pid"
cache=$tmp/cache/hotpath

# --- the cache's limit ----------------------------------------------------
for old in 1 2; do
	mkdir "$cache/build/9.9-old$old"
	dd if=/dev/zero of="$cache/build/9.9-old$old/vmlinux" bs=1048576 count=20 2>/dev/null
done
used=$(du -sm "$cache" | cut -f1)
touch -d 2020-01-01 "$cache/build/9.9-old1"
touch -d 2020-01-02 "$cache/build/9.9-old2"
was=$(entries)
sed -i "s/^cache_limit_mb=.*/cache_limit_mb=$((used - 10))/" "$repo/scripts/lib.sh"
echo '// more' >>"$repo/selftests/alpha/test_alpha.c"
build --series alpha
t_expect over_the_limit 0 "cache over $((used - 10)) MB: dropping .*/build/9\.9-old1"
is over_the_limit_drops_the_oldest_only "$(entries)" \
	"$(printf '%s%s \n' "$was" "$entry" | tr ' ' '\n' | grep -v -e old1 -e '^$' | sort | tr '\n' ' ')"
is over_the_limit_is_below_it "$(du -sm "$cache" | awk -v l=$((used - 10)) '{ print ($1 <= l) }')" 1
t_done
