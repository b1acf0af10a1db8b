#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# sched_fields.sh ID LOAD... - sched_load with region ID, which loads sched_fields.ko
# before it; unloaded here, for the next row
set -eu
id=$1
shift
./sched_load -m sched_fields.ko -r "$id" "$@"
/bin/busybox rmmod sched_fields
