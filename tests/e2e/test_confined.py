#!/usr/bin/env python3
# parallel
"""The control plane is confined: the kernel says so, and the daemon still does everything."""

import os
from pathlib import Path

from daemon import Daemon
from harness import check, equal, main, test


def status(pid):
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


@test
def the_kernel_confirms_the_fence(c):
    with Daemon(c) as d:
        plane = d.plane
        got = status(plane)
        equal((got["Seccomp"], got["NoNewPrivs"], int(got["CapEff"], 16), int(got["CapPrm"], 16)), ("2", "1", 0, 0),
              "seccomp, no_new_privs and capabilities of the control plane")
        limits = Path(f"/proc/{plane}/limits").read_text(encoding="ascii")
        core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
        equal(core.split()[4:6], ["0", "0"], "limit of core files")
        # Files of a process that is not dumpable belong to root.
        equal(os.stat(f"/proc/{plane}/environ").st_uid, 0, "owner of /proc/PID/environ")
        for task in os.listdir(f"/proc/{plane}/task"):
            equal(status(f"{plane}/task/{task}")["Seccomp"], "2", "seccomp of a thread")
        box = d.create()
        d.works(box)
        d.api.get("/metrics").expect(200)
        check("call_refused" not in d.tail(1000), "a system call was refused")


main()
