#!/bin/sh
# builds up in memory until there is none
tail /dev/zero
