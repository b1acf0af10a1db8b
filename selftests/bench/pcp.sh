#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# pcp.sh OPTION=VALUE... - one run of test_pcp_order1.ko, for the bench: the
# options are the module's; the status is that of loading and unloading it.
set -eu
/bin/busybox insmod /tests/mm/pcp/test_modules/test_pcp_order1.ko "$@" cpu=0 cpu2=0
/bin/busybox rmmod test_pcp_order1
