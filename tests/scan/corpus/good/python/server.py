import socket
s = socket.socket()
s.bind(("127.0.0.1", 8000))
s.listen()
while True:
    conn, peer = s.accept()
    conn.sendall(b"hello\n")
    conn.close()
