#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# spawn.sh N - fork, exec and wait for a static program, N times
set -eu
i=0
while [ $i -lt "$1" ]; do
	/bin/busybox true
	i=$((i + 1))
done
