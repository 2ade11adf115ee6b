#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""cp: trees and files into a sandbox and out of it."""

import io
import os
import stat
import tarfile

from client import Client
from daemon import Daemon
from harness import check, equal, main, test


def tree(path):
    """name -> what it is: content, target or None, with its permissions."""
    found = {}
    for at, directories, names in os.walk(path):
        for name in directories + names:
            full = os.path.join(at, name)
            mode = os.lstat(full).st_mode
            what = (os.readlink(full) if stat.S_ISLNK(mode) else None if stat.S_ISDIR(mode) else open(full, "rb").read())
            found[os.path.relpath(full, path)] = (stat.S_IFMT(mode), what, None if stat.S_ISLNK(mode) else mode & 0o777)
    return found


def sample(c, name="src"):
    c.write(f"{name}/a", "alpha")
    c.write(f"{name}/deep/er/b c", os.urandom(70000))
    c.write(f"{name}/run.sh", "#!/bin/sh\n", 0o755)
    c.mkdir(c.dir / name / "empty")
    c.own_link(c.dir / name / "link", "a")
    return c.dir / name


@test
def a_tree_goes_in_and_comes_out_the_same(c):
    with Daemon(c) as d:
        cli = Client(d)
        box, source = cli.create(), sample(c)
        cli("cp", str(source), f"{box}:/tmp/copy").expect(0)
        cli.sh(box, "cd /tmp/copy && cat a && test -x run.sh && test ! -x a && readlink link && ls -d empty").expect(0, out=b"alphaa\nempty\n")
        cli("cp", f"{box}:/tmp/copy", "back").expect(0)
        equal(tree(c.dir / "back"), tree(source), "the tree that came back")
        equal({os.lstat(p).st_uid for p in (c.dir / "back").rglob("*")}, {c.uid}, "owners")


@test
def places_are_those_of_cp(c):
    with Daemon(c) as d:
        cli = Client(d)
        box, source = cli.create(), sample(c)
        cli.sh(box, "mkdir /tmp/there").expect(0)
        cli("cp", str(source), f"{box}:/tmp/there").expect(0)
        cli("cp", f"{source}/.", f"{box}:/tmp/there").expect(0)
        cli("cp", f"{source}/a", f"{source}/run.sh", f"{box}:/tmp").expect(0)
        cli("cp", f"{source}/a", f"{box}:/tmp/name").expect(0)
        cli.sh(box, "cat /tmp/there/src/a /tmp/there/a /tmp/a /tmp/name").expect(0, out=b"alpha" * 4)
        c.mkdir(c.dir / "here")
        cli("cp", f"{box}:/tmp/a", "here").expect(0)
        cli("cp", f"{box}:/tmp/a", "here/other").expect(0)
        cli("cp", f"{box}:/tmp/there/.", "here").expect(0)
        equal(sorted(os.listdir(c.dir / "here")), ["a", "deep", "empty", "link", "other", "run.sh", "src"], "here")


@test
def streams_are_archives(c):
    with Daemon(c) as d:
        cli = Client(d)
        box, source = cli.create(), sample(c)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as t:
            t.add(source, "top")
        cli("cp", "-", f"{box}:/tmp", stdin=archive.getvalue()).expect(0)
        cli.sh(box, "cat /tmp/top/a").expect(0, out=b"alpha")
        with tarfile.open(fileobj=io.BytesIO(cli("cp", f"{box}:/tmp/top", "-").expect(0).out)) as t:
            names = sorted(m.name.rstrip("/") for m in t.getmembers())
        equal(names, ["top", "top/a", "top/deep", "top/deep/er", "top/deep/er/b c", "top/empty", "top/link", "top/run.sh"], "names")


@test
def links_out_of_the_tree_are_not_followed(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        c.write("secret", "host secret")
        c.mkdir(c.dir / "tree")
        c.own_link(c.dir / "tree/out", str(c.dir / "secret"))
        cli("cp", str(c.dir / "tree"), f"{box}:/tmp/tree").expect(0)
        check(b"host secret" not in cli.sh(box, "cat /tmp/tree/out; cat /tmp/tree/* 2>/dev/null").out, "a link was followed")
        # The other way: a link inside that is to write through on the host.
        c.mkdir(c.dir / "victim")
        cli.sh(box, f"mkdir /tmp/evil && ln -s {c.dir}/victim /tmp/evil/d && ln -s {c.dir}/secret /tmp/evil/s").expect(0)
        cli("cp", f"{box}:/tmp/evil", "in")
        cli.sh(box, "cd /tmp/evil && rm d s && mkdir d && echo x > d/planted && echo overwritten > s").expect(0)
        cli("cp", f"{box}:/tmp/evil/.", "in")
        equal(os.listdir(c.dir / "victim"), [], "what was planted on the host")
        equal((c.dir / "secret").read_bytes(), b"host secret", "the file behind the link")


@test
def hostile_archives_stay_in_their_place(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as t:
            for name in ("../outside", "/tmp/absolute", "a/../../outside2"):
                member = tarfile.TarInfo(name)
                member.size = 1
                t.addfile(member, io.BytesIO(b"x"))
        cli.sh(box, "mkdir -p /tmp/in/here").expect(0)
        result = cli("cp", "-", f"{box}:/tmp/in/here", stdin=archive.getvalue())
        check(result.code != 0, "a hostile archive is taken without a word")
        cli.sh(box, "ls -A /tmp/in /tmp").expect(0, out=b"/tmp:\nin\n\n/tmp/in:\nhere\n")


@test
def what_cannot_be_copied_is_said(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli("cp", "nothing", f"{box}:/tmp").expect((1, 3, 125), says="nothing")
        cli("cp", f"{box}:/nothing", ".").expect(3, says="nothing")
        cli("cp", f"{box}:/etc/passwd", f"{box}:/tmp").expect(2, says="one side must be here")
        cli("cp", "a", "b").expect(2, says="one side must be in a sandbox")
        cli("cp", f"{box}:relative", ".").expect(2)
        cli("cp", "sbx_nothing:/etc/passwd", ".").expect(3, says="sbx_nothing")
        equal(os.listdir(c.dir), ["daemon"], "files here")


@test(only="root", because="a plain user without subordinate ids has one identity inside")
def rights_inside_are_those_of_the_user(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli.sh(box, "echo s > /root/secret; chmod 600 /root/secret; mkdir -m 700 /tmp/roots").expect(0)
        cli("cp", "--user", "1000", f"{box}:/root/secret", "secret").expect(5)
        c.write("mine", "x")
        cli("cp", "--user", "1000", "mine", f"{box}:/tmp/roots/mine").expect(5)
        cli("cp", "--user", "1000", "mine", f"{box}:/tmp/mine").expect(0)
        cli.sh(box, "stat -c %u /tmp/mine").expect(0, out=b"1000\n")


main()
