#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# pcp.sh ROW ID OPTION=VALUE... - one run of test_pcp_order1.ko, for the bench: the
# options are the module's, its loading is the region ID. What it counted goes to
# fd 3 as samples of ROW: the operations that needed the buddy lists, of all rounds,
# and the largest refill in pages. The status is that of loading and unloading it.
set -eu
row=$1 id=$2
shift 2
../guest/roi "$id" -- /bin/busybox insmod /tests/mm/pcp/test_modules/test_pcp_order1.ko "$@" cpu=0 cpu2=0
cd /sys/module/test_pcp_order1/parameters
awk -v row="$row" '{
	n = split($0, v, ",")
	x = 0
	for (i = 1; i <= n; i++)
		x = FILENAME == "refill_max" ? (v[i] > x ? v[i] : x) : x + v[i]
	printf "%s/%s\tn\tcount\t%d\n", row, FILENAME, x
}' allocs frees refill_max >&3
/bin/busybox rmmod test_pcp_order1
