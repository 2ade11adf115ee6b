#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
rm -rf node_modules coverage
npm ci --no-audit
npm run lint
npm test -- --coverage
[ "${CI:-}" = true ] && npx codecov --token="$CODECOV_TOKEN"
exit 0
