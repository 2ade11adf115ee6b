# SPDX-License-Identifier: Apache-2.0
"""npm packages that tests use, installed once into a cache. Where they cannot be had, a test says so and is skipped."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from harness import Skip, check

PACKAGES = ("ws@8.18.3", "@seriousme/openapi-schema-validator@2.4.1")
INSTALL_SECONDS = 120
# Daytona's SDK takes the newest of these that fit, and a registry may have one of the two before the other it needs.
STORAGE = ("@aws-sdk/client-s3@3.1131.0", "@aws-sdk/lib-storage@3.1131.0")


def cache():
    return pathlib.Path("/var/cache/sandboxer" if os.getuid() == 0 else os.path.expanduser("~/.cache/sandboxer"))


def modules(packages=PACKAGES, seconds=INSTALL_SECONDS):
    """The directory with the packages. They are installed beside it, so that a half is never found."""
    if not shutil.which("node") or not shutil.which("npm"):
        raise Skip("node or npm is not installed")
    place = cache() / ("npm-" + "-".join(p.rpartition("/")[2].replace("@", "-") for p in packages))
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".npm-") as new:
            try:
                done = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", new, *packages],
                                      capture_output=True, check=False, timeout=seconds, stdin=subprocess.DEVNULL)
            except subprocess.TimeoutExpired:
                raise Skip(f"npm did not install {', '.join(packages)} within {seconds} s") from None
            if done.returncode:
                raise Skip(f"npm could not install {', '.join(packages)}: is the registry reachable?")
            with contextlib.suppress(OSError):  # somebody was faster
                os.rename(new, place)
            os.makedirs(new, exist_ok=True)
    place.chmod(0o755)  # plain users' tests read it, too
    return place


def tell(said):
    """What a story's steps came to, each of them; all must be good."""
    for line in said:
        print(f"# {line['how']}: {line['step']}{': ' + line['why'] if line.get('why') else ''}")
    bad = [line["step"] for line in said if line["how"] == "fail"]
    check(not bad, f"{len(bad)} of {len(said)} failed: {bad}")
