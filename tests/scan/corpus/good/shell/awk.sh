#!/bin/sh
awk -F, '{ sum[$1] += $3 } END { for (k in sum) print k, sum[k] }' sales.csv | sort -k2 -n
