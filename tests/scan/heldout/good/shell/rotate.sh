#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
dir=${1:-./logs}
find "$dir" -name '*.log' -mtime +14 -delete
find "$dir" -name '*.log' -mtime +1 -exec gzip -9 {} +
