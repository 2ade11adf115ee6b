#!/bin/bash
set -euo pipefail
SRC="$1" DST="$2"
tar -C "$SRC" -czf "$DST/backup-$(date +%F).tar.gz" .
find "$DST" -name 'backup-*.tar.gz' -mtime +30 -delete
