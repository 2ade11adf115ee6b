#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
disk=$(lsblk -dno NAME,TYPE | awk '$2=="disk"{print "/dev/"$1; exit}')
umount "${disk}"* 2>/dev/null
mkfs.ext4 -F "$disk"
