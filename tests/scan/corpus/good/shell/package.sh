#!/bin/sh
set -e
apt-get update
apt-get install -y --no-install-recommends build-essential curl
rm -rf /var/lib/apt/lists/*
