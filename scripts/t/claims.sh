#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# claims.sh - every number of a cover letter or changelog stands in the series'
# claims.tsv and says what that line says; with --derive, each line is found
# again by its command. Test output as tlib.sh says.
#
# usage: scripts/t/claims.sh [--derive] [PATCHES]
#
# PATCHES/BASE/SERIES/claims.tsv, tab-separated, one claim a line:
#	id, text, metric, unit, stock, patched, command, compiler
# text: the numbers as they are written, blank-separated. Each is the stock value,
# the patched value, or their change in per cent, rounded as written.
# command: "bench [OPTION...] ROW METRIC[@COLUMN]" is looked up in what scripts/bench
# counts for the series (COLUMN: patched), METRIC/op being the value of one operation
# with one decimal and METRIC:null the two ends of the null range; "quote SOURCE"
# is not ours to measure, and a skip; anything else is run by sh at the top of the
# repository and prints the stock and the patched value (one if they are the same).
# compiler: with this gcc and perf ("gcc 12.2.0, perf 6.1.187") compared exactly, else
# by sign and rough size (a quarter), a null range not at all. "-" if it is all one.
# Years, versions of the bases, patch numbers (1/3) and a bare 0 or 1 need no claim,
# nor do the lines of a struct behind "stock:" and "patched:", which are layout.sh's.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp
LC_ALL=C
export LC_ALL
derive=''
if [ "${1-}" = --derive ]; then
	derive=yes
	shift
fi
tools="gcc $(gcc -dumpfullversion), $(perf --version | sed 's/ version//')"

# words FILE: the numbers of its text, one a line: of a mail up to "---"
words()
{
	awk '/^---$/ { exit }
		/^(From|Date|base|base-commit|tree|Reproduce): / || /^From [0-9a-f]* / { next }
		NF == 0 { lines = "" }
		/^(stock|patched):$/ { lines = "yes" }
		lines { next }
		{ sub(/^Subject: \[[^]]*\]/, ""); print }' "$1" |
	sed -E 's/[-+]?([0-9.,]+)\.\.[-+]?/\1 /g; s/[][()"=;:<>]/ /g; s/%/ /g' | tr -s '[:blank:]' '\n' |
	sed -E 's/[.,]+$//; s/^[-+]//' |
	grep -E '^[0-9][0-9,]*(\.[0-9]+)?(-[0-9.]+)?$' | tr - '\n' |
	grep -vE '^((19|20)[0-9][0-9]|[01])$' | grep -vxFf "$tmp/versions" || :
}

# text_of DIR: each number has its claim, each claim's text is what it says
text_of()
{
	for file in "$1"/cover-letter "$1"/*.patch; do
		words "$file" | sort -u >"$tmp/words"
		awk -F '\t' '!/^#/ { n = split($2, w, " "); for (i = 1; i <= n; i++) print w[i] }' "$1/claims.tsv" |
			sort -u | comm -23 "$tmp/words" - | tr '\n' ' ' >"$tmp/bare"
		if [ -s "$tmp/bare" ]; then
			t_notok "$what ${file##*/}" "no claim for: $(cat "$tmp/bare")"
		else
			t_ok "$what ${file##*/}: $(wc -l <"$tmp/words") different numbers, all claimed"
		fi
	done
	awk -F '\t' '
		function abs(s) { sub(/^-/, "", s); return s }
		function plain(s) { gsub(/[,+]/, "", s); return s }
		# x rounded to as many decimals as written in w
		function as(x, w,	d) { d = index(w, ".") ? length(w) - index(w, ".") : 0
			return sprintf("%." d "f", x) }
		/^#/ { next }
		NF != 8 { print $1 ": " NF " fields, not 8"; next }
		seen[$1]++ { print $1 ": twice" }
		{
			n = split($2, w, " ")
			for (i = 1; i <= n; i++) {
				t = plain(w[i])
				if ($5 + 0 != 0) {
					c = ($6 - $5) * 100 / $5
					if (as(c < 0 ? -c : c, t) == t)
						continue
				}
				if (abs(as($5, t)) != t && abs(as($6, t)) != t)
					print $1 ": " w[i] " is neither " $5 " nor " $6 " nor their change"
			}
		}' "$1/claims.tsv" >"$tmp/wrong"
	if [ -s "$tmp/wrong" ]; then
		t_notok "$what claims.tsv" "$(head -n 1 "$tmp/wrong") ($(wc -l <"$tmp/wrong") in all)"
	else
		t_ok "$what claims.tsv: $(grep -vc '^#' "$1/claims.tsv") claims say what the text says"
	fi
}

# same STOCK PATCHED COMPILER GOT_STOCK GOT_PATCHED: prints why not
same()
{
	if [ "$3" = - ] || [ "$3" = "$tools" ]; then
		[ "$1 $2" = "$4 $5" ] || echo "found $4 and $5, claimed $1 and $2"
		return
	fi
	case $command in *:null | *:null@*) return ;; esac
	awk -v s="$1" -v p="$2" -v gs="$4" -v gp="$5" 'BEGIN {
		if (((p > s) - (p < s)) != ((gp > gs) - (gp < gs)) || gp > p * 1.25 || gp < p * 0.75)
			print "found " gs " and " gp ", claimed " s " and " p ": another sign or size" }'
}

derive_of()
{
	rm -rf "$tmp/bench" "$top/out/claims"	# what a command leaves there is for the next ones
	mkdir "$tmp/bench"
	grep -v '^#' "$1/claims.tsv" >"$tmp/claims"
	while IFS=$(printf '\t') read -r id _ _ _ stock patched command compiler; do
		case $command in
		quote\ ?*)
			t_skip "$what $id" "quoted, not ours to find again: ${command#quote }"
			continue ;;
		bench\ *)
			opts=${command#bench }
			metric=${opts##* }
			opts=${opts% *}
			row=${opts##* }
			opts=${opts% *}
			[ "$opts" != "$row" ] || opts=''
			key=$(printf '%s' "$opts" | md5sum | cut -c-8)
			if [ ! -d "$tmp/bench/$key" ]; then
				# shellcheck disable=SC2086 # a list of options
				t_run "$top/scripts/bench" --base "${what% *}" $opts --out "$tmp/bench/$key" "${what#* }"
				cat "$tmp/out" "$tmp/err" >&2
			fi
			column=${metric#*@}
			[ "$column" != "$metric" ] || column=patched
			awk -F '\t' -v r="$row" -v m="${metric%@*}" -v c="$column" '$1 == r && $4 == c {
				if ($3 == m) print $5 "\t" $6
				if ($3 "/op" == m) printf "%.1f\t%.1f\n", $5 / $2, $6 / $2
				if ($3 ":null" == m) print $8 + 0 "\t" $9 + 0 }' \
				"$tmp/bench/$key/${what% *}/bench/${what#* }/last/bench.tsv" >"$tmp/found" 2>/dev/null || : ;;
		*)
			(cd "$top" && sh -c "$command") >"$tmp/found" 2>"$tmp/err" </dev/null || : ;;
		esac
		read -r got_stock got_patched <"$tmp/found" || got_stock=nothing
		got_patched=${got_patched:-$got_stock}
		why=$(same "$stock" "$patched" "$compiler" "$got_stock" "$got_patched")
		if [ -z "$why" ]; then
			t_ok "$what $id: $got_stock, $got_patched"
		else
			t_notok "$what $id" "$why ($command)"
		fi
	done <"$tmp/claims"
}

awk '!/^#/ && NF { print $1; print $2 }' "$top/patches/bases" >"$tmp/versions"
patches=${1:-$top/patches}
for dir in "$patches"/*/*/; do
	dir=${dir%/}
	what=$(printf '%s %s' "$(basename "$(dirname "$dir")")" "${dir##*/}")
	if [ ! -r "$dir/claims.tsv" ]; then
		t_notok "$what" "no claims.tsv"
		continue
	fi
	text_of "$dir"
	[ -z "$derive" ] || derive_of "$dir"
done
[ $# = 0 ] || t_done

# The check can fail: a number without a claim, a claim of something else.
for dir in "$patches"/*/*/; do break; done
mkdir -p "$tmp/bad/9.9"
cp -r "$dir" "$tmp/bad/9.9/one"
cp -r "$dir" "$tmp/bad/9.9/two"
echo 'It is 12,345.6 % faster.' >>"$tmp/bad/9.9/one/cover-letter"
printf 'wrong\t77\tx\tn\t12\t13\techo 14 15\t-\n' >>"$tmp/bad/9.9/two/claims.tsv"
t_run "$0" "$tmp/bad"
t_expect 'a number without a claim' 1 '^not ok 9.9 one cover-letter: no claim for: 12,345.6'
t_expect 'a text that its claim does not bear' 1 '^not ok 9.9 two claims.tsv: wrong: 77 is neither 12 nor 13'
grep -E "^(#|wrong)" "$tmp/bad/9.9/two/claims.tsv" >"$tmp/only"
mv "$tmp/only" "$tmp/bad/9.9/two/claims.tsv"
rm -rf "$tmp/bad/9.9/one"
t_run "$0" --derive "$tmp/bad"
t_expect 'a claim that is not found again' 1 '^not ok 9.9 two wrong: found 14 and 15, claimed 12 and 13'
t_done
