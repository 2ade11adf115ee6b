#!/bin/sh
sed -n 's/^run: //p' tasks.txt | while read -r task; do echo "task: $task"; done
