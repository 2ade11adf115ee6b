#!/bin/sh
yes "$(date)" > /var/tmp/out.log
