#!/bin/sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp -r src "$tmp/"
(cd "$tmp/src" && make check)
