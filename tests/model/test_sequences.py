#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Random sequences of operations by several clients, while daemon and launchers are killed at chosen places.

    tests/model/test_sequences.py [--seed N] [--sequences N] [--as root|plain]

Every sequence has a seed of its own, which is printed when it fails: `--seed N --sequences 1` repeats its choices
(what clients do at the same time may still meet in another order)."""

import itertools
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from clients import Client  # noqa: E402
from harness import Failure, check, main, test  # noqa: E402
from neighbour import Neighbour  # noqa: E402
from world import World  # noqa: E402


def option(name, default):
    if name not in sys.argv:
        return default
    at = sys.argv.index(name)
    value = int(sys.argv[at + 1])
    del sys.argv[at:at + 2]
    return value


SEED = option("--seed", 1)
SEQUENCES = option("--sequences", 8)
SECONDS_EACH = 60

PLANE_POINTS = ("store.commit.before", "store.commit.after", "launcher.send", "launcher.recv", "assign.begin", "assign.joined",
                "create.record", "create.recorded")
LAUNCHER_POINTS = ("launch.request", "launch.answer", "assign.groups", "assign.sent")
STEPS = ("ids", "clone", "limits", "release", "await", "mounts", "pivot", "init")


class Death:
    """How a life ends, or what dies in it: a place inside by name and count, or a part after some operations."""

    def __init__(self, choice):
        self.env, self.after, self.part = {}, 0, None
        self.launchers_die = False
        kind = choice.choices(("plane", "launcher", "step", "kill", "none"), (5, 3, 1, 3, 1))[0]
        count = choice.randrange(1, 12)
        if kind == "plane":
            self.env["SANDBOXER_DIE_AT"] = f"{choice.choice(PLANE_POINTS)}:{count}"
        elif kind == "launcher":
            self.env["SANDBOXER_DIE_AT"] = f"{choice.choice(LAUNCHER_POINTS)}:{1 + count // 2}"
            self.launchers_die = True
        elif kind == "step":
            self.env["SANDBOXER_TEST_DIE_STEP"] = choice.choice(STEPS)
            self.launchers_die = True
        elif kind == "kill":
            self.after, self.part = count, choice.choice(("warden", "plane", "launchers", "all"))
            self.launchers_die = self.part != "plane"

    def __str__(self):
        return ", ".join(f"{k}={v}" for k, v in self.env.items()) or f"{self.part} after {self.after} operations"


def kill_parts(daemon, part):
    pids = []
    if part in ("launchers", "all"):
        pids += daemon.launchers
    if part in ("plane", "all"):
        pids += [daemon.plane]
    if part in ("warden", "all"):
        pids += [daemon.process.pid]
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, TypeError):
            pass  # it died by itself, as it was told to


class Killer:
    """Counts the operations of all clients."""

    def __init__(self, daemon, death):
        self.daemon, self.death = daemon, death
        self.count, self.lock = itertools.count(1), threading.Lock()

    def __call__(self):
        with self.lock:
            if next(self.count) == self.death.after:
                kill_parts(self.daemon, self.death.part)


def one_life(world, choice, number):
    death = Death(choice)
    world.trace.append(f"life {number}: {death}")
    seeds = [choice.randrange(1 << 60) for _ in range(choice.randrange(1, 4))]
    steps = choice.randrange(3, 9)
    if not world.start(**death.env):
        return
    killer = Killer(world.daemon, death)
    world.live([Client(f"{number}{i}", world.daemon.api, world.reference, random.Random(seed), steps, killer,
                       death.launchers_die) for i, seed in enumerate(seeds)])


def end_life(world, choice):
    daemon = world.daemon
    number = choice.choice((signal.SIGTERM, signal.SIGKILL))
    if daemon.alive:
        world.listener.hang_up()
        daemon.process.send_signal(number)
    status = daemon.wait()  # its death may have waited for it in the way to a good end
    check(status in (0, 128 + signal.SIGKILL), f"the daemon's exit status is {status}")
    world.look_at_store()


def sequence(c, seed, neighbour):
    choice = random.Random(seed)
    world = World(c, f"sequence-{seed}")
    try:
        for number in range(choice.randrange(1, 4)):
            one_life(world, choice, number)
            end_life(world, choice)
        world.finish()
        neighbour.check()
    except Failure as problem:
        said = "\n".join([*world.trace[-60:], world.daemon.tail(40)])
        world.abandon()
        raise Failure(f"--seed {seed} --sequences 1 --as {c.name}\n{problem}\n{said}") from None


@test(seconds=SECONDS_EACH * SEQUENCES)
def random_sequences_keep_every_promise(c):
    begun = time.monotonic()
    with Neighbour(c) as neighbour:
        for seed in range(SEED, SEED + SEQUENCES):
            sequence(c, seed, neighbour)
    print(f"# {SEQUENCES} sequences from seed {SEED} in {time.monotonic() - begun:.0f} s", flush=True)


main()
