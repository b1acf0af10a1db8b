# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# lib.sh - what every verb needs: one-line errors, pasteable commands, the
# package list, the cache and its lock, progress. Sourced, never run; the verb
# sets $top (the repository) first.
#
# Exit codes of all verbs: 0 good, 1 the result is bad, 2 could not run.

: "${top:?set by the verb}"
verb=${0##*/}
install=yes		# --no-install: print the command instead
cache=${XDG_CACHE_HOME:-$HOME/.cache}/hotpath
cache_limit_mb=10240	# what the cache may hold, oldest out first
# shellcheck disable=SC2034 # read by tree and build
cache_need_mb=6144	# free space that a cold run takes at most
tmp=			# the verb's scratch folder, removed on every exit
leftover=		# one more file that goes then
child=			# the background process to stop with us
LC_ALL=C
TZ=UTC
export LC_ALL TZ
# A user's git and make settings must not reach the base or the builds.
GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_CONFIG_GLOBAL GIT_CONFIG_NOSYSTEM
unset MAKEFLAGS MFLAGS MAKELEVEL KBUILD_OUTPUT CROSS_COMPILE ARCH LLVM \
	KCONFIG_CONFIG KCONFIG_ALLCONFIG GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

# die STATUS WHAT...: one clear line on stderr, then exit.
die()
{
	status=$1
	shift
	printf '%s: %s\n' "$verb" "$*" >&2
	exit "$status"
}

say()
{
	printf '%s: %s\n' "$verb" "$*" >&2
}

# show CMD...: print a command so that it can be pasted into a shell.
show()
{
	line='$'
	for word in "$@"; do
		case $word in
		'' | *[!A-Za-z0-9_./:=,@%+-]*)
			word=$(printf '%s' "$word" | sed "s/'/'\\\\''/g")
			line="$line '$word'" ;;
		*)
			line="$line $word" ;;
		esac
	done
	printf '%s\n' "$line" >&2
}

# run CMD...: show it, then run it.
run()
{
	show "$@"
	"$@"
}

# bg CMD...: run it so that a signal to us ends it at once, with all that it
# started: a session of its own is a process group that can be killed. POSIX sh
# runs a trap only after the foreground command, but in the middle of a wait.
bg()
{
	setsid "$@" &
	child=$!
	rc=0
	wait "$child" || rc=$?
	child=
	return "$rc"
}

cleanup()
{
	status=$?
	trap - EXIT INT TERM HUP
	if [ -n "$child" ]; then
		kill -TERM "-$child" 2>/dev/null || kill "$child" 2>/dev/null || :
		wait "$child" 2>/dev/null || :
	fi
	[ -z "$tmp" ] || rm -rf "$tmp"
	[ -z "$leftover" ] || rm -f "$leftover"
	exit "$status"
}

interrupted()
{
	say "interrupted; nothing half-written is left, the next run carries on"
	exit 130
}

# scratch PARENT: $tmp is a folder of this process, gone when it ends.
scratch()
{
	trap cleanup EXIT
	trap interrupted INT TERM HUP
	tmp=$(mktemp -d "$1/hotpath.XXXXXX") ||
		die 2 "cannot make a scratch folder in $1: is it writable, is the disk full?"
}

# hash FILE...: one sha256 over the files' contents and names as given.
hash()
{
	sha256sum -- "$@" | sha256sum | cut -c-64
}

need_arg()
{
	[ "$2" -ge 2 ] || die 2 "$1 needs a value (see $verb -h)"
}

# need_packages INSTALL: every package of scripts/packages is there, or is
# installed (INSTALL=yes, root, apt), or its install command is printed.
need_packages()
{
	missing=
	while read -r package probe; do
		case $package in '' | '#'*) continue ;; esac
		case $probe in
		/*) [ -e "$probe" ] ;;
		*) command -v "$probe" >/dev/null 2>&1 ;;
		esac || missing="$missing $package"
	done <"$top/scripts/packages"
	[ -n "$missing" ] || return 0
	# shellcheck disable=SC2086 # a list of package names
	set -- apt-get install -y --no-install-recommends $missing
	if [ "$install" = yes ] && [ "$(id -u)" = 0 ] &&
	   command -v apt-get >/dev/null 2>&1; then
		run apt-get update -qq >&2 || die 2 "apt-get update failed"
		DEBIAN_FRONTEND=noninteractive run "$@" >&2 ||
			die 2 "cannot install$missing: run the line above by hand"
		return 0
	fi
	die 2 "missing packages:$missing; as root: $*"
}

# need_space MB DIR: refuse to start what the disk cannot hold.
need_space()
{
	free=$(df -Pm "$2" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge "$1" ] ||
		die 2 "$2 has $free MB free and $1 MB are needed: free some or set XDG_CACHE_HOME"
}

# open_cache: the cache folder exists and is ours to write.
open_cache()
{
	if ! mkdir -p "$cache" 2>/dev/null || [ ! -w "$cache" ]; then
		die 2 "cannot write $cache: set XDG_CACHE_HOME to a folder of yours"
	fi
}

# lock NAME: one user of the cache's NAME at a time; held until exit.
lock()
{
	exec 9>"$cache/$1.lock"
	flock -n 9 && return 0
	say "waiting for another run that uses $cache/$1"
	bg flock 9
}

# prune: keep the cache below its limit; the entry used last stays.
prune()
{
	# what a run that was killed outright could not remove
	find "$cache" -maxdepth 1 -name 'hotpath.*' -mtime +0 -exec rm -rf {} +
	while :; do
		used=$(du -sm "$cache" | cut -f1)
		[ "$used" -gt "$cache_limit_mb" ] || return 0
		# shellcheck disable=SC2012 # names are ours: base-hash
		oldest=$(ls -1dtr "$cache"/build/* "$cache"/obj/* "$cache"/src/* 2>/dev/null |
			sed '$d' | head -n 1)
		[ -n "$oldest" ] || return 0
		say "cache over $cache_limit_mb MB: dropping $oldest"
		rm -rf "$oldest"
	done
}

# wait_with_progress LABEL LOG PATTERN TOTAL: wait for $child; show how many
# lines of LOG match PATTERN out of about TOTAL: on one line of a terminal,
# else once a minute. Returns the child's status.
wait_with_progress()
{
	began=$(date +%s)
	next=$((began + 60))
	while kill -0 "$child" 2>/dev/null; do
		sleep 1
		now=$(date +%s)
		if [ -t 2 ]; then
			printf '\r%s: %s: %s of about %s, %s s ' "$verb" "$1" \
				"$(grep -cE "$3" "$2" || :)" "$4" $((now - began)) >&2
		elif [ "$now" -ge "$next" ]; then
			next=$((now + 60))
			say "$1: $(grep -cE "$3" "$2" || :) of about $4, $((now - began)) s"
		fi
	done
	[ ! -t 2 ] || printf '\n' >&2
	rc=0
	wait "$child" || rc=$?
	child=
	return "$rc"
}

# base_row BASE: set version, package, suite, file, sha and base_commit.
base_row()
{
	row=$(awk -v b="$1" '$1 == b { print; exit }' "$top/patches/bases")
	[ -n "$row" ] ||
		die 2 "no base '$1' in patches/bases (there are: $(awk '!/^#/ && NF { printf "%s ", $1 }' "$top/patches/bases"))"
	# shellcheck disable=SC2034 # read by the verbs
	read -r _ version package suite file sha base_commit <<-ROW
	$row
	ROW
}

# series_of BASE: the series of a base in apply order, one a line.
series_of()
{
	awk '!/^#/ && NF { print $1 }' "$top/patches/$1/order"
}

# check_series BASE SERIES: stock, all or a line of patches/BASE/order.
check_series()
{
	for one in $(series_of "$1"); do
		case $2 in "$one" | all) ;; *) continue ;; esac
		ls "$top/patches/$1/$one"/*.patch >/dev/null 2>&1 ||
			die 2 "series '$one' of base $1 has no patches"
	done
	case $2 in stock | all) return 0 ;; esac
	series_of "$1" | grep -qxF -e "$2" ||
		die 2 "no series '$2' for base $1 (there are: stock all $(series_of "$1" | tr '\n' ' '))"
}

# patches_of BASE SERIES [UPTO]: the patch files to apply, in order.
patches_of()
{
	case $2 in
	stock) return 0 ;;
	all) series_of "$1" ;;
	*) printf '%s\n' "$2" ;;
	esac | while read -r one; do
		ls "$top/patches/$1/$one"/*.patch
	done | head -n "${3:-1000}"
}

# tool NAME [FLAG...]: build scripts/NAME.c once per content, print its path.
tool()
{
	name=$1
	shift
	key=$(sha256sum <"$top/scripts/$name.c" | cut -c-12)
	if [ ! -x "$cache/tools/$name-$key" ]; then
		mkdir -p "$cache/tools"
		cc -std=c11 -O2 -Wall -Wextra -Wconversion -Werror "$@" "$top/scripts/$name.c" -lm \
			-o "$cache/tools/$name.$$" || die 2 "scripts/$name.c does not build"
		mv "$cache/tools/$name.$$" "$cache/tools/$name-$key"
	fi
	printf '%s\n' "$cache/tools/$name-$key"
}
