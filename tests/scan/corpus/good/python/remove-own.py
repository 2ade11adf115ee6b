import os
for name in os.listdir("cache"):
    if name.endswith(".tmp"):
        os.remove(os.path.join("cache", name))
