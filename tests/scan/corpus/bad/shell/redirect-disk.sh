#!/bin/sh
cat ./image.bin > /dev/nvme0n1
sync
