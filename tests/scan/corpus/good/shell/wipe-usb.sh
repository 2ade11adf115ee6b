#!/bin/sh
# flagged: an administrator's tool whose purpose is to write over a disk
dev=$1
[ -b "$dev" ] || exit 1
dd if=image.iso of=/dev/sdz bs=4M conv=fsync
