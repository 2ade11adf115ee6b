#!/bin/sh
# "fix permissions"
sudo chmod -R 777 /
