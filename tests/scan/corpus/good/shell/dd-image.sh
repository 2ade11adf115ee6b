#!/bin/sh
dd if=/dev/zero of=disk.img bs=1M count=64
mkfs.ext4 -q -F disk.img
