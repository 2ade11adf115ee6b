#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prepares one sandbox, forks it three times, tries a variant in each fork, and destroys all of them.
set -eu
base=$(sandboxer create -q)
boxes=$base
trap 'sandboxer destroy -q $boxes >/dev/null' EXIT
sandboxer exec "$base" -- sh -c 'mkdir -p /tmp/work && echo "value=0" >/tmp/work/settings'

number=0
for fork in $(sandboxer fork -q -n 3 "$base"); do
    boxes="$boxes $fork"
    number=$((number + 1))
    sandboxer exec "$fork" -- sed -i "s/0/$number/" /tmp/work/settings
    sandboxer exec "$fork" -- cat /tmp/work/settings
done
sandboxer exec "$base" -- cat /tmp/work/settings
