# SPDX-License-Identifier: Apache-2.0
"""Small images for tests, made of the host's static busybox."""

import io
import os
import shutil
import tarfile
from pathlib import Path

from harness import Skip

APPLETS = ("sh", "cat", "echo", "id", "ls", "stat", "touch", "true", "pwd", "env")
PASSWD = "root:x:0:0:root:/root:/bin/sh\nmaker:x:1234:1234::/home/maker:/bin/sh\n"


def busybox():
    path = shutil.which("busybox")
    if not path:
        raise Skip("busybox is not installed (Debian: busybox-static)")
    return Path(path)


def directory(c, name="image"):
    """An image as a directory that belongs to the caller: no /proc, /dev, /sys or /tmp in it."""
    root = c.mkdir(c.dir / name)
    for sub in ("bin", "etc", "home", "home/maker", "root"):
        c.mkdir(root / sub)
    c.write(f"{name}/bin/busybox", busybox().read_bytes(), 0o755)
    for applet in APPLETS:
        os.symlink("busybox", root / "bin" / applet)
        c.own(root / "bin" / applet)
    c.write(f"{name}/etc/passwd", PASSWD)
    c.write(f"{name}/etc/marker", "from the image\n")
    return root


def member(name, data=None, kind=tarfile.REGTYPE, mode=0o755, owner=0, link="", device=(0, 0)):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid, info.linkname = kind, mode, owner, owner, link
    info.devmajor, info.devminor = device
    info.size = len(data) if data else 0
    return info, data


def archive(c, name="image.tar", owner=0, extra=(), compress=""):
    """The same as an archive. `extra` are more member()s."""
    members = [member(f"{d}/", kind=tarfile.DIRTYPE, owner=owner) for d in ("bin", "etc", "root")]
    members.append(member("bin/busybox", busybox().read_bytes(), owner=owner))
    members += [member(f"bin/{a}", kind=tarfile.SYMTYPE, link="busybox", owner=owner) for a in APPLETS]
    members.append(member("etc/passwd", PASSWD.encode(), mode=0o644, owner=owner))
    members.append(member("etc/marker", b"from the image\n", mode=0o644, owner=owner))
    path = c.dir / name
    with tarfile.open(path, f"w:{compress}") as tar:
        for info, data in [*members, *extra]:
            tar.addfile(info, io.BytesIO(data) if data else None)
    return c.own(path)
