#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --depth 1 https://git.example.org/lib.git "$work/lib"
make -C "$work/lib" PREFIX="$PWD/out" install
