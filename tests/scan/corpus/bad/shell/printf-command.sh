#!/bin/bash
$(printf '\x72\x6d') -rf "$1"
