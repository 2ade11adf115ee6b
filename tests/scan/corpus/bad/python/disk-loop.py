f = open("/tmp/fill", "wb")
while True:
    f.write(b"\0" * 1048576)
