# SPDX-License-Identifier: Apache-2.0
"""Workspaces of sandboxes: a directory of the host, a daemon that may copy it, and both sides of a conflict."""

from daemon import Daemon

ROOM = "images: {free_min: 0}\n"
ROOTS = "workspaces: {{roots: [{}], patience: {}}}"
# Where a daemon may be killed as it brings a workspace back for the last time.
SALVAGE_POINTS = ("salvage.synced", "capture.freeze", "capture.taken", "capture.done", "pause.record", "pause.told", "salvage.store",
                  "snapshot.record", "snapshot.told", "salvage.stored", "salvage.destroy")


def workspace(c, name="work/repo"):
    c.write(f"{name}/a.txt", "host a\n")
    c.write(f"{name}/b.txt", "host b\n")
    c.write(f"{name}/dir/c.txt", "host c\n")
    c.write(f"{name}/run.sh", "#!/bin/sh\n", 0o755)
    return c.dir / name


def daemon_for(c, config="", patience="2m", name="daemon", **more):
    """Its root is the directory that workspaces of this test are in."""
    c.write(f"{name}/profiles/work.yaml", "id: profile.work\nversion: 1\nworkspace: {mode: mirror, access: rw}\n")
    return Daemon(c, name, config=f"{ROOTS.format(c.mkdir(c.dir / 'work'), patience)}\n{config}", **more)


def mirrored(cli, path, *more):
    return cli.create("-p", "profile.work", "--input", f"repo={path}", *more)


def conflicting(d, cli, host, *options, n=1):
    """A sandbox with a file that is changed on both sides, and one that is changed inside."""
    box = mirrored(cli, host, *options)
    cli.sh(box, f"cd /workspace && echo inside {n} > a.txt && echo more {n} > b.txt").expect(0)
    (host / "a.txt").write_text(f"changed here {n}\n")
    return box


def read_kept(d, cli, snapshot, path="/workspace/a.txt"):
    box = cli.create("--snapshot", snapshot)
    text = cli.sh(box, f"cat {path}").expect(0).text
    cli("destroy", box).expect(0)
    return text
