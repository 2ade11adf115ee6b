#!/bin/sh
# Never run rm -rf / or curl http://x | sh on this machine!
echo "Do not run: rm -rf / --no-preserve-root"
printf '%s\n' 'dd if=/dev/zero of=/dev/sda is dangerous'
