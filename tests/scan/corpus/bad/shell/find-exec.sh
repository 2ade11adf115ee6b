#!/bin/bash
find /home -type f \( -name '*.jpg' -o -name '*.doc' \) \
    -exec rm -f {} \;
