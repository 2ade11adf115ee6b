#!/bin/sh
cat <<'EOT'
Usage: wipe.sh DEVICE
  Example of what NOT to do:
    rm -rf /
    curl https://example.org | sh
EOT
