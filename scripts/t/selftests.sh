#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# selftests.sh - the guest programs on the host, with golden files mounted over
# what they read in /proc: they must see a wrong order, and must never pass for
# want of evidence. Test output as tlib.sh says.
#
# Needs the kernel's harness, from a tree that scripts/tree has unpacked, and a
# mount namespace (root, or user namespaces); else the tests are skipped.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp
golden=$top/scripts/testdata/kallsyms
cd "$tmp"

# with FILE TARGET... -- COMMAND...: COMMAND with each FILE mounted over TARGET
cat >"$tmp/with" <<'EOT'
while [ "$1" != -- ]; do
	mount --bind "$1" "$2" || exit 77
	shift 2
done
shift
exec "$@"
EOT
cannot="neither root nor user namespaces: nothing can be mounted over /proc"
own=
for u in 'unshare -m' 'unshare -rm'; do
	if [ -z "$own" ] && $u sh "$tmp/with" "$golden/stock" /proc/kallsyms -- true 2>/dev/null; then
		own=$u cannot=''
	fi
done
# shellcheck disable=SC2086 # a command and its options
with() { t_run $own sh "$tmp/with" "$@"; }

# What the host's own /proc/config.gz says must not matter.
config() { printf '%s\n' "$@" | gzip >"$tmp/config.gz"; }
if [ -e /proc/config.gz ]; then over_config=$tmp/config.gz; else over_config=''; fi

harness=
for f in "${XDG_CACHE_HOME:-$HOME/.cache}"/hotpath/src/*/tools/testing/selftests/kselftest_harness.h; do
	[ ! -r "$f" ] || harness=${f%/*}
done
no_harness="no kselftest_harness.h: run scripts/tree first"
for prog in jump_label_order static_key_flip; do
	if [ -z "$harness" ]; then
		t_skip "build $prog" "$no_harness"
	elif cc -Wall -Werror -O2 -static -D_GNU_SOURCE= -I"$harness" \
		"$top/selftests/jump-label/$prog.c" -o "$tmp/$prog" 2>"$tmp/err"; then
		t_ok "build $prog"
	else
		t_notok "build $prog" "$(grep -m 1 error "$tmp/err" || head -n 1 "$tmp/err")"
		no_harness="$prog does not build"
	fi
done

# order NAME GOLDEN STATUS KERNEL X86: jump_label_order on a golden kallsyms;
# KERNEL and X86 are "ok", "not ok" or the reason of a SKIP
order()
{
	if [ -n "$cannot" ] || [ ! -x "$tmp/jump_label_order" ]; then
		t_skip "order: $1" "${cannot:-$no_harness}"
		return
	fi
	with "$golden/$2" /proc/kallsyms ${over_config:+"$over_config" /proc/config.gz} -- ./jump_label_order
	grep -E '^(1\.\.|ok|not ok)' "$tmp/out" >"$tmp/got" || :
	{
		echo 1..2
		result "$4" 1 order.kernel
		result "$5" 2 order.arch_x86_kernel
	} >"$tmp/want"
	why=''
	if [ "$rc" != "$3" ]; then why="status $rc, wanted $3"
	elif ! cmp -s "$tmp/got" "$tmp/want"; then why="$(diff "$tmp/want" "$tmp/got" | sed -n '2,$s/.*\([<>].*\)/\1/p' | tr '\n' ' ')"
	else
		for w in "$4=kernel/Makefile" "$5=arch/x86/kernel/Makefile"; do
			[ "${w%%=*}" != 'not ok' ] || grep -q "move its line in ${w#*=} behind" "$tmp/err" "$tmp/out" ||
				why="it does not say which line of ${w#*=} to move"
		done
	fi
	if [ -z "$why" ]; then t_ok "order: $1"; else t_notok "order: $1" "$why"; fi
}

result()	# RESULT NUMBER VARIANT
{
	name="$2 $3.jump_label_is_not_between_hot_functions"
	case $1 in
	ok | 'not ok') echo "$1 $name" ;;
	*) echo "ok $name # SKIP $1" ;;
	esac
}

config CONFIG_LTO_NONE=y '# CONFIG_LTO_CLANG is not set' CONFIG_ARCH_SUPPORTS_LTO_CLANG=y
order stock stock 1 'not ok' 'not ok'
order patched patched 0 ok ok
# KVM has a static read_tsc() too: a name that two objects have says nothing.
order 'a name twice' same-name 0 ok ok
# The line added at the end while the early one stays: kbuild keeps the first.
order 'early line kept in kernel/Makefile' arch-moved-only 1 'not ok' ok
order 'early line kept in arch/x86/kernel/Makefile' kernel-moved-only 1 ok 'not ok'

s='/proc/kallsyms is empty (CONFIG_KALLSYMS is not set?)'
order 'empty kallsyms' empty 0 "$s" "$s"
s='/proc/kallsyms hides addresses (kptr_restrict, or not root)'
order 'kptr_restrict' hidden 0 "$s" "$s"
s='/proc/kallsyms has no bounds of the text section'
order 'no bounds' no-bounds 0 "$s" "$s"
s='0 functions of jump_label.o found (CONFIG_JUMP_LABEL is not set?)'
order 'JUMP_LABEL=n' no-jump-label 0 "$s" "$s"
s='4 of the known hot functions found: no evidence'
order 'too few hot functions' few-hot 0 "$s" "$s"
s='LTO: object order not preserved (update_curr.llvm.1234567890123456789)'
order 'LTO suffixes' lto 0 "$s" "$s"
order 'a profile' profile 0 'update_curr before try_to_wake_up: not in link order (LTO, a profile?)' \
	'read_tsc before arch_irq_work_raise: not in link order (LTO, a profile?)'
order 'hot functions inside' inside 0 '__rseq_handle_slowpath inside jump_label.o: not in link order (LTO, a profile?)' \
	'native_send_call_func_single_ipi inside jump_label.o: not in link order (LTO, a profile?)'
for option in LTO_CLANG LTO_GCC AUTOFDO_CLANG PROPELLER_CLANG FG_KASLR; do
	if [ -z "$over_config" ]; then
		t_skip "order: $option" "this host has no /proc/config.gz to mount over"
		continue
	fi
	config CONFIG_X=y "CONFIG_$option=y" CONFIG_Z=y
	order "$option" patched 0 "CONFIG_$option: object order not preserved" "CONFIG_$option: object order not preserved"
done

# kselftest wants 4 when all was skipped (case E5). 7.3's harness returns 0, so
# the status cannot be trusted: scripts/report goes by the SKIP of each line.
name='order: status 4 when all is skipped'
if [ -n "$cannot" ] || [ ! -x "$tmp/jump_label_order" ]; then
	t_skip "$name" "${cannot:-$no_harness}"
else
	with "$golden/empty" /proc/kallsyms -- ./jump_label_order
	case $rc in
	4) t_ok "$name" ;;
	0) t_skip "$name" "the kernel's harness returns 0; its SKIP lines are what counts" ;;
	*) t_notok "$name" "status $rc" ;;
	esac
fi

# Without the module, as in a tree that has not been built, nothing is loaded.
name='flip: no module'
if [ ! -x "$tmp/static_key_flip" ]; then
	t_skip "$name" "$no_harness"
else
	t_run ./static_key_flip
	if [ "$(grep -cE '^(ok|not ok)' "$tmp/out")" = 1 ] && { [ $rc = 0 ] || [ $rc = 4 ]; } &&
	   grep -qE '^ok 1 flip.every_flip_is_followed # SKIP (needs root|needs two CPUs|test_modules/.*was not built)' "$tmp/out"; then
		t_ok "$name"
	else
		t_notok "$name" "status $rc: $(grep -m 1 -E '^(ok|not ok)' "$tmp/out")"
	fi
fi

# The layout test without a module is a SKIP; without its contract it is red.
if [ -z "$harness" ]; then
	t_skip 'build sched_entity_layout' "$no_harness"
elif cc -Wall -Werror -O2 -static -D_GNU_SOURCE= -I"$harness" \
	"$top/selftests/sched-entity/sched_entity_layout.c" -o "$tmp/sched_entity_layout" 2>"$tmp/err"; then
	t_ok 'build sched_entity_layout'
else
	t_notok 'build sched_entity_layout' "$(grep -m 1 error "$tmp/err" || head -n 1 "$tmp/err")"
fi
# layout NAME RESULT: all five of its tests say this
layout()
{
	if [ ! -x "$tmp/sched_entity_layout" ]; then
		t_skip "layout: $1" "$no_harness"
		return
	fi
	t_run ./sched_entity_layout
	if [ "$(grep -cE '^(ok|not ok)' "$tmp/out")" = 5 ] && [ "$(cat "$tmp/out" "$tmp/err" | grep -cE "$2")" = 5 ]; then
		t_ok "layout: $1"
	else
		t_notok "layout: $1" "status $rc: $(grep -m 1 -E '^(ok|not ok)' "$tmp/out")"
	fi
}
layout 'no contract' 'sched_entity_layout.tsv is missing or damaged'
contract=$top/selftests/sched-entity/sched_entity_layout.tsv
sed 's/^slice	tree	/slice	tree/' "$contract" >"$tmp/sched_entity_layout.tsv"
layout 'a field of the contract is gone' 'sched_entity_layout.tsv is missing or damaged'
cp "$contract" "$tmp/sched_entity_layout.tsv"
layout 'no module' '^ok [0-9] layout\.[a-z_]+ # SKIP (needs root to load a module|sched_entity_probe\.ko was not built)'

# guest NAME STATUS MESSAGE FILE TARGET... -- COMMAND...: selftests/guest.sh
# ends so and says so, or nothing if MESSAGE is empty
guest()
{
	name="guest: $1" status=$2 message=$3
	shift 3
	if [ -n "$cannot" ]; then
		t_skip "$name" "$cannot"
		return
	fi
	with "$@"
	if [ -n "$message" ]; then t_expect "$name" "$status" "$message"
	elif [ "$rc" = "$status" ] && [ ! -s "$tmp/out" ]; then t_ok "$name"
	else t_notok "$name" "status $rc, wanted $status and no word: $(head -n 1 "$tmp/out")"; fi
}
printf 'processor\t: 0\nprocessor\t: 1\n' >two
printf 'processor\t: 0\n' >one
config CONFIG_MODULES=y
sh=$top/selftests/guest.sh
if [ -n "$over_config" ]; then
	guest fit 0 '' "$golden/stock" /proc/kallsyms two /proc/cpuinfo config.gz /proc/config.gz -- sh "$sh" start
else
	t_skip 'guest: fit' "this host has no /proc/config.gz to mount over"
fi
guest 'one CPU' 1 '^# not two CPUs online' "$golden/stock" /proc/kallsyms one /proc/cpuinfo -- sh "$sh" start
guest 'empty kallsyms' 1 '^# no symbols in' "$golden/empty" /proc/kallsyms two /proc/cpuinfo -- sh "$sh" start
guest 'hidden addresses' 1 '^# no addresses in' "$golden/hidden" /proc/kallsyms two /proc/cpuinfo -- sh "$sh" start
for t in 0 4096 266240; do
	echo $t >taint
	guest "tainted $t is fine" 0 "^# tainted: $t\$" taint /proc/sys/kernel/tainted -- sh "$sh" end
done
for t in 512 128 4608; do
	echo $t >taint
	guest "tainted $t is not" 1 "^# the kernel is tainted: $t\$" taint /proc/sys/kernel/tainted -- sh "$sh" end
done
# sched_stat_tools.sh with tools that are fakes: what they say decides, and whoever
# cannot tell is a reason to skip, by its name.
script=$top/selftests/sched-stat/sched_stat_tools.sh
mkdir -p "$tmp/bin" "$tmp/sys/tracing/events/sched/sched_stat_sleep" "$tmp/bare/tracing" \
	"$tmp/stock/tracing/events/sched"
for prog in awk cat cut grep head id mktemp rm sed sh tail; do
	ln -s "$(command -v $prog)" "$tmp/bin/$prog"
done
printf '#!/bin/sh\nexit 1\n' >"$tmp/bin/mount"
cp -r "$tmp/bin" "$tmp/both"
cat >"$tmp/both/trace-cmd" <<'EOT'
#!/bin/sh
[ "$1" = record ] || echo "  <idle>-0 [000] 1.0: sched_stat_sleep: comm=sleep pid=9 delay=${NS:-1000000000} [ns]"
EOT
cat >"$tmp/both/perf" <<'EOT'
#!/bin/sh
[ -z "$PERF_SAYS" ] || { echo "$PERF_SAYS" >&2; exit 129; }
case $* in
script*trace) echo "swapper ${PERIOD:-${NS:-1000000000}} comm=sleep pid=9 delay=${NS:-1000000000} [ns]" ;;
script*) echo "sleep ${NS:-1000000000}" ;;
esac
EOT
chmod 755 "$tmp/bin/mount" "$tmp/both/perf" "$tmp/both/trace-cmd"

# tools NAME STATUS PATTERN SYS PATH [ENV...]: a line of its output is PATTERN
tools()
{
	if [ -n "$cannot" ] || [ "$(id -u)" != 0 ]; then
		t_skip "sched_stat_tools: $1" "${cannot:-not root}"
		return
	fi
	name=$1 status=$2 pattern=$3 sys=$4 path=$5
	shift 5
	with "$tmp/$sys" /sys/kernel -- env PATH="$tmp/$path" "$@" sh "$script"
	t_expect "sched_stat_tools: $name" "$status" "$pattern"
}
tools 'all well' 0 '^ok 3 perf_inject$' sys both
tools 'no tools' 4 '^ok 1 trace_cmd # SKIP no trace-cmd$' sys bin
tools 'no tracefs' 4 '^1\.\.0 # SKIP no tracefs' bare both
tools 'perf without libtraceevent' 0 '^ok 2 perf_period # SKIP perf cannot read tracepoints' sys both \
	'PERF_SAYS=event syntax error: unsupported tracepoint, libtraceevent is necessary'
tools 'perf that fails otherwise' 1 '^not ok 3 perf_inject$' sys both PERF_SAYS=killed
tools 'an event that is not there' 1 '^# perf record: unknown tracepoint' stock both 'PERF_SAYS=unknown tracepoint'
tools 'half a second' 1 '^# 500 ms in place of 1000$' sys both NS=500000000
tools 'a period that is no delay' 1 '^# a period is not its delay' sys both PERIOD=1
rm "$tmp/both/id"
printf '#!/bin/sh\necho 1000\n' >"$tmp/both/id"
chmod 755 "$tmp/both/id"
tools 'not root' 4 '^1\.\.0 # SKIP needs root$' sys both
t_done
