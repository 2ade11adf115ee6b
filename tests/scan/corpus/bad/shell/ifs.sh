#!/bin/sh
cat${IFS}/etc/passwd
