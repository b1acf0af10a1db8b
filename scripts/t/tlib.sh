# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# tlib.sh - what the tests of the tools share. Sourced by scripts/t/*.sh, whose
# output is "ok NAME", "not ok NAME: why" or "skip NAME: reason" for each test
# and "1..N" as the last line; exit 0 if nothing is "not ok", else 1.

: "${top:?set by the test}"
t_nr=0
t_bad=0

t_ok()
{
	t_nr=$((t_nr + 1))
	printf 'ok %s\n' "$1"
}

t_notok()
{
	t_nr=$((t_nr + 1)) t_bad=1
	printf 'not ok %s: %s\n' "$1" "$2"
}

t_skip()
{
	t_nr=$((t_nr + 1))
	printf 'skip %s: %s\n' "$1" "$2"
}

t_done()
{
	printf '1..%d\n' "$t_nr"
	exit "$t_bad"
}

# t_tmp: $tmp is a folder that goes when the test ends.
t_tmp()
{
	tmp=$(mktemp -d) || exit 2
	trap 'rm -rf "$tmp"' EXIT
	trap 'exit 2' HUP INT TERM
}

# t_run COMMAND...: its output in $tmp/out and $tmp/err, its status in $rc.
t_run()
{
	rc=0
	"$@" >"$tmp/out" 2>"$tmp/err" </dev/null || rc=$?
}

# t_expect NAME STATUS PATTERN: the last t_run ended so and said so on one
# line of stderr or stdout.
t_expect()
{
	if [ "$rc" != "$2" ]; then
		t_notok "$1" "status $rc, wanted $2: $(tail -n 1 "$tmp/err")"
	elif ! grep -qE -e "$3" "$tmp/err" "$tmp/out"; then
		t_notok "$1" "nothing says '$3': $(tail -n 1 "$tmp/err")"
	else
		t_ok "$1"
	fi
}

# t_clone SRC COMMIT DIR: no more of a kernel tree than some objects need: a whole
# checkout takes minutes
t_clone()
{
	git clone -q --shared --no-checkout "$1" "$3"
	printf '%s\n' '/*' '!/*/' 'Kconfig*' /include/ /arch/x86/ /scripts/ /tools/ '!/tools/testing/' '!/tools/perf/' \
		/kernel/ /io_uring/ /mm/ /lib/ | git -C "$3" sparse-checkout set --no-cone --stdin
	git -C "$3" checkout -q --detach "$2"
}

# t_objects CLONE FROM TO: the objects of the C files that differ (kernel/sched/rt.c
# is none, but part of another one), and those that a Makefile's diff names
t_objects()
{
	{
		git -C "$1" diff --name-only "$2" "$3" | sed -n '/^tools\//d; /\.c$/p' | while read -r c; do
			in=$(cd "$1/${c%/*}" && grep -l "^# *include \"${c##*/}\"" ./*.c) || in=$c
			for o in $in; do
				printf '%s/%s.o\n' "${c%/*}" "$(basename "$o" .c)"
			done
		done
		git -C "$1" diff -U0 "$2" "$3" -- '*/Makefile' ':!tools' |
		awk '/^\+\+\+ / { d = $2; sub(/^b\//, "", d); sub(/Makefile$/, "", d) }
			/^[+-]obj/ { for (i = 1; i <= NF; i++) if ($i ~ /\.o$/) print d $i }'
	} | sort -u
}
