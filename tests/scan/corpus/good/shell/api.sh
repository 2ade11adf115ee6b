#!/bin/sh
curl -s -H "Authorization: Bearer $TOKEN" https://api.example.com/v1/jobs | jq -r '.[].name'
