#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# layout.sh - struct sched_entity against its contract: the contract against
# the kernel's groups and asserts and the cover letter's tables; pahole over
# kernel/sched/core.o in several configurations, sizes against stock's; stock
# is red; a header with a field in front of the tree's group does not compile.
# Works in a clone of its own: the cache's checkout is not touched.
# What was measured is kept in the cache under the hash of its inputs.
# Test output as tlib.sh says.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=scripts/lib.sh
. "$top/scripts/lib.sh"
# shellcheck source=scripts/t/tlib.sh
. "$top/scripts/t/tlib.sh"
t_tmp
contract=$top/selftests/sched-entity/sched_entity_layout.tsv
data=$top/scripts/testdata/layout
series=$top/patches/7.3/sched-entity
tab=$(printf '\t')

# The checker itself, with a pahole that prints what we want.
cat >"$tmp/pahole" <<-'STUB'
	#!/bin/sh
	[ "$1" != --version ] || { echo v9.9; exit 0; }
	[ ! -e "${0%/*}/said" ] || cat "${0%/*}/said"
	[ ! -e "${0%/*}/signal" ] || kill -"$(cat "${0%/*}/signal")" $$
	exit "$(cat "${0%/*}/status")"
STUB
chmod +x "$tmp/pahole"
printf 'CONFIG_64BIT=y\nCONFIG_FAIR_GROUP_SCHED=y\n' >"$tmp/config"
: >"$tmp/object"

# stub NAME STATUS PATTERN PAHOLE-STATUS [FILE]: what the checker makes of it
stub()
{
	echo "$4" >"$tmp/status"
	rm -f "$tmp/said"
	[ -z "${5:-}" ] || cp "$5" "$tmp/said"
	t_run env PAHOLE="$tmp/pahole" "$top/scripts/layout" "$contract" "$tmp/object" "$tmp/config"
	t_expect "checker: $1" "$2" "$3"
}

said="$data/patched.pahole"
printf '.*\n' >"$tmp/any"
stub 'no output, exit 0' 2 'v9.9 said nothing, status 0' 0
stub 'no output, exit 1' 2 'said nothing, status 1' 1
echo "pahole: type 'sched_entity' not found" >"$tmp/none"
stub 'no such type' 2 'does not find struct sched_entity, status 1' 1 "$tmp/none"
sed '/avg/,$d' "$said" >"$tmp/cut"
stub 'half a struct' 2 'stopped in the middle' 0 "$tmp/cut"
echo SEGV >"$tmp/signal"
stub 'a crash' 2 'v9.9 died of signal 11' 0
stub 'a crash behind the output' 2 'died of signal 11' 0 "$said"
rm -f "$tmp/signal"
t_run env PAHOLE="$tmp/nowhere" "$top/scripts/layout" "$contract" "$tmp/object" "$tmp/config"
t_expect 'checker: no pahole' 2 'no .*/nowhere: apt-get install dwarves'
stub 'stock' 1 '^vruntime: not in the line of run_node' 0 "$data/stock.pahole"
grep -v max_slice "$said" >"$tmp/fewer"
stub 'a field is gone' 1 '^max_slice: not in the struct' 0 "$tmp/fewer"
sed 's/max_slice/bore_score/' "$said" >"$tmp/other"
stub 'a field that nobody listed' 1 '^bore_score: not in the contract' 0 "$tmp/other"
echo CONFIG_RANDSTRUCT=y >>"$tmp/config"
stub 'RANDSTRUCT' 4 'RANDSTRUCT: the order is the compiler' 0 "$said"
sed -i '$d' "$tmp/config"
# The full struct and exit 1, as one version does: what is there counts.
for status in 0 1; do
	echo $status >"$tmp/status"
	cp "$said" "$tmp/said"
	t_run env PAHOLE="$tmp/pahole" "$top/scripts/layout" "$contract" "$tmp/object" "$tmp/config"
	if [ "$rc" = 0 ] && [ ! -s "$tmp/out" ]; then
		t_ok "checker: the whole struct, exit $status"
	else
		t_notok "checker: the whole struct, exit $status" "status $rc: $(cat "$tmp/out" "$tmp/err" | head -n 1)"
	fi
done

t_run "$top/scripts/tree" --series sched-entity
cat "$tmp/err" >&2
[ "$rc" = 0 ] || { t_notok 'the series applies' "$(tail -n 1 "$tmp/err")"; t_done; }
src=$(sed -n 's/^src=//p' "$tmp/out")
commit=$(sed -n 's/^commit=//p' "$tmp/out")
stock=$(sed -n 's/^base_commit=//p' "$tmp/out")
k=$tmp/k
code=$(git -C "$src" rev-parse "$commit:include" "$commit:kernel")
git -C "$src" show "$commit:kernel/sched/core.c" >"$tmp/core.c"
git -C "$src" show "$commit:include/linux/sched.h" >"$tmp/sched.h"

# differ NAME WANT IS: two sorted lists of "field group option" must be equal
differ()
{
	sort "$2" >"$tmp/want"
	sort "$3" >"$tmp/is"
	if [ -s "$tmp/want" ] && cmp -s "$tmp/want" "$tmp/is"; then
		t_ok "$1"
	else
		t_notok "$1" "$(diff "$tmp/want" "$tmp/is" | grep '^[<>]' | head -n 3 | tr '\n' ' ')"
	fi
}
grep -v '^#' "$contract" | awk -F'\t' -v OFS='\t' '{ print $1, $2, $4 }' >"$tmp/rows"
grep -v "${tab}avg$tab" "$tmp/rows" >"$tmp/groups"
awk -v OFS='\t' '
	/^#ifdef CONFIG_/ { option = $2; sub(/CONFIG_/, "", option) }
	/^#endif/ { option = "" }
	/CACHELINE_ASSERT_GROUP_MEMBER\(struct sched_entity,/ {
		gsub(/[(),;]/, " ")
		sub(/sched_entity_/, "", $4)
		print $5, $4, option ? option : "-"
	}' "$tmp/core.c" >"$tmp/asserts"
differ 'the asserts are those of the contract' "$tmp/groups" "$tmp/asserts"
awk -v OFS='\t' '
	/^struct sched_entity \{/ { inside = 1 }
	inside && /^}/ { exit }
	!inside { next }
	/^#ifdef CONFIG_/ { option = $2; sub(/CONFIG_/, "", option) }
	/^#endif/ { option = "" }
	/__cacheline_group_begin\(/ { group = $0; sub(/.*\(sched_entity_/, "", group); sub(/\).*/, "", group); next }
	/__cacheline_group_end\(/ { group = "avg"; next }
	/;/ && !/\/\*/ {
		name = $NF
		gsub(/[*;]/, "", name)
		print name, group, option ? option : "-"
	}' "$tmp/sched.h" >"$tmp/header"
differ 'the groups of the header are those of the contract' "$tmp/rows" "$tmp/header"
# The letter's access map: rows "field group ..." between two lines of dashes.
awk -v OFS='\t' '/^ field +group +/ { inside = 1; next } inside && NF == 0 { exit } inside { print $1, $2 }' \
	"$series/cover-letter" >"$tmp/table"
cut -f1,2 "$tmp/rows" >"$tmp/pairs"
differ "the cover letter's map names the contract's fields" "$tmp/pairs" "$tmp/table"

# Out-of-tree schedulers patch this struct: no line changes for its blanks.
git -C "$src" diff --numstat "$stock" "$commit" -- include kernel >"$tmp/lines"
git -C "$src" diff --numstat -w "$stock" "$commit" -- include kernel >"$tmp/lines-w"
differ 'no churn of blanks' "$tmp/lines" "$tmp/lines-w"

# wanted NAME: the options of a configuration of the matrix
wanted()
{
	cat <<-COMMON
	CONFIG_SMP=y
	CONFIG_CGROUPS=y
	CONFIG_CGROUP_SCHED=y
	CONFIG_PROC_FS=y
	CONFIG_DEBUG_KERNEL=y
	CONFIG_DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT=y
	# CONFIG_DEBUG_INFO_NONE is not set
	COMMON
	case $1 in 32*) echo '# CONFIG_64BIT is not set' ;; *) echo CONFIG_64BIT=y ;; esac
	case $1 in *-nogroup) echo '# CONFIG_FAIR_GROUP_SCHED is not set' ;; *) echo CONFIG_FAIR_GROUP_SCHED=y ;; esac
	case $1 in
	*-bandwidth) echo CONFIG_CFS_BANDWIDTH=y ;;
	*-core) echo CONFIG_SCHED_CORE=y; echo CONFIG_SCHED_SMT=y ;;
	*-lockdep) echo CONFIG_PROVE_LOCKING=y ;;
	*-stats) echo CONFIG_SCHEDSTATS=y; echo CONFIG_MEM_ALLOC_PROFILING=y ;;
	esac
}

# object NAME: core.o of the tree that is checked out, for a configuration
object()
{
	case $1 in 32*) o=$tmp/o32 arch=i386 ;; *) o=$tmp/o64 arch=x86_64 ;; esac
	mkdir -p "$o"
	wanted "$1" >"$tmp/wanted"
	t_run make -C "$k" O="$o" ARCH=$arch tinyconfig
	cat "$tmp/wanted" >>"$o/.config"
	[ "$rc" != 0 ] || t_run make -C "$k" O="$o" ARCH=$arch olddefconfig
	while [ "$rc" = 0 ] && read -r line; do
		case $line in
		CONFIG_*) grep -qxF -e "$line" "$o/.config" ;;
		*) line=${line% is not set}; ! grep -q "^${line#\# }=" "$o/.config" ;;
		esac || { rc=1; echo "$line did not survive olddefconfig" >"$tmp/err"; }
	done <"$tmp/wanted"
	[ "$rc" != 0 ] || t_run make -C "$k" O="$o" ARCH=$arch -j"$(nproc)" kernel/sched/core.o
	cat "$tmp/err" >&2
}

# fields: pahole's members in one line: "line 0: load 0-15, ... line 1: ..."
fields()
{
	awk '/^\t[^\/].*;[ \t]*\/\*[ \t]*[0-9]+[ \t]+[0-9]+ \*\/$/ && !/__cacheline_group/ {
		size = $(NF - 1)
		from = $(NF - 2)
		sub(/;.*/, "")
		sub(/ *__attribute__.*/, "")
		sub(/.*[ *\t]/, "")
		if (n++ == 0 || int(from / 64) != line) {
			line = int(from / 64)
			printf "%sline %d: ", (n > 1 ? " " : ""), line
		} else {
			printf ", "
		}
		printf "%s %d-%d", $0, from, from + size - 1
	}'
}

# quoted WORD: the same from the cover letter, where it stands below a line "WORD:"
quoted()
{
	awk -v w="$1:" '$0 == w { inside = 1; next } inside && NF == 0 { exit } inside { print }' \
		"$series/cover-letter" | tr -s ' \t\n' ' ' | sed 's/^ //; s/ $//'
}

# measure: per configuration stock's object and ours; rows of "series config
# what value", what being build, a type (its size), fields or layout
measure()
{
	for c in $configs; do
		for s in stock sched-entity; do
			say "$s: $c"
			git -C "$k" checkout -q -f --detach "$([ $s = stock ] && echo "$stock" || echo "$commit")"
			object "$c"
			if [ "$rc" != 0 ]; then
				printf '%s\t%s\tbuild\t%s\n' "$s" "$c" "$(grep -m 1 -E 'error|survive' "$tmp/err" || tail -n 1 "$tmp/err")"
				continue
			fi
			printf '%s\t%s\tbuild\tok\n' "$s" "$c"
			pahole --sizes "$o/kernel/sched/core.o" 2>/dev/null | awk -v s="$s$tab$c" -v OFS='\t' \
				'$1 ~ /^(sched_entity|task_struct|cfs_tg_state)$/ { print s, $1, $2 }'
			printf '%s\t%s\tfields\t%s\n' "$s" "$c" "$(pahole -C sched_entity "$o/kernel/sched/core.o" | fields)"
			t_run "$top/scripts/layout" "$contract" "$o/kernel/sched/core.o" "$o/.config"
			printf '%s\t%s\tlayout\t%s\n' "$s" "$c" "$rc $(cat "$tmp/out" "$tmp/err" | head -n 1)"
		done
		[ "$c" != 64 ] || mutated
	done
}

# mutated: a header with a field in front of the group, and the mutants that are
# for us, not for a guest: "NAME status first-word-that-counts" rows.
mutated()
{
	say 'sched-entity: mutants'
	sed -i 's/^\t__cacheline_group_begin(sched_entity_tree);/\tu64 intruder;\n&/' "$k/include/linux/sched.h"
	broken intruder
	for m in $mutants; do
		git -C "$k" apply "$m" || { printf 'sched-entity\tmutant\t%s\tdoes not apply\n' "${m##*/}"; continue; }
		broken "${m##*/}"
	done
}

# broken NAME: what becomes of the object of the tree as it is; then mend it
broken()
{
	t_run make -C "$k" O="$o" ARCH=x86_64 kernel/sched/core.o
	cat "$tmp/err" >&2
	if [ "$rc" != 0 ]; then
		says=$(grep -m 1 -oE 'BUILD_BUG_ON failed: .*' "$tmp/err" || tail -n 1 "$tmp/err")
	else
		t_run "$top/scripts/layout" "$contract" "$o/kernel/sched/core.o" "$o/.config"
		says=$(tr '\n' ';' <"$tmp/out")
	fi
	git -C "$k" checkout -q -f
	printf 'sched-entity\tmutant\t%s\t%s\n' "$1" "$rc $says"
}

mutants=$(grep -lE '^Fails: (build|layout): ' "$top"/scripts/testdata/mutants/7.3/sched-entity.*.patch)
configs='64 64-nogroup 64-bandwidth 64-core 64-lockdep 64-stats 32 32-nogroup'
open_cache
command -v pahole >/dev/null 2>&1 || { t_skip matrix 'no pahole (dwarves)'; t_done; }
mkdir -p "$cache/layout"
# shellcheck disable=SC2086 # our own file names, without blanks
kept=$cache/layout/$( { echo "$code"; cat "$0" "$top/scripts/layout" "$contract" "$top/patches/bases" $mutants
	gcc --version; pahole --version; } | sha256sum | cut -c-16)
if [ ! -s "$kept" ]; then
	t_clone "$src" "$commit" "$k"
	measure >"$tmp/rows"
	# What does not build may build the next time: a full disk, a signal.
	if grep -q "${tab}build${tab}[^o]" "$tmp/rows"; then kept=$tmp/rows; else mv "$tmp/rows" "$kept"; fi
fi
cat "$kept" >&2

# row SERIES CONFIG WHAT
row() { awk -F'\t' -v s="$1" -v c="$2" -v w="$3" '$1 == s && $2 == c && $3 == w { print $4 }' "$kept"; }

# verdict NAME WHY: ok if WHY is empty
verdict()
{
	if [ -z "$2" ]; then t_ok "$1"; else t_notok "$1" "$2"; fi
}

# match NAME PATTERN IS
match()
{
	if printf '%s\n' "$3" | grep -qxE -e "$2"; then t_ok "$1"; else t_notok "$1" "${3:-no row}"; fi
}
for c in $configs; do
	match "$c compiles" ok "$(row sched-entity "$c" build)"
	match "$c keeps the contract" '0 ' "$(row sched-entity "$c" layout)"
	bad=''
	for type in sched_entity task_struct cfs_tg_state; do
		was=$(row stock "$c" $type) is=$(row sched-entity "$c" $type)
		{ [ -n "$was" ] && [ -n "$is" ]; } || [ "$type" = cfs_tg_state ] || bad="$bad no size of $type;"
		[ "${is:-0}" -le "${was:-0}" ] || bad="$bad $type from $was to $is;"
	done
	verdict "$c: nothing grows" "$bad"
done
for s in stock sched-entity; do
	word=$([ $s = stock ] && echo stock || echo patched)
	is=$(row $s 64 fields)
	verdict "the cover letter's pahole lines, $word" "$([ -n "$is" ] && [ "$is" = "$(quoted "$word")" ] || echo "pahole: $is")"
done
match 'stock violates the contract' '1 .+' "$(row stock 64 layout)"
match 'a field in front of the tree does not compile' '2 BUILD_BUG_ON.*' "$(row sched-entity mutant intruder)"
for m in $mutants; do
	f=${m##*/}
	want=$(sed -n '1,/^diff/s/^Fails: //p' "$m")
	case $want in build:*) status=2 ;; *) status=1 ;; esac
	match "$f: $want" "$status .*(${want#*: }).*" "$(row sched-entity mutant "$f")"
done
t_done
