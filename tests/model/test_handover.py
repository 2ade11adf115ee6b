#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The hand-over of a prepared sandbox to its owner, with a death at each of its steps: the control plane or a launcher
dies at a named place, or both are killed while one of them is held there. A create that was answered is a sandbox that
works, in this life of the daemon and in the next; a create that was not answered leaves a sandbox that works, or nothing."""

import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from daemon import Cut, Daemon  # noqa: E402
from harness import Footprint, check, equal, main, test, wait_for  # noqa: E402
from reference import USABLE  # noqa: E402
from store import Store  # noqa: E402

POOLED = "profile.pooled"
# In their order, and whether the sandbox is on record when the control plane dies there.
PLANE_STEPS = {"assign.begin": False, "assign.joined": False, "create.record": False, "create.recorded": True}
LAUNCHER_STEPS = ("assign.groups", "assign.sent")
KEY = {"Idempotency-Key": "handed-over"}


class Create(threading.Thread):
    """One create from the pool. `box` is its sandbox if it was answered; `cut` if the daemon died first."""

    def __init__(self, d):
        super().__init__(daemon=True)
        self.d, self.box, self.cut, self.problem = d, None, False, None
        self.start()

    def run(self):
        try:
            self.box = self.d.api.post("/v1/sandboxes", {"profile": POOLED}, KEY).expect(201).json["sandbox_id"]
        except Cut:
            self.cut = True
        except Exception as problem:  # told by over(), in the test's own thread
            self.problem = problem

    def over(self):
        self.join()
        if self.problem:
            raise self.problem
        return self


def filled(d):
    wait_for(lambda: d.api.get("/v1/inspect/host").expect(200).json["pool_ready"] == 2, "the pool is filled")


def check_next_life(d, footprint, create, extra=()):
    """What the next daemon finds, and that nothing is left when that is destroyed."""
    d.start()
    shown = {box["sandbox_id"]: box["state"] for box in d.list()}
    check(not create.box or create.box in shown, f"{create.box} was answered and is not listed: {shown}")
    for box, state in shown.items():
        check(state in USABLE, f"{box} is {state}")
        d.works(box)
    check(len(set(shown) - set(extra)) <= 1, f"one create made more than one of {shown}")
    again = d.api.post("/v1/sandboxes", {"profile": POOLED}, KEY).expect(200, 201).json["sandbox_id"]
    check(not set(shown) - set(extra) or again in shown, f"the key made {again} beside {shown}")
    d.works(again)
    known = {box["sandbox_id"] for box in d.list()}
    filled(d)
    wait_for(lambda: len(set(d.leftovers()) - known) == 2, "prepared sandboxes of the life before are removed")
    d.clear()
    footprint.check()
    return shown


@test(seconds=300)
def the_control_plane_dies_at_every_step(c):
    for step, recorded in PLANE_STEPS.items():
        footprint = Footprint(c)
        d = Daemon(c, f"plane-{step}")
        d.start()
        d.stop()
        d.start(SANDBOXER_DIE_AT=f"{step}:1")
        filled(d)
        create = Create(d).over()
        d.wait()
        check(create.cut, f"{step}: the control plane did not die: is this a build with test hooks?")
        equal(len(Store(d).sandboxes), int(recorded), f"sandboxes on record after a death at {step}")
        equal(len(check_next_life(d, footprint, create)), int(recorded), f"sandboxes after a death at {step}")


@test(seconds=300)
def a_launcher_dies_at_every_step(c):
    for step in LAUNCHER_STEPS:
        footprint = Footprint(c)
        d = Daemon(c, f"launcher-{step}")
        d.start(SANDBOXER_DIE_AT=f"{step}:1")
        filled(d)
        create = Create(d).over()
        check(create.box, f"{step}: the create was not answered")
        wait_for(lambda: "launcher.died" in d.tail(100), f"a launcher died at {step}")
        d.works(create.box)
        d.kill()
        check_next_life(d, footprint, create)


def hold_launcher(d):
    """The pid of a launcher that stopped at its step."""
    def stopped():
        for pid in d.launchers:
            with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                if f.read().rpartition(")")[2].split()[0] == "T":
                    return pid
        return None
    return wait_for(stopped, "a launcher stopped at its step")


def write_record(d, box):
    """Changes the record of another sandbox. Records are written in their order: when this one is, so is everything that was
    to be recorded before it."""
    d.api.post(f"/v1/sandboxes/{box}/extend-ttl", {"duration": "10m"}).expect(200)


@test(seconds=300)
def the_daemon_and_a_launcher_are_killed_while_the_groups_are_made(c):
    # Without its launcher the create builds a sandbox as any other does: a daemon killed in that is a matter of test_points.py.
    for victims in (("daemon", "launcher"), ("launcher",), ("plane", "launcher")):
        footprint = Footprint(c)
        d = Daemon(c, "-".join(victims))
        d.start(SANDBOXER_STOP_AT="assign.groups:1")
        other = d.create(profile="profile.sandbox-canary")
        filled(d)
        create = Create(d)
        launcher = hold_launcher(d)
        write_record(d, other)
        equal([box["sandbox_id"] for box in d.list()], [other], "sandboxes on record before the hand-over is done")
        for victim in victims:
            if victim == "launcher":
                os.kill(launcher, signal.SIGKILL)
            else:
                d.kill(d.plane if victim == "plane" else None)
        if victims == ("launcher",):
            check(create.over().box, "the create was not answered")
            d.works(create.box)
            d.kill()
        create.over()
        check_next_life(d, footprint, create, extra=[other])


main()
