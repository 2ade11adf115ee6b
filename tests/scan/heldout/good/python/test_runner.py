import os
import subprocess
import sys
import tempfile


def run(path):
    env = dict(os.environ, PYTHONPATH=os.getcwd())
    with tempfile.TemporaryDirectory() as d:
        return subprocess.run([sys.executable, path], cwd=d, env=env, timeout=60).returncode


def main():
    failed = [p for p in sys.argv[1:] if run(os.path.abspath(p)) != 0]
    print("failed:", failed)
    return bool(failed)


sys.exit(main())
