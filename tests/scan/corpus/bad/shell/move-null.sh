#!/bin/sh
mv ~/* /dev/null
