#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
fail=0
pids=()
for t in tests/*.sh; do
  bash "$t" > "${t%.sh}.log" 2>&1 &
  pids+=($!)
done
for p in "${pids[@]}"; do wait "$p" || fail=1; done
exit $fail
