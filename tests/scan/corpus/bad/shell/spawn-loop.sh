#!/bin/bash
while true; do
    ./worker.sh &
done
