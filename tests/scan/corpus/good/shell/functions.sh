#!/bin/bash
die() { echo "error: $*" >&2; exit 1; }
need() { command -v "$1" >/dev/null || die "$1 is missing"; }
need git; need make
git pull --ff-only && make install PREFIX="$HOME/.local"
