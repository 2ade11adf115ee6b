#!/bin/bash
total=0
while read -r n; do (( total += n )); done
echo $(( total / 2 )) "$((1 << 10))"
