hoard = []
while True:
    hoard.append("x" * 10**7)
