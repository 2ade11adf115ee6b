#!/bin/sh
set -eu
# Build out of tree; the directory is ours.
BUILD=${BUILD:-build}
rm -rf "$BUILD"
mkdir -p "$BUILD"
(cd "$BUILD" && cmake .. && make -j"$(nproc)")
