#!/bin/sh
head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n'
