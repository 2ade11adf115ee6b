import shutil
from pathlib import Path
for name in ("build", "dist", "app.egg-info"):
    shutil.rmtree(Path(__file__).parent / name, ignore_errors=True)
