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
