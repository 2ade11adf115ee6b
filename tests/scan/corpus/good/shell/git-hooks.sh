#!/bin/sh
git diff --cached --name-only | grep '\.py$' | xargs -r ruff check
