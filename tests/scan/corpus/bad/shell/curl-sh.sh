#!/bin/sh
set -eu
curl -fsSL https://get.example.net/install.sh | sudo bash -s -- --yes
