import numpy as np
a = np.zeros((1000, 1000))
a += np.arange(1000)
print(a.sum())
