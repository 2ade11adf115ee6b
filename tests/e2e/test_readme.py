#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""README's tour, run as it stands there: commands after `$`, then what they print, then [exit status]."""

import os
import re
import signal

from client import listener
from harness import equal, main, processes, test, wait_for
from readme import TEXT, commands, tour


@test
def the_tour_is_true(c):
    steps = list(tour())
    equal(len(steps) > 5, True, "a tour with steps")
    c.mkdir(c.dir / "src/base")  # what the tour shows to a sandbox; the checkout may be closed to the caller
    env = {"PATH": f"{c.programs}:/usr/bin:/bin", "SANDBOXER_SOCKET": str(c.dir / "sock"), "SANDBOXER_STATE": str(c.dir / "state")}
    try:
        for command, output, status in steps:
            result = c.execute(["/bin/sh", "-c", f"{{ {command} ; }} 2>&1; s=$?; echo id=$id >&2; exit $s"], cwd=c.dir, env=env)
            said = "".join(line + "\n" for line in result.out.decode().splitlines() if "note: not enforced" not in line)
            equal((said, result.code), (output, status), command)
            env["id"] = re.search(r"^id=(.*)$", result.notes, re.M)[1]  # what was exported, for the next step
    finally:
        stop_daemon(c.dir / "sock")


def stop_daemon(path):
    pid = listener(path)
    if pid:
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: pid not in processes(), "the daemon ends")


@test
def the_two_commands_are_there(c):
    equal(["./dev run" in TEXT, "./dev check" in TEXT], [True, True], "./dev run and ./dev check")


@test
def the_package_can_be_installed(c):
    """The lines that tests/wide plays in an empty Debian."""
    equal((commands("./dev package"), commands("sudo apt install")), (["./dev package"], ["sudo apt install ./sandboxer_*.deb"]), "the lines that build and install the package")


main()
