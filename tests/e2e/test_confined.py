#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The control plane is confined: the kernel says so, and the daemon still does everything."""

import os
import subprocess
from pathlib import Path

from daemon import Daemon
from harness import check, equal, main, test, wait_for


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


@test
def what_reads_logs_is_confined(c):
    """It parses what programs in sandboxes had written, with the rights of the caller."""
    for option, says in (("--learn", b"ends before the question"), ("--verify-log", b'"intact":true')):
        process = c.start([c.program("sandboxer-egress"), option], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_for(lambda pid=process.pid: status(pid)["Seccomp"] == "2", f"{option} is confined")
        got = status(process.pid)
        equal((got["NoNewPrivs"], int(got["CapEff"], 16), int(got["CapPrm"], 16)), ("1", 0, 0), "no_new_privs and capabilities")
        equal(os.stat(f"/proc/{process.pid}/environ").st_uid, 0, "owner of /proc/PID/environ")
        out = process.communicate(timeout=60)[0]
        check(says in out, f"it answers {out!r}")


# Why each is there is in daemon/privilege.c. The numbers are the kernel's.
SUPERVISOR = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7, "SETPCAP": 8,
              "NET_BIND_SERVICE": 10, "NET_ADMIN": 12, "SYS_CHROOT": 18, "SYS_PTRACE": 19, "SYS_ADMIN": 21, "SYS_RESOURCE": 24,
              "MKNOD": 27, "SETFCAP": 31, "BPF": 39}


@test(only="root", because="a plain user's daemon has no capabilities")
def the_supervisor_has_only_capabilities_that_it_uses(c):
    kept = sum(1 << number for number in SUPERVISOR.values()) & int(status("self")["CapPrm"], 16)
    with Daemon(c) as d:
        got = status(d.process.pid)
        equal([hex(int(got[name], 16)) for name in ("CapEff", "CapPrm", "CapBnd")], [hex(kept)] * 3, "capabilities of the supervisor")
        equal((int(got["CapInh"], 16), int(got["CapAmb"], 16)), (0, 0), "capabilities that it passes on")
        d.works(d.create())
        launchers = d.parts("sandboxer-launch"[:15])
        check(launchers, "there is no launcher")
        for pid in launchers:
            got = status(pid)
            equal(int(got["CapBnd"], 16) & ~kept, 0, "capabilities that a launcher could gain")
            equal(int(got["CapEff"], 16) & (1 << SUPERVISOR["BPF"] | 1 << SUPERVISOR["SYS_RESOURCE"]), 0, "those that launchers do not need")


main()
