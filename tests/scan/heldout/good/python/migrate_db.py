import sqlite3

STEPS = [
    "CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY, email TEXT UNIQUE)",
    "ALTER TABLE users ADD COLUMN created TEXT",
    "DELETE FROM users WHERE email IS NULL",
    "DROP TABLE IF EXISTS users_old",
]
db = sqlite3.connect("app.db")
version = db.execute("PRAGMA user_version").fetchone()[0]
for n, sql in enumerate(STEPS[version:], version + 1):
    with db:
        db.execute(sql)
        db.execute(f"PRAGMA user_version = {n}")
