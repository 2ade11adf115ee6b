#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""`sandboxer selftest`: the attack suite as an operator runs it, on root's daemon and on a plain user's own."""

import json
import shutil

from client import Client
from daemon import Daemon
from harness import BUILD, check, equal, main, test


@test
def attacks_are_held_in_every_way(c):
    with Daemon(c) as d:
        cli = Client(d)
        done = cli("selftest", "--attacks", "--daemon", "-o", "json")
        said = json.loads(done.out)
        equal((done.code, [a["attack"] for a in said["attacks"]]), (0, []), "what got through")
        equal([w["way"] for w in said["ways"]], ["root inside", "user inside", "small limits", "strict table", "guarded", "daemon"], "the ways")
        every = json.loads(cli("selftest", "--attacks", "-v", "-o", "json").expect(0).out)["attacks"]
        equal([a["result"] for a in every if a["way"] == "guarded" and "inodes of system files" in a["attack"]], ["held"], "inodes of the guarded sandbox")
        for way in said["ways"]:
            check(way["attacks"] > 250 and way["held"] > 240 and way["state"] == "ok", f"{way}")
        equal(cli.json("list")["sandboxes"], [], "the sandboxes that are left")


@test
def an_attack_that_gets_through_is_reported(c):
    """A suite that says so stands for a sandbox that leaks."""
    place = c.mkdir(c.dir / "installed")
    for name in ("sandboxer", "sandboxer-launch", "sandboxer-init"):
        shutil.copy(BUILD / name, place / name)
    for text, says in (("#!/bin/sh\necho 'ok 1 - one: held'\necho 'not ok 2 - two: worked'\necho 1..2\n", "two: worked"),
                       ("#!/bin/sh\necho 'ok 1 - one: held'\n", "did not run to its end")):
        c.write("installed/sandboxer-attacks", text, 0o755)
        done = c.execute([place / "sandboxer", "selftest", "--attacks"])
        equal(done.code, 1, f"the exit status of {done}")
        check(says in done.text, f"what it says: {done.text}")
    (place / "sandboxer-attacks").unlink()
    c.execute([place / "sandboxer", "selftest", "--attacks"]).expect(125, says="sandboxer-attacks")


@test
def without_attacks_it_is_the_canary(c):
    c.execute([c.program(), "selftest"]).expect(0)
    c.execute([c.program(), "selftest", "--daemon"]).expect(2, says="--attacks")


main()
