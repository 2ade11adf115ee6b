# SPDX-License-Identifier: Apache-2.0
"""File systems of a test's own, in a file that it owns: what storage drivers need.

    with volume(c, "btrfs") as top:
        with Daemon(c, state=top / "state", driver="btrfs") as d: ...

Tests have a mount namespace of their own, so nobody else sees them; the loop device goes with the last mount."""

import contextlib
import os
import shutil
import signal
import subprocess

from harness import Skip, wait_for

MKFS = {"xfs": ["mkfs.xfs", "-q", "-m", "reflink=1"], "btrfs": ["mkfs.btrfs", "-q"], "ext4": ["mkfs.ext4", "-q"]}
SIZES = {"xfs": 320, "btrfs": 256, "ext4": 64}  # MiB: the least that they take


@contextlib.contextmanager
def volume(c, kind, megabytes=0, options="loop", quota=True, kept=True):
    """Without `kept`, no blocks of an ext4 are kept for root: when it is full, it is full for every process."""
    if os.geteuid() != 0:
        raise Skip("only root mounts file systems")
    if not shutil.which(MKFS[kind][0]):
        raise Skip(f"{MKFS[kind][0]} is not installed")
    if kind not in open("/proc/filesystems").read() and subprocess.run(["modprobe", kind], capture_output=True).returncode:
        raise Skip(f"this kernel has no {kind}")
    image, top = c.dir / f"{kind}.img", c.mkdir(c.dir / kind)
    with open(image, "wb") as f:
        f.truncate((megabytes or SIZES[kind]) << 20)
    subprocess.run([*MKFS[kind], *(["-m", "0"] if kind == "ext4" and not kept else []), image], check=True, capture_output=True)
    made = subprocess.run(["mount", "-o", options, image, top], capture_output=True)
    if made.returncode:
        raise Skip(f"{kind} cannot be mounted: {made.stderr.decode().strip()}")
    try:
        if kind == "btrfs" and quota:
            subprocess.run(["btrfs", "quota", "enable", top], check=True, capture_output=True)
        c.own(top)
        yield top
    except BaseException:  # what went wrong is not that whoever was not ended uses it still
        subprocess.run(["umount", "-l", top], capture_output=True)
        raise
    else:
        wait_for(lambda: subprocess.run(["umount", top], capture_output=True).returncode == 0, "nobody uses it any more")
    finally:
        image.unlink()


def fill(path, left=0):
    """Allocates a file with all room of its file system but for so many bytes; without any, to the last block, with those
    that are kept for root."""
    smallest = 4096
    with open(path, "ab") as f:
        def free():
            return (fs := os.fstatvfs(f.fileno())).f_bavail * fs.f_frsize
        for step in (64 << 20, 1 << 20, smallest):
            with contextlib.suppress(OSError):
                while not left or free() > left + (step if step > smallest else 0):
                    os.posix_fallocate(f.fileno(), os.fstat(f.fileno()).st_size, step)


def kill_companion(d, name):
    """Kills a process that the monitor of a daemon keeps, and waits for the next one."""
    old = wait_for(lambda: d.parts(name), f"{name} runs")
    os.kill(old[0], signal.SIGKILL)
    wait_for(lambda: d.parts(name) not in ([], old), f"another {name} runs")
