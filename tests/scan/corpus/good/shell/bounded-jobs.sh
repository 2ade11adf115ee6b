#!/bin/bash
while read -r url; do
    fetch_one "$url" &
    while [ "$(jobs -r | wc -l)" -ge 4 ]; do sleep 0.1; done
done < urls.txt
wait
