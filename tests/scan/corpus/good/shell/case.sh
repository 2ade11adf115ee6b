#!/bin/sh
case "$1" in
    start) exec ./server --port 80 ;;
    stop) kill "$(cat server.pid)" ;;
    *) echo "usage: $0 start|stop"; exit 2 ;;
esac
