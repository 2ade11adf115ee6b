#!/bin/sh
bash <<'END'
cd /
rm -rf /home
END
