#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a script of unknown origin: no network, 256 MB of memory, 5 seconds, and none of the caller's files.
# usage: review-script.sh [SCRIPT]
set -u
script=${1:-}
if [ -z "$script" ]; then
    script=$(mktemp) && trap 'rm -f "$script"' EXIT
    echo 'echo "running as $(id -un)"; ls ~/.ssh 2>/dev/null; exit 3' >"$script"
fi
sandboxer run --memory 256M --timeout 5s -- sh -s <"$script"
echo "exit status $?"
