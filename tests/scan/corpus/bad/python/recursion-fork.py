# Missed: no loop, the function calls itself
import os
def again():
    os.fork()
    again()
again()
