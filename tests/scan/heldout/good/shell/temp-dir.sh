#!/bin/bash
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --depth 1 https://git.example.org/lib.git "$work/lib"
make -C "$work/lib" PREFIX="$PWD/out" install
