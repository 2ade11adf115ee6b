#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The REST interface with curl alone: creates a sandbox, writes a file, runs it, and destroys the sandbox. Over TCP, replace
# the option for the socket by a token, -H "Authorization: Bearer $SANDBOXER_TOKEN", and the host in the URL.
set -eu
socket=${SANDBOXER_SOCKET:-/run/sandboxer/sandboxer.sock}

# request METHOD PATH [CURL-OPTION...]
request() {
    method=$1 path=$2
    shift 2
    curl -sS --fail-with-body --unix-socket "$socket" -X "$method" -H 'Accept: application/json' "$@" "http://localhost$path"
}

# member NAME : of a JSON object on stdin, if it is a number or a string without escapes
member() {
    sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" | head -n 1
}

id=$(request POST /v1/sandboxes -d '{"labels":{"example":"curl"}}' | member sandbox_id)
trap 'request DELETE "/v1/sandboxes/$id" >/dev/null && echo destroyed' EXIT
printf 'echo 6 times 7 is $((6 * 7)) >&2; exit 3\n' |
    request PUT "/v1/sandboxes/$id/files?path=/tmp/job.sh" -H 'Content-Type: application/octet-stream' --data-binary @-
answer=$(request POST "/v1/sandboxes/$id/processes" -d '{"argv":["sh","/tmp/job.sh"]}')
echo "exit code $(echo "$answer" | member exit_code)"
echo "$answer" | grep -o '6 times 7 is [0-9]*'
