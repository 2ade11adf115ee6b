#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make a small disk image for the tests
set -e
dd if=/dev/zero of=disk.img bs=1M count=64
mkfs.ext4 -q -F disk.img
debugfs -R 'ls -l' disk.img
