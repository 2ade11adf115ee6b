# SPDX-License-Identifier: Apache-2.0
"""An empty Debian, 12 unless another release is named, to install packages into, with namespaces of its own.

    with Debian(c, directory) as debian:
        debian("apt-get -y install ./sandboxer.deb").expect(0)

It is unpacked into the directory from an archive that debootstrap has made once (in the cache of tools/openssl35). It has
its own processes, mounts, /run and /tmp: when the `with` ends, or the test is killed, all of them are gone, and the
directory holds plain files. Its root is the root of a mount namespace and no chroot, since the kernel lets a process in
a chroot make no user namespaces."""

import os
import shutil
import subprocess
import time
from pathlib import Path

from harness import Failure, Skip, check, processes, wait_for

RELEASE = "bookworm"
MONTH = 30 * 86400  # an archive that is older is made again
INSTALL_SECONDS = 900
NAME_SERVICE = ("resolv.conf", "hosts")

ENTER = r"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 run run
mount -t tmpfs -o mode=1777 tmp tmp
pivot_root . mnt
umount -l /mnt
mount --make-rshared /
echo ready
sleep infinity &
wait
"""


def output(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def mirror():
    """The mirror that apt is configured with."""
    for line in output("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages").splitlines():
        if line.rstrip("/").endswith("/debian"):
            return line.rstrip("/")
    raise Skip("apt has no mirror of Debian in its configuration")


def cache():
    return Path(os.environ.get("SANDBOXER_DEPS") or "/var/cache/sandboxer")


def make_archive(archive, work, release):
    """In a mount namespace of its own, so that nothing it mounts stays."""
    tree = work / "bootstrap"
    made = subprocess.run(["unshare", "--mount", "debootstrap", "--variant=minbase", release, tree, mirror()],
                          capture_output=True, text=True, check=False)
    if made.returncode:
        raise Failure(f"debootstrap failed: {made.stdout[-1500:]}{made.stderr[-500:]}")
    archive.parent.mkdir(parents=True, exist_ok=True)
    half = archive.with_suffix(".half")
    subprocess.run(["tar", "-cf", half, "--numeric-owner", "-C", tree, "."], check=True)
    half.rename(archive)
    shutil.rmtree(tree)


def archive(work, release):
    architecture = output("dpkg", "--print-architecture").strip()
    path = cache() / f"debian-{release}-{architecture}.tar"
    if not path.exists() or time.time() - path.stat().st_mtime > MONTH:
        make_archive(path, work, release)
    return path


def unpack(work, tree, release=RELEASE):
    source = archive(work, release)
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    subprocess.run(["tar", "-xf", source, "--numeric-owner", "-C", tree], check=True)
    (tree / "etc/apt/sources.list").write_text(f"deb {mirror()} {release} main\n")
    proxy = output("apt-config", "dump", "Acquire::http::Proxy")
    (tree / "etc/apt/apt.conf.d/90test").write_text(proxy + 'APT::Get::Assume-Yes "true";\n')
    for name in NAME_SERVICE:  # as debootstrap left them, they are those of the day when the archive was made
        shutil.copyfile(f"/etc/{name}", tree / "etc" / name)


class Debian:
    def __init__(self, c, tree):
        self.c, self.tree, self.holder, self.first = c, tree, None, None

    def __enter__(self):
        self.holder = self.c.start(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", self.tree], cwd="/")
        said = self.holder.stdout.readline()
        check(said == b"ready\n", f"the Debian does not start: {said!r} {self.holder.stderr.read() if not said else ''}")
        with open(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children", encoding="ascii") as children:
            self.first = children.read().split()[0]
        return self

    def __exit__(self, *_):
        self.holder.kill()
        self.holder.wait()
        wait_for(lambda: int(self.first) not in processes(), "the processes of the Debian end")

    def __call__(self, script, user="root", seconds=INSTALL_SECONDS, **env):
        """Runs a script of the shell inside; its result."""
        script = f"cd\n{script}"
        command = ["sh", "-c", script] if user == "root" else ["su", "-", "-s", "/bin/sh", "-c", script, user]
        variables = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                     "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **env}
        return self.c.execute(["nsenter", f"--target={self.first}", "--mount", "--pid", "env", "-i",
                               *(f"{name}={value}" for name, value in variables.items()), *command], seconds=seconds, cwd="/")

    def path(self, name):
        return self.tree / name.lstrip("/")
