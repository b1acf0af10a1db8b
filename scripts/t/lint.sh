#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# lint.sh - every file: SPDX line, shell and C checks, spelling; the README's
# commands exist. Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp
cd "$top"

# What git tracks, else (a tarball of the repository) what is there.
git ls-files -co --exclude-standard >"$tmp/files" 2>/dev/null ||
	find . -type f ! -path './out/*' | sed 's|^\./||' >"$tmp/files"

# A mail, a golden input and the licence itself have no line of ours to spare.
bad=$(grep -vE '^(COPYING|README|MAINTAINERS-notes|patches/.*\.patch|patches/.*/cover-letter|scripts/testdata/.*|selftests/.*/settings|selftests/.*/config)$' "$tmp/files" |
	while read -r f; do
		head -n 4 "$f" | grep -q 'SPDX-License-Identifier: GPL-2.0' || echo "$f"
	done)
if [ -z "$bad" ]; then t_ok spdx; else t_notok spdx "no SPDX line: $(echo "$bad" | tr '\n' ' ')"; fi
if head -n 20 README | grep -q 'SPDX-License-Identifier: GPL-2.0'; then t_ok spdx_readme; else t_notok spdx_readme "README names no licence"; fi

while read -r f; do
	case $f in scripts/testdata/*) continue ;; esac
	if head -n 1 "$f" | grep -qE '^#!.*sh$' || [ "${f%lib.sh}" != "$f" ]; then echo "$f"; fi
done <"$tmp/files" >"$tmp/shell"
# shellcheck disable=SC2046 # our own file names, without blanks
if shellcheck -x $(cat "$tmp/shell") >"$tmp/out" 2>&1; then
	t_ok shellcheck
else
	t_notok shellcheck "$(grep -m 1 -A 3 '^In ' "$tmp/out" | tr '\n' ' ')"
fi
bad=$(while read -r f; do sh -n "$f" 2>&1 || :; done <"$tmp/shell")
if [ -z "$bad" ]; then t_ok sh_syntax; else t_notok sh_syntax "$bad"; fi
bad=$(while read -r f; do
	case $f in *lib.sh) continue ;; esac
	[ -x "$f" ] || echo "$f"
done <"$tmp/shell")
if [ -z "$bad" ]; then t_ok executable; else t_notok executable "not executable: $bad"; fi

for f in scripts/*.c selftests/*.c; do
	case $f in *kcount.c) more='-shared -fPIC -fvisibility=hidden' ;; *) more='' ;; esac
	# shellcheck disable=SC2086 # a list of flags
	if cc -std=gnu11 -O2 -Wall -Wextra -Wconversion -Werror $more "$f" -lm -o "$tmp/a" 2>"$tmp/err"; then
		t_ok "strict $f"
	else
		t_notok "strict $f" "$(head -n 1 "$tmp/err")"
	fi
done

if command -v codespell >/dev/null 2>&1; then
	grep -v '^COPYING$' "$tmp/files" | grep -v '^scripts/testdata/' | xargs codespell -L upto,fro,tthe >"$tmp/out" 2>&1 || :
	if [ ! -s "$tmp/out" ]; then t_ok codespell; else t_notok codespell "$(head -n 1 "$tmp/out")"; fi
else
	t_skip codespell "codespell is not installed"
fi

if n=$(wc -l <selftests/init.c) && [ "$n" -lt 250 ]; then t_ok init_below_250_lines; else t_notok init_below_250_lines "$n lines"; fi
# The words are split so that this line does not find itself.
bad=$(xargs grep -lE '/ro''ot/|/wo''rk/|deb\.deb''ian|Signed-off''-by: ' <"$tmp/files" 2>/dev/null | grep -v '^COPYING$' || :)
if [ -z "$bad" ]; then t_ok no_machine_names; else t_notok no_machine_names "$bad"; fi

# Each command of the README exists and answers -h with two examples.
bad=''
verbs=$(grep -oE 'scripts/(run|check|tree|build|boot|report|bench)\>' README | sort -u)
for verb in $verbs; do
	[ -x "$verb" ] || { bad="$bad $verb: missing;"; continue; }
	n=$("$verb" -h 2>/dev/null | grep -c '^  scripts/' || :)
	[ "$n" -ge 2 ] || bad="$bad $verb -h: $n examples;"
done
if [ -z "$bad" ]; then t_ok readme_commands; else t_notok readme_commands "$bad"; fi
if [ "$(wc -l <README)" -le 120 ]; then t_ok readme_length; else t_notok readme_length "over 120 lines"; fi
bad=$(awk -F '\t' 'NF == 3 && $2 != "-" { print $2 }' scripts/t/CASES | sort -u | while read -r f; do
	[ -x "scripts/t/$f" ] || echo "$f"
done)
if [ -z "$bad" ]; then t_ok cases; else t_notok cases "scripts/t/CASES names $bad"; fi
t_done
