import os, subprocess
env = dict(os.environ, LANG="C")
subprocess.run(["make", "check"], env=env, check=True)
