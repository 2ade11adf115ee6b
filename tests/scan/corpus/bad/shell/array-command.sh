#!/bin/bash
cmd=(rm -rf /home)
"${cmd[@]}"
