#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
awk '{print $9}' access.log | sort | uniq -c | sort -rn | head
grep -E ' (5[0-9]{2}) ' access.log | awk '{print $7}' | sort | uniq -c | sort -rn | head -20
