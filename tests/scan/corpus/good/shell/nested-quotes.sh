#!/bin/bash
msg="it's $(date +"%H:%M") and \"fine\""
echo "$msg" 'a|b;c&d' "rm -rf $HOME is only text"
