#!/bin/bash
./server & pid=$!
trap 'kill -9 $pid' EXIT
./client --port 9000
