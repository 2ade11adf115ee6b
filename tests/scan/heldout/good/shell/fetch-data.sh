#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
mkdir -p data
for year in 2019 2020 2021; do
  curl -fsSL -o "data/$year.csv.gz" "https://data.example.org/taxi/$year.csv.gz"
  gunzip -f "data/$year.csv.gz"
done
wc -l data/*.csv
