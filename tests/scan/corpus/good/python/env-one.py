import os
token = os.environ["API_TOKEN"]
debug = os.environ.get("DEBUG", "0")
print(len(token), debug)
