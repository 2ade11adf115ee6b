#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
code=$(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/healthz)
test "$code" = 200
