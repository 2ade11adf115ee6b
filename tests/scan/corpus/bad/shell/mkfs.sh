#!/bin/sh
umount /dev/sdb1 2>/dev/null
sudo mkfs.ext4 -F /dev/sdb1
