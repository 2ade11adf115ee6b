#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Files that tenants wrote with set-user-id bits, as the host sees them: no way to gain rights by one."""

import os
import stat
import subprocess
from pathlib import Path

from daemon import PROFILE, PROFILES, Daemon
from harness import PLAIN, check, equal, main, test, wait_for


def mounted(path):
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if line.split()[4] == str(path)]


def rights_of(path):
    """What a plain user becomes by executing it, if nothing but the mount is in the way."""
    fd = os.open(path, os.O_PATH)
    try:
        return subprocess.run([f"/proc/self/fd/{fd}", "-u"], user=PLAIN, group=PLAIN, extra_groups=[], pass_fds=[fd],
                              capture_output=True, text=True, check=True).stdout.strip()
    finally:
        os.close(fd)


def daemon(c):
    d = Daemon(c, driver="plain")
    recipe = PROFILE.format(id="profile.setter", **{**PROFILES["profile.pooled"], "pool": 0})
    c.write("daemon/profiles/setter.yaml", recipe + "caps: [FSETID, SETUID]\n")
    return d


@test(only="root", because="only root's sandboxes have files of root's, and only root mounts")
def a_set_user_id_file_in_the_storage_gives_no_rights(c):
    with daemon(c) as d:
        storage = d.state / "storage"
        box = d.create(profile="profile.setter")
        script = "cp /usr/bin/id /root/id && chmod 4755 /root/id && stat -c %a /root/id"
        equal(d.api.run(box, ["sh", "-c", script]).expect(200).json["stdout"], "4755\n", "the mode inside")
        file = storage / "boxes" / box / "fs/root/id"
        equal(stat.S_IMODE(file.stat().st_mode), 0o4755, "the mode on disk")
        equal(file.stat().st_uid, 0, "its owner on disk")
        equal(rights_of(file), str(PLAIN), "who it makes of a plain user")
        below = c.mkdir(c.dir / "below")  # the same without the mount
        subprocess.run(["mount", "--bind", d.state, below], check=True)
        try:
            equal(rights_of(below / "storage/boxes" / box / "fs/root/id"), "0", "who it makes without the mount")
        finally:
            subprocess.run(["umount", "-l", below], check=True)
        # The bits are kept by what is captured, and still give nothing.
        snapshot = d.api.post(f"/v1/sandboxes/{box}/snapshot", {}).expect(201).json["snapshot_id"]
        again = d.create(snapshot=snapshot)
        equal(d.api.run(again, ["stat", "-c", "%a %u", "/root/id"]).expect(200).json["stdout"], "4755 0\n", "it is kept")
        for layer in (storage / "layers").glob("*/fs/root/id"):
            equal(rights_of(layer), str(PLAIN), "who a layer's file makes of a plain user")
        for one in (again, box):
            d.destroy(one)
        d.api.delete(f"/v1/snapshots/{snapshot}").expect(204)
    equal(mounted(storage), [], "what is still mounted")


@test(only="root", because="only root mounts")
def a_killed_daemon_leaves_one_mount_that_the_next_one_removes(c):
    d = daemon(c).start()
    storage = d.state / "storage"
    equal(len(mounted(storage)), 1, "mounts")
    box = d.create()
    for _ in range(2):
        d.kill()
        equal(len(mounted(storage)), 1, "mounts after the daemon was killed")
        d.start()
        equal(len(mounted(storage)), 1, "mounts after the next start")
        d.works(box)
    other = Daemon(c, name="other", state=d.state)
    check(not other.spawn(), "a second daemon serves the same directory")
    wait_for(lambda: other.process.poll() is not None, "the second daemon ends")
    equal(len(mounted(storage)), 1, "mounts after a second daemon was refused")
    d.works(box)
    d.clear()
    equal(mounted(storage), [], "what is still mounted")


@test(only="root", because="only root mounts")
def an_administrators_mount_stays(c):
    state = c.mkdir(c.dir / "state")
    storage = c.mkdir(state / "storage")
    storage.chmod(0o700)
    state.chmod(0o711)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0700,nosuid,nodev", "none", storage], check=True)
    try:
        with Daemon(c, state=state, driver="memory") as d:
            d.works(d.create())
        equal(len(mounted(storage)), 1, "mounts")
        subprocess.run(["mount", "-o", "remount,suid,dev", storage], check=True)
        with Daemon(c, state=state, driver="memory") as d:
            equal(len(mounted(storage)), 2, "mounts where the administrator's lets programs gain rights")
            d.works(d.create())
        equal(len(mounted(storage)), 1, "mounts")
    finally:
        subprocess.run(["umount", "-l", storage], check=True)


main()
