#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# ktap.sh - tests of scripts/ktap.c
#
# Usage:  scripts/t/ktap.sh		(CC: the compiler, default cc)
#
# Builds ktap with strict warnings and with the address and undefined-behaviour
# sanitizers, then compares what both print for each scripts/testdata/ktap/
# NAME.ktap with NAME.tsv; the exit status must be 1 if that has a "broken" row
# and 0 if not. Then bad usage, limits, and 2000 mutations of the golden files,
# the same in every run.
#
# Output: "ok NAME", "not ok NAME: why" or "skip NAME: reason", last "1..N".
# Exit:   0 nothing is "not ok", 1 something is, 2 could not run.
set -eu
LC_ALL=C
export LC_ALL

top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
scripts=$top/scripts
src=$scripts/ktap.c
data=$scripts/testdata/ktap
cc=${CC:-cc}
t_tmp

# A sanitizer's report must not look like ktap's own exit status 1. Leaks: a
# program that ends at once need not free, and ptrace is often forbidden.
ASAN_OPTIONS=exitcode=99:detect_leaks=0
UBSAN_OPTIONS=exitcode=99
export ASAN_OPTIONS UBSAN_OPTIONS

warn='-std=c11 -Wall -Wextra -Wconversion -Werror'
sanitize='-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all'

# expect NAME STATUS COMMAND...: run it with its output in $tmp/out and err
expect()
{
	name=$1 want=$2 got=0
	shift 2
	"$@" >"$tmp/out" 2>"$tmp/err" || got=$?
	[ "$got" -eq "$want" ] && return
	t_notok "$name" "exit status $got instead of $want: $(head -n 1 "$tmp/err")"
	return 1
}

# same NAME FILE WHAT: FILE must be what $tmp/out is
same()
{
	if cmp -s "$2" "$tmp/out"; then
		t_ok "$1"
	else
		t_notok "$1" "$3 differs: $(diff "$2" "$tmp/out" | sed -n '2{p;q;}')"
	fi
}

# cannot_run NAME COMMAND...: status 2, nothing on stdout, one line on stderr
cannot_run()
{
	name=$1
	shift
	expect "$name" 2 "$@" || return 0
	if [ -s "$tmp/out" ] || [ "$(wc -l <"$tmp/err")" -ne 1 ]; then
		t_notok "$name" 'want silence on stdout and one line on stderr'
	else
		t_ok "$name"
	fi
}

golden()	# BUILD BINARY
{
	nr=0
	for in in "$data"/*.ktap; do
		[ -e "$in" ] || continue
		name=ktap/$1/$(basename "$in" .ktap)
		tsv=${in%.ktap}.tsv
		nr=$((nr + 1))
		if ! [ -s "$tsv" ]; then
			t_notok "$name" "no expectation in $tsv"
			continue
		fi
		want=$(awk -F '\t' '$2 == "broken" { bad = 1 } END { print bad + 0 }' "$tsv")
		expect "$name" "$want" "$2" "$in" || continue
		same "$name" "$tsv" output
	done
	if [ "$nr" -eq "$(find "$data" -name '*.tsv' | wc -l)" ] && [ "$nr" -gt 0 ]; then
		t_ok "ktap/$1/every_golden_used"
	else
		t_notok "ktap/$1/every_golden_used" "$nr inputs, another number of .tsv"
	fi
}

usage()		# BUILD BINARY
{
	cannot_run "ktap/$1/no_argument" "$2"
	cannot_run "ktap/$1/two_arguments" "$2" "$data/skip.ktap" -
	cannot_run "ktap/$1/unknown_option" "$2" -x
	cannot_run "ktap/$1/empty_argument" "$2" ''
	cannot_run "ktap/$1/missing_file" "$2" "$tmp/missing"
	cannot_run "ktap/$1/directory" "$2" "$tmp"

	name=ktap/$1/help
	if expect "$name" 0 "$2" -h; then
		if [ "$(grep -c '^  .*ktap ' "$tmp/out")" -eq 2 ] && ! [ -s "$tmp/err" ]; then
			t_ok "$name"
		else
			t_notok "$name" 'want two examples on stdout'
		fi
	fi
	name=ktap/$1/stdin
	if expect "$name" 0 "$2" - <"$data/skip.ktap"; then
		same "$name" "$data/skip.tsv" output
	fi
	name=ktap/$1/unknown_lines_counted
	if expect "$name" 0 "$2" - <"$data/printk.ktap"; then
		printf 'ktap: -: 8 unknown lines ignored\n' >"$tmp/want"
		mv "$tmp/err" "$tmp/out"
		same "$name" "$tmp/want" 'standard error'
	fi
	name=ktap/$1/full_disk
	if ! [ -c /dev/full ]; then
		t_skip "$name" 'no /dev/full'
	elif "$2" "$data/skip.ktap" >/dev/full 2>"$tmp/err"; then
		t_notok "$name" 'exit status 0'
	elif [ "$(wc -l <"$tmp/err")" -ne 1 ]; then
		t_notok "$name" 'want one line on stderr'
	else
		t_ok "$name"
	fi
}

# nested N: a document with N levels
nested()
{
	awk -v n="$1" 'BEGIN {
		for (i = 0; i < n; i++)
			printf "%*sKTAP version 1\n%*s1..1\n", 2 * i, "", 2 * i, ""
		while (i--)
			printf "%*sok 1 l%d\n", 2 * i, "", i
	}'
}

limits()	# BUILD BINARY
{
	awk 'BEGIN {
		print "KTAP version 1\n1..100000"
		for (i = 1; i <= 100000; i++)
			print "ok " i " t"
	}' >"$tmp/in"
	if expect "ktap/$1/100000_results" 0 "$2" "$tmp/in"; then
		if [ "$(wc -l <"$tmp/out")" -eq 100001 ]; then
			t_ok "ktap/$1/100000_results"
		else
			t_notok "ktap/$1/100000_results" "$(wc -l <"$tmp/out") lines"
		fi
	fi
	nested 16 >"$tmp/in"
	expect "ktap/$1/16_levels" 0 "$2" "$tmp/in" && t_ok "ktap/$1/16_levels"
	nested 17 >"$tmp/in"
	expect "ktap/$1/17_levels" 1 "$2" "$tmp/in" && t_ok "ktap/$1/17_levels"
	# a line and a name far larger than any buffer
	awk 'BEGIN {
		printf "KTAP version 1\n1..1\nok 1 "
		for (i = 0; i < 40000; i++)
			printf "0123456789"
		print ""
	}' >"$tmp/in"
	if expect "ktap/$1/long_name" 0 "$2" "$tmp/in"; then
		if [ "$(wc -c <"$tmp/out")" -eq $((20 + 400000 + 7)) ]; then
			t_ok "ktap/$1/long_name"
		else
			t_notok "ktap/$1/long_name" "$(wc -c <"$tmp/out") bytes"
		fi
	fi
}

# Mutants of the golden files in $tmp/fuzz; the generator is written out so
# that every awk makes the same ones.
mutate()
{
	mkdir "$tmp/fuzz"
	awk -v n="$1" -v dir="$tmp/fuzz" '
	function rnd(k) { seed = seed * 16807 % 2147483647; return seed % k }
	function poke(s,	at) {
		at = rnd(length(s) + 1)
		return substr(s, 1, at) sprintf("%c", rnd(256)) \
		       substr(s, at + 1 + rnd(2))
	}
	FNR == 1 { files++ }
	{ line[files, ++len[files]] = $0 }
	END {
		seed = 20161
		for (m = 1; m <= n; m++) {
			f = rnd(files) + 1
			k = len[f]
			for (i = 1; i <= k; i++)
				l[i] = line[f, i]
			for (times = 1 + rnd(3); times; times--) {
				i = rnd(k) + 1
				j = rnd(k) + 1
				what = rnd(7)
				if (what == 0)
					l[i] = l[j]
				else if (what == 1)
					l[i] = ""
				else if (what == 2)
					l[i] = "  " l[i]
				else if (what == 3)
					sub(/^  /, "", l[i])
				else if (what == 4)
					sub(/[0-9]+/, rnd(5) * rnd(90000), l[i])
				else if (what == 5)
					l[i] = line[rnd(files) + 1, 1 + rnd(5)]
				else
					l[i] = poke(l[i])
			}
			cut = rnd(8) ? k : rnd(k) + 1
			out = dir "/" m
			for (i = 1; i < cut; i++)
				print l[i] >out
			printf "%s%s", l[i], rnd(20) ? "\n" : "" >out
			close(out)
		}
	}' "$data"/*.ktap
}

# A program with the sanitizers takes long to start, so one process reads all
# mutants; the first that it cannot survive ends it.
fuzz()
{
	cp "$src" "$tmp/ktap.c"
	cat >"$tmp/fuzz.c" <<-'EOF'
	#define main ktap_main
	#include "ktap.c"
	#undef main
	#include <unistd.h>

	int main(int argc, char **argv)
	{
		char *args[] = { argv[0], NULL, NULL }, out[4096];

		for (int i = 1; i < argc; i++) {
			args[1] = argv[i];
			snprintf(out, sizeof(out), "%s.out", argv[i]);
			if (!freopen(out, "w", stdout))
				return 98;
			alarm(20);
			printf("\t%d\texit\n", ktap_main(2, args));
			nr_blocks = 1;
			nr_rows = nr_defects = nr_unknown = depth = 0;
			free(blocks), free(rows), free(defects);
			blocks = NULL, rows = NULL, defects = NULL;
			memset(used, 0, sizeof(used));
		}
		return 0;
	}
	EOF
	# shellcheck disable=SC2086 # a list of options
	if ! $cc $sanitize -o "$tmp/fuzzer" "$tmp/fuzz.c" 2>"$tmp/err"; then
		t_notok ktap/asan/fuzz "$(head -n 1 "$tmp/err")"
		return
	fi
	mutate 2000
	rc=0
	"$tmp/fuzzer" "$tmp/fuzz"/* 2>"$tmp/err" || rc=$?
	# well-formed tables, a status that says what they say, and both of them
	awk -F '\t' '
	FNR == 1 { broken = 0; files++; if ($0 != "test\tverdict\tdetail") bad = FILENAME }
	NF != 3 || ($1 == "" && $3 != "exit") { bad = FILENAME }
	$2 == "broken" { broken = 1 }
	$3 == "exit" && $1 == "" { seen[$2]++; if ($2 != broken) bad = FILENAME }
	END {
		if (bad)
			print bad
		else if (seen[0] < 50 || seen[1] < 50 || seen[0] + seen[1] != 2000)
			print files, "runs,", seen[0] + 0, "good,", seen[1] + 0, "broken"
	}' "$tmp"/fuzz/*.out >"$tmp/why"
	if [ "$rc" -ne 0 ]; then
		t_notok ktap/asan/fuzz "exit status $rc: $(grep -m 1 -i error "$tmp/err")"
	elif [ -s "$tmp/why" ]; then
		t_notok ktap/asan/fuzz "$(cat "$tmp/why")"
	else
		t_ok ktap/asan/fuzz
	fi
}

# shellcheck disable=SC2086 # lists of options
if $cc $warn -O2 -o "$tmp/strict" "$src" 2>"$tmp/err"; then
	t_ok ktap/strict/build
	golden strict "$tmp/strict"
	usage strict "$tmp/strict"
	limits strict "$tmp/strict"
else
	t_notok ktap/strict/build "$(head -n 1 "$tmp/err")"
fi

printf 'int main(void) { return 0; }\n' >"$tmp/empty.c"
# shellcheck disable=SC2086
if ! { $cc $sanitize -o "$tmp/empty" "$tmp/empty.c" && "$tmp/empty"; } 2>"$tmp/err"; then
	t_skip ktap/asan/build "$cc has no working sanitizers here"
elif $cc $warn $sanitize -o "$tmp/asan" "$src" 2>"$tmp/err"; then
	t_ok ktap/asan/build
	golden asan "$tmp/asan"
	usage asan "$tmp/asan"
	limits asan "$tmp/asan"
	fuzz
else
	t_notok ktap/asan/build "$(head -n 1 "$tmp/err")"
fi
t_done
