#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends build-essential curl ca-certificates
rm -rf /var/lib/apt/lists/*
