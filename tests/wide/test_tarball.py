#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The archive of `./dev tarball`: works wherever it is unpacked, and after a move."""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from client import Client  # noqa: E402
from daemon import Daemon  # noqa: E402
from harness import BUILD, REPO, check, equal, main, test  # noqa: E402

MADE = []
BUILD_SECONDS = 900


def archive():
    """Made once, for both callers."""
    if not MADE:
        made = subprocess.run([REPO / "tools/tarball", BUILD / "wide"], capture_output=True, text=True, check=False, timeout=BUILD_SECONDS)
        equal(made.returncode, 0, f"the status of tools/tarball: {made.stdout[-2000:]}{made.stderr[-2000:]}\nstatus")
        MADE.append(made.stdout.splitlines()[-1])
    return MADE[0]


def libraries(program):
    """Those that a program would load, and from where."""
    return [line.split(" => ")[1].rpartition(" (")[0] for line in subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout.splitlines() if " => " in line]


@test(seconds=BUILD_SECONDS)
def an_unpacked_tree_works_and_can_be_moved(c):
    top = c.mkdir(c.dir / "some where")
    subprocess.run(["tar", "-xf", archive(), "--no-same-owner", "-C", top], check=True)
    (tree,) = top.iterdir()
    moved = c.dir / "moved"
    built = c.programs
    try:
        for _ in range(2):
            c.programs = tree / "bin"
            c.cli("run", "--", "echo", "works").expect(0, out=b"works\n")
            c.programs = tree / "libexec/sandboxer"
            with Daemon(c).start(SANDBOXER_PROFILES="") as d:
                check("profile.base" in [p["id"] for p in d.api.get("/v1/profiles").expect(200).json["profiles"]], "the shipped profiles are not found")
                box = d.create()
                d.works(box)
                c.programs = tree / "bin"
                cli = Client(d)
                cli("exec", box, "--", "true").expect(0)
                cli("destroy", box).expect(0)
            c.programs = tree / "bin"
            c.cli("doctor", env={"SANDBOXER_STATE": str(c.dir / "state"), "SANDBOXER_SOCKET": str(c.dir / "sock")}).expect((0, 1))
            foreign = [path for path in libraries(tree / "libexec/sandboxer/sandboxerd") if "libsqlite3" in path or "libcurl" in path]
            check(foreign and all(path.startswith(str(tree)) for path in foreign), f"libraries from elsewhere: {foreign}")
            shutil.move(tree, moved)
            tree = moved
    finally:
        c.programs = built


main()
