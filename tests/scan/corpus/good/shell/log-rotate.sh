#!/bin/sh
for f in ./logs/*.log; do
    gzip -c "$f" > "$f.$(date +%s).gz" && : > "$f"
done
