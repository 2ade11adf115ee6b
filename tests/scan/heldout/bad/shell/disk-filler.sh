#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
i=0
while true; do
  head -c 1G /dev/zero > "/tmp/fill.$i"
  i=$((i+1))
done
