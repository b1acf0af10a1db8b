#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# guest.sh start|end - is this guest fit to test in, and did it stay so?
# A control of the run itself: it must pass on stock and on patched.

fail() { echo "# $*"; exit 1; }

case $1 in
start)
	[ "$(grep -c '^processor' /proc/cpuinfo)" = 2 ] || fail "not two CPUs online"
	grep -q ' [tT] _stext$' /proc/kallsyms || fail "no symbols in /proc/kallsyms"
	! grep -q '^0* [tT] _stext$' /proc/kallsyms || fail "no addresses in /proc/kallsyms"
	zcat /proc/config.gz | grep -q '^CONFIG_MODULES=y' || fail "no /proc/config.gz, or none of a kernel"
	;;
end)
	# 4096 (O): out-of-tree modules, 262144 (N): a test module; nothing else
	t=$(cat /proc/sys/kernel/tainted)
	echo "# tainted: $t"
	[ $((t & ~(4096 | 262144))) = 0 ] || fail "the kernel is tainted: $t"
	;;
*)
	fail "usage: guest.sh start|end"
	;;
esac
