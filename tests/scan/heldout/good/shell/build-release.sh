#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
set -e
rm -rf build dist
mkdir -p build dist
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release
cmake --build build -j"$(nproc)"
cp build/app dist/
tar -C dist -czf "app-$(git describe --tags).tar.gz" app
sha256sum app-*.tar.gz > SHA256SUMS
