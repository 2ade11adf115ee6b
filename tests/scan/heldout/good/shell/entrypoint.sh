#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
set -e
if [ "$1" = server ]; then
  shift
  python manage.py migrate --noinput
  exec gunicorn app.wsgi --bind 0.0.0.0:8000 "$@"
fi
exec "$@"
