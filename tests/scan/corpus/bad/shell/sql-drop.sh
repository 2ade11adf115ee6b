#!/bin/sh
# Missed: SQL is not read
mysql -u root -e 'DROP DATABASE customers'
