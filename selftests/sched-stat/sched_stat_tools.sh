#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The sched_stat events as people record them: with the usual tools, a sleep of
# one second must appear as one. A tool that is not there or cannot read
# tracepoints is a reason to skip, by its name.

ksft_skip=4
tracing=/sys/kernel/tracing
event=sched_stat_sleep
number=0 failed=0 passed=0
tmp=

# result STATUS NAME [REASON]
result()
{
	number=$((number + 1))
	case $1 in
	0)	passed=$((passed + 1))
		echo "ok $number $2" ;;
	"$ksft_skip")
		echo "ok $number $2 # SKIP $3" ;;
	*)	failed=$((failed + 1))
		echo "# $3"
		echo "not ok $number $2" ;;
	esac
}

skip_all()
{
	echo "1..0 # SKIP $*"
	exit $ksft_skip
}

# sleeps: of lines "COMM NUMBER", those of sleep, added up, in milliseconds
sleeps() { awk '$1 == "sleep" { ns += $2 } END { printf "%d\n", ns / 1000000 }'; }

# delays: of lines with the event, "FIRST-NUMBER COMM DELAY"; with -F comm,period,trace
# the first number that is a field is the period
delays()
{
	sed -n 's/ *\[ns\]//; s/comm=\([^ ]*\) pid=[0-9]* delay=/\1 /p' |
	awk '{ for (i = 1; i < NF - 2 && $i !~ /^[0-9]+$/; i++); print $i, $(NF - 1), $NF }'
}

# near_second NAME MS
near_second()
{
	echo "# $1: sleep 1 appears as $2 ms"
	if [ "$2" -ge 950 ] && [ "$2" -le 1050 ]; then
		result 0 "$1"
	else
		result 1 "$1" "$2 ms in place of 1000"
	fi
}

# lacks TOOL ERRORS: why the tool, which failed, cannot tell us anything
lacks()
{
	if ! [ -d $tracing/events/sched/$event ]; then
		return 1
	elif grep -qiE 'libtraceevent|unknown tracepoint|unsupported tracepoint' "$2"; then
		why="$1 cannot read tracepoints (built without libtraceevent?)"
	else
		return 1
	fi
}

trace_cmd()
{
	command -v trace-cmd >/dev/null 2>&1 || { result $ksft_skip trace_cmd "no trace-cmd"; return; }
	if ! trace-cmd record -q -e sched:$event -o "$tmp/trace.dat" sleep 1 >"$tmp/err" 2>&1; then
		result 1 trace_cmd "trace-cmd record: $(tail -n 1 "$tmp/err")"
		return
	fi
	trace-cmd report -i "$tmp/trace.dat" >"$tmp/report" 2>>"$tmp/err"
	# the task is the one that the event names, not the one that runs
	near_second trace_cmd "$(delays <"$tmp/report" | cut -d ' ' -f 2- | sleeps)"
}

# The period of a sample is its delay.
perf_period()
{
	command -v perf >/dev/null 2>&1 || { result $ksft_skip perf_period "no perf"; return; }
	if ! perf record -q -a -e sched:$event -o "$tmp/perf.data" -- sleep 1 >"$tmp/err" 2>&1; then
		if lacks perf "$tmp/err"; then
			result $ksft_skip perf_period "$why"
		else
			result 1 perf_period "perf record: $(head -n 1 "$tmp/err")"
		fi
		return
	fi
	perf script -i "$tmp/perf.data" -F comm,period,trace >"$tmp/script" 2>>"$tmp/err"
	delays <"$tmp/script" >"$tmp/samples"
	awk '$1 != $3' "$tmp/samples" >"$tmp/other"
	if [ -s "$tmp/other" ]; then
		result 1 perf_period "a period is not its delay: $(head -n 1 "$tmp/other")"
		return
	fi
	near_second perf_period "$(cut -d ' ' -f 2- "$tmp/samples" | sleeps)"
}

# The recipe for off-CPU flame graphs: inject puts the delay into the period of
# the sched_switch at which the sleep began.
perf_inject()
{
	command -v perf >/dev/null 2>&1 || { result $ksft_skip perf_inject "no perf"; return; }
	if ! perf record -q -e sched:$event -e sched:sched_switch -e sched:sched_process_exit \
		-a -g -o "$tmp/raw.data" -- sleep 1 >"$tmp/err" 2>&1; then
		if lacks perf "$tmp/err"; then
			result $ksft_skip perf_inject "$why"
		else
			result 1 perf_inject "perf record: $(head -n 1 "$tmp/err")"
		fi
		return
	fi
	if ! perf inject -s -i "$tmp/raw.data" -o "$tmp/off.data" >"$tmp/err" 2>&1; then
		result 1 perf_inject "perf inject: $(head -n 1 "$tmp/err")"
		return
	fi
	perf script -i "$tmp/off.data" -F comm,period -G >"$tmp/script" 2>>"$tmp/err"
	near_second perf_inject "$(awk 'NF >= 2 { print $1, $2 }' "$tmp/script" | sleeps)"
}

echo "TAP version 13"
[ "$(id -u)" = 0 ] || skip_all "needs root"
[ -e $tracing/events ] || mount -t tracefs none $tracing 2>/dev/null
[ -e $tracing/events ] || skip_all "no tracefs (CONFIG_TRACING is not set?)"
tmp=$(mktemp -d /tmp/sched_stat_tools.XXXXXX) || skip_all "cannot write /tmp"
trap 'rm -rf "$tmp"' EXIT
echo "1..3"
trace_cmd
perf_period
perf_inject
[ $failed = 0 ] || exit 1
[ $passed != 0 ] || exit $ksft_skip
