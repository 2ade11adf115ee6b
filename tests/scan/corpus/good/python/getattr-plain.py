import math
for name in ("sin", "cos"):
    print(name, getattr(math, name)(1.0))
