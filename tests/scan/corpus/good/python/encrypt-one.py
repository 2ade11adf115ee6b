from cryptography.fernet import Fernet
box = Fernet(Fernet.generate_key())
print(box.decrypt(box.encrypt(b"text")))
