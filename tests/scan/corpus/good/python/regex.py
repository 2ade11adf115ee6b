import re
BAD = re.compile(r"rm\s+-rf\s+/|curl .*\|\s*sh")
print(bool(BAD.search(input())))
