#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""State directories of earlier versions, in tests/e2e/states: the daemon opens and uses them. Sandboxes with the PID 1 of
an earlier version: the daemon serves them, and refuses by name what their PID 1 does not know.

UPGRADE_MAKE=NAME BUILD=... tests/e2e/test_upgrade.py writes states/NAME-CALLER.tar.xz with the programs of BUILD. Add one
for each version that changes the schema or a format on disk, and keep the older ones."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess

from client import Client
from daemon import Daemon
from e2b import Served
from harness import BUILD, PROGRAMS, REPO, check, equal, main, test, wait_for

STATES = REPO / "tests/e2e/states"
MAKE = os.environ.get("UPGRADE_MAKE")
POLICY = {"version": 1, "network_policies": {"web": {"endpoints": [{"host": "example.com", "port": 443}]}}}
PAUSED = "3650d"  # the archives are older than the pauses of the default configuration
BEGAN = "cut -d' ' -f1,22 /proc/$(cat /tmp/pid)/stat"  # pid and time of its start
TEXT = "written by an earlier version\n"


def fill(d):
    """A stopped sandbox, a snapshot, a token; what the test needs to know of them."""
    box = d.create(labels={"team": "web"}, env={"SECRET": "sealed value"},
                   egress={"policy": POLICY})
    d.api.run(box, ["sh", "-c", f"printf '%s' '{TEXT}' >/root/file; ln /root/file /root/link"]).expect(200)
    snapshot = d.api.post(f"/v1/sandboxes/{box}/snapshot", {}).expect(201).json["snapshot_id"]
    d.api.post(f"/v1/sandboxes/{box}/stop").expect(200)
    token = d.api.post("/v1/tokens", {"name": "agent", "verbs": ["read"]}).expect(201).json
    return {"box": box, "snapshot": snapshot, "token": token["id"]}


def archive_of(c, name):
    return STATES / f"{name}-{'root' if c.root else 'plain'}.tar.xz"


def make(c):
    state = c.mkdir(c.dir / "state")
    d = Daemon(c, paused=PAUSED, driver="plain", state=state).start()
    try:
        known = fill(d)
    except BaseException:
        d.clear()
        raise
    d.stop()
    (state / "known.json").write_text(json.dumps(known))
    STATES.mkdir(exist_ok=True)
    subprocess.run(["tar", "-cJf", archive_of(c, MAKE), "--numeric-owner", "--sort=name", "--exclude=log", "-C", state, "."], check=True)


def opened(c, archive):
    """A daemon on what is in the archive."""
    state = c.mkdir(c.dir / archive.name.partition(".tar")[0])
    subprocess.run(["tar", "-xJf", archive, "--numeric-owner", "-C", state], check=True)
    known = json.loads((state / "known.json").read_text())
    (state / "known.json").unlink()
    return Daemon(c, name=f"daemon-{archive.name}", paused=PAUSED, driver="plain", state=state), known


def use(d, known):
    cli = Client(d)
    kept = d.get(known["box"])
    equal((kept["state"], kept["labels"]), ("paused", {"team": "web"}), "the stopped sandbox")
    check("telemetry" not in kept, f"it shows the facts of the host that an earlier version recorded: {kept}")
    d.api.post(f"/v1/sandboxes/{known['box']}/resume").expect(200)
    seen = d.api.run(known["box"], ["sh", "-c", "cat /root/file; stat -c %h /root/link; echo $SECRET"]).expect(200).json
    equal(seen["stdout"], TEXT + "2\nsealed value\n", "files and variables of the resumed sandbox")
    policy = json.loads(cli("egress", "get", known["box"], "-o", "json").expect(0).text)
    check("example.com" in json.dumps(policy), f"the egress policy is {policy}")
    copy = d.create(snapshot=known["snapshot"])
    equal(d.api.run(copy, ["cat", "/root/file"]).expect(200).json["stdout"], TEXT, "the file in the snapshot")
    check(known["token"] in cli("token", "list", "-o", "json").expect(0).text, "the token is gone")
    cli("snapshots", "verify", known["snapshot"]).expect(0)
    cli("audit", "verify").expect(0)
    d.api.delete(f"/v1/snapshots/{known['snapshot']}").expect(204)


if MAKE:
    @test
    def a_state_directory_is_made(c):
        make(c)
else:
    @test
    def state_directories_of_earlier_versions_are_used(c):
        archives = sorted(pathlib.Path(STATES).glob(f"*-{'root' if c.root else 'plain'}.tar.xz"))
        check(archives, f"no archives in {STATES}")
        for archive in archives:
            d, known = opened(c, archive)
            with d:
                use(d, known)

    def old_programs(c):
        """The programs of this build, with the PID 1 of an earlier version."""
        old = c.mkdir(c.dir / "old")
        for name in PROGRAMS:
            shutil.copy(c.programs / name, old / name)
        shutil.copy(BUILD / "tests/old-sandboxer-init", old / "sandboxer-init")
        (old / "sandboxer-init").chmod(0o755)
        return old

    @contextlib.contextmanager
    def programs_of(c, programs):
        mine, c.programs = c.programs, programs
        try:
            yield
        finally:
            c.programs = mine

    def start_with(d, programs):
        with programs_of(d.c, programs):
            d.start()

    @test
    def a_sandbox_of_an_earlier_version_is_taken_over(c):
        d = Daemon(c)
        start_with(d, old_programs(c))
        cli = Client(d)
        box = d.create()
        cli.spawn(box, "echo $$ >/tmp/pid; echo begun; n=0; while :; do n=$((n + 1)); echo $n >/tmp/n; sleep 0.02; done")
        cli.sh(box, "echo kept >/root/kept").expect(0)
        wait_for(lambda: cli.sh(box, "cat /tmp/n").text, "the background process works")
        began = cli.sh(box, BEGAN).expect(0).text
        d.stop()
        with d.start():
            equal(cli.sh(box, BEGAN).expect(0).text, began, "the start of the background process")
            seen = int(cli.sh(box, "cat /tmp/n").expect(0).text or 0)
            wait_for(lambda: int(cli.sh(box, "cat /tmp/n").expect(0).text or 0) > seen, "the background process continues")
            c.write("new", "from the host\n")
            cli("cp", c.dir / "new", f"{box}:/root/new").expect(0)
            cli("cp", f"{box}:/root/kept", c.dir / "back").expect(0)
            equal((c.dir / "back").read_text(), "kept\n", "a file that was written before")
            equal(cli("logs", box).expect(0).text, "begun", "the output of the background process")
            cli("port", "--stdio", box, "8080").expect(range(1, 126), says=f"{box} was started by another version of sandboxer .*, which cannot do this; 'sandboxer stop' and 'sandboxer resume'")
            d.works(box)
            cli("stop", box).expect(0)
            cli("resume", box).expect(0)
            equal(cli.sh(box, "cat /root/kept /root/new").expect(0).text, "kept\nfrom the host", "the files after the rebuild")
            cli("port", "--stdio", box, "8080").expect(1, says="nothing listens on port 8080")
            other = d.create()
            d.works(other)
            d.destroy(other)
            d.destroy(box)

    @test
    def links_in_a_sandbox_of_an_earlier_version(c):
        """Its PID 1 does not report what a link leads to: that is unknown, and everything else is as it was."""
        with programs_of(c, old_programs(c)):
            served = Served(c)
        with served as s:
            box = s.create(s.key()["E2B_API_KEY"])
            box.run("sh", "-c", "mkdir d; echo x > d/file; ln -s d/file link")
            for _ in range(2):
                entries = box.rpc("filesystem.Filesystem/ListDir", {"path": "/home/user", "depth": 2}).expect(200).json["entries"]
                told = [(e["path"], e["type"].removeprefix("FILE_TYPE_"), e["permissions"], e.get("symlinkTarget")) for e in entries if e["name"] in ("d", "file", "link")]
                equal([t[:2] + t[3:] for t in told], [("/home/user/d", "DIRECTORY", None), ("/home/user/d/file", "FILE", None), ("/home/user/link", "UNSPECIFIED", "/home/user/d/file")], "entries")
                equal([t[2][0] for t in told], ["d", "-", "L"], "their modes")
                s.d.stop()
                s.start()


main()
