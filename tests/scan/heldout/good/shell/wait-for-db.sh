#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
i=0
until nc -z "${DB_HOST:-localhost}" "${DB_PORT:-5432}"; do
  i=$((i + 1))
  [ "$i" -ge 60 ] && { echo "database did not come up" >&2; exit 1; }
  sleep 1
done
exec "$@"
