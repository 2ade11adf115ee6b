#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""README's tour, run as it stands there: commands after `$`, then what they print, then [exit status]."""

import os
import re
import signal

from client import listener
from harness import REPO, equal, main, processes, test, wait_for


def tour():
    """(command, expected output, expected status) of every console block."""
    for block in re.findall(r"```console\n(.*?)```", (REPO / "README.md").read_text(), re.S):
        for step in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, rest = step.partition("\n")
            status = re.search(r"^\[(\d+)\]\n", rest, re.M)
            yield command, re.sub(r"^\[\d+\]\n", "", rest, flags=re.M), int(status[1]) if status else 0


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
    text = (REPO / "README.md").read_text()
    equal(["./dev run" in text, "./dev check" in text], [True, True], "./dev run and ./dev check")


main()
