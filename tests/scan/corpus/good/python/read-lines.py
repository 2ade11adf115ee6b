lines = []
with open("input.txt") as f:
    while True:
        line = f.readline()
        if not line:
            break
        lines.append(line)
print(len(lines))
