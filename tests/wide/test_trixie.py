#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian package on Debian 13: built there with the system's own OpenSSL, installed and used."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from debian import Debian, unpack  # noqa: E402
from harness import BUILD, REPO, Skip, check, equal, main, test  # noqa: E402

WORK = BUILD / "wide"
TREE = WORK / "trixie"
ROOT = {"only": "root", "because": "an empty Debian needs root"}


def build_packages():
    """Those of debian/control, and what tools/package itself needs."""
    control = (REPO / "packaging/debian/control").read_text()
    depends = re.search(r"^Build-Depends: (.*?)^\S", control, re.M | re.S)[1]
    names = [re.match(r"[\w.+-]+", name.strip())[0] for name in depends.split(",")]
    return ["debhelper" if name == "debhelper-compat" else name for name in names] + ["build-essential", "git", "xz-utils", "apparmor", "util-linux"]


@test(seconds=1200, **ROOT)
def the_package_is_built_and_works_on_debian_13(c):
    if not shutil.which("debootstrap"):
        raise Skip("debootstrap is not installed; './dev check-wide' installs it")
    WORK.mkdir(parents=True, exist_ok=True)
    unpack(WORK, TREE, "trixie")
    with Debian(c, TREE) as debian:
        debian(f"apt-get -q update && apt-get -q install --no-install-recommends {' '.join(build_packages())} libssl-dev").expect(0)
        subprocess.run(["git", "clone", "-q", "--no-hardlinks", REPO, TREE / "root/source"], check=True)
        debian("chown -R root:root source && cd source && tools/package /root/out || { tail -n 60 /root/out/build.log; exit 1; }", seconds=1200).expect(0)
        (deb,) = (TREE / "root/out").glob("sandboxer_*.deb")
        fields = subprocess.run(["dpkg-deb", "-f", deb, "Depends", "Built-Using"], check=True, capture_output=True, text=True).stdout
        check("libssl3t64" in fields and "openssl (=" not in fields, f"it does not use the system's OpenSSL: {fields}")
        equal(list((TREE / "root/out").glob("*openssl*")), [], "sources of OpenSSL in the package")
        debian(f"apt-get -q install --no-install-recommends ./out/{deb.name}").expect(0)
        debian("apparmor_parser --skip-kernel-load --skip-cache --debug /usr/share/sandboxer/apparmor/sandboxer").expect(0)
        equal(debian("sandboxer run -- echo works").expect(0).text, "works", "a run")
        box = debian("sandboxer create -q").expect(0).text
        equal(debian(f"sandboxer exec {box} -- echo works").expect(0).text, "works", "a program in a sandbox")
        debian(f"sandboxer destroy {box} && sandboxer daemon stop").expect(0)
    shutil.rmtree(TREE)


if os.getuid() == 0 and "--as" not in sys.argv:
    sys.argv += ["--as", "root"]
main()
