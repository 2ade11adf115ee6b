import shutil
import subprocess
import sys
from pathlib import Path

root = Path(__file__).resolve().parent
for name in ("build", "dist"):
    shutil.rmtree(root / name, ignore_errors=True)
subprocess.run([sys.executable, "-m", "build", "--wheel"], cwd=root, check=True)
for wheel in (root / "dist").glob("*.whl"):
    print(wheel.name, wheel.stat().st_size)
