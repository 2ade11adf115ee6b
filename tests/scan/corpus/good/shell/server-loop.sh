#!/bin/sh
while true; do
    ./poll-queue || echo "poll failed"
    sleep 5
done
