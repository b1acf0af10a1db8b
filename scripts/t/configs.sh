#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# configs.sh - the objects that each series touches compile, without a warning, in
# configurations that nobody boots here. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp

# What each asks for, on top of base, bench and the tests' config; an option of
# theirs that cannot be had then is dropped, one of these must survive.
matrix='
schedstats		SCHEDSTATS=y
core-scheduling		SCHED_CORE=y SCHED_SMT=y SCHEDSTATS=y
no-groups		CGROUP_SCHED=n FAIR_GROUP_SCHED=n
no-groups-schedstats	CGROUP_SCHED=n FAIR_GROUP_SCHED=n SCHEDSTATS=y
no-tracepoints		FTRACE=n PERF_EVENTS=y BPF_EVENTS=n TRACEPOINTS=n
no-tracepoints-schedstats	FTRACE=n BPF_EVENTS=n TRACEPOINTS=n SCHEDSTATS=y
one-cpu			SMP=n NR_CPUS=1 HOTPLUG_CPU=n
no-jump-label		JUMP_LABEL=n
realtime		PREEMPT_RT=y PREEMPT_LAZY=n
i386			64BIT=n
debug-info		DEBUG_INFO_NONE=n DEBUG_INFO_DWARF5=y
i386-schedstats		64BIT=n SCHEDSTATS=y
i386-highmem		64BIT=n HIGHMEM4G=y
numa			NUMA=y
huge-pages-and-cma	TRANSPARENT_HUGEPAGE=y CMA=y
lockdep			PROVE_LOCKING=y DEBUG_VM=y
'

# btf ID: what BPF programs attach to by its type is in the BTF that pahole makes
btf()
{
	if ! command -v pahole >/dev/null 2>&1; then
		t_skip "$1 BTF of the sched_stat tracepoints" 'no pahole: apt-get install dwarves'
		return
	fi
	rc=0
	pahole -J "$tmp/obj/kernel/sched/core.o" >"$tmp/log" 2>&1 &&
	objcopy -O binary --only-section=.BTF --set-section-flags .BTF=alloc \
		"$tmp/obj/kernel/sched/core.o" "$tmp/btf" >>"$tmp/log" 2>&1 || rc=$?
	none=''
	for event in wait sleep iowait blocked; do
		tr '\0' '\n' <"$tmp/btf" 2>/dev/null | grep -qx "btf_trace_sched_stat_$event" || none="$none $event"
	done
	if [ $rc = 0 ] && [ -z "$none" ]; then
		t_ok "$1 BTF of the sched_stat tracepoints"
	else
		t_notok "$1 BTF of the sched_stat tracepoints" "status $rc, none for:$none $(tail -n 1 "$tmp/log")"
	fi
}

# compile ID NAME OPTION...: in $tmp/src at the head of all series
compile()
{
	id=$1 name=$2
	shift 2
	rm -rf "$tmp/obj"
	mkdir "$tmp/obj"
	arch=x86_64
	case " $* " in *' 64BIT=n '*) arch=i386 ;; esac
	: >"$tmp/own"
	for o; do
		case $o in
		*=n) echo "# CONFIG_${o%=n} is not set" ;;
		*) echo "CONFIG_$o" ;;
		esac
	done >>"$tmp/own"
	frags=$top/Kconfig.fragments
	{
		sed '/^#CHECK# /d' "$frags/base.config" "$frags/bench.config" "$frags/${id}.config"
		sed -n 's/^\([a-z].*\)	.*/\1/p' "$top/patches/$id/order" | while read -r one; do
			find "$top/selftests/$one" -name config -exec cat {} +
		done
	} | awk -v own="$tmp/own" 'BEGIN { while ((getline l <own) > 0) { sub(/^# /, "", l); sub(/[ =].*/, "", l); drop[l] } }
		{ n = $0; sub(/^# /, "", n); sub(/[ =].*/, "", n) } !(n in drop)' >"$tmp/frag"
	cat "$tmp/own" >>"$tmp/frag"
	rc=0
	{
		make -s -C "$tmp/src" O="$tmp/obj" ARCH=$arch tinyconfig &&
		"$tmp/src/scripts/kconfig/merge_config.sh" -m -O "$tmp/obj" "$tmp/obj/.config" "$tmp/frag" &&
		make -s -C "$tmp/src" O="$tmp/obj" ARCH=$arch olddefconfig
	} >"$tmp/log" 2>&1 </dev/null || rc=$?
	lost=''
	while IFS= read -r line; do
		case $line in
		'# '*) ! grep -q "^$(echo "$line" | sed 's/^# \(.*\) is not set/\1/')=" "$tmp/obj/.config" || lost="$lost $line;" ;;
		*) grep -qxF -e "$line" "$tmp/obj/.config" || lost="$lost $line;" ;;
		esac
	done <"$tmp/own"
	if [ $rc != 0 ] || [ -n "$lost" ]; then
		cat "$tmp/log" >&2
		t_notok "$id $name" "cannot be configured: ${lost:-$(tail -n 1 "$tmp/log")}"
		return
	fi
	built=''
	for o in $list; do
		# an object of an option that this configuration lacks is none
		case $o in */jump_label.o) grep -qx CONFIG_JUMP_LABEL=y "$tmp/obj/.config" || continue ;; esac
		built="$built $o"
	done
	# shellcheck disable=SC2086 # a list of objects
	make -s -C "$tmp/src" O="$tmp/obj" ARCH=$arch -j"$(nproc)" $built >"$tmp/log" 2>&1 </dev/null || rc=$?
	cat "$tmp/log" >&2
	if [ $rc = 0 ] && ! grep -q 'warning:' "$tmp/log"; then
		t_ok "$id $name:$built"
		[ "$name" != debug-info ] || btf "$id"
	else
		t_notok "$id $name" "status $rc: $(grep -m 1 -E 'error:|warning:|Error' "$tmp/log")"
	fi
}

bases=$(awk '!/^#/ && NF { print $1 }' "$top/patches/bases")
for base in $bases; do
	rm -rf "$tmp/src"
	t_run "$top/scripts/tree" --base "$base" --series all
	src=$(sed -n 's/^src=//p' "$tmp/out")
	commit=$(sed -n 's/^commit=//p' "$tmp/out")
	t_clone "$src" "$commit" "$tmp/src"
	list=$(t_objects "$tmp/src" "$(git -C "$src" rev-parse refs/hotpath/base)" "$commit")
	printf '%s\n' "$matrix" >"$tmp/matrix"
	while read -r name options; do
		# shellcheck disable=SC2086 # a list of options
		[ -z "$name" ] || compile "$base" "$name" $options
	done <"$tmp/matrix"
done
t_done
