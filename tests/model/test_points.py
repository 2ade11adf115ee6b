#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""One client, one story, and a death at every single place of it: each write of the store, each message to and
from a launcher, before and after, in the control plane and in the launcher; each step of building a sandbox. After
each the daemon is started again, and everything that was told must still hold.

With `--every` as it says; without, one caller's daemon dies at every third of them, the other's at others."""

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from clients import Client  # noqa: E402
from daemon import Cut  # noqa: E402
from harness import Failure, Skip, check, main, test, wait_for  # noqa: E402
from neighbour import Neighbour  # noqa: E402
from world import World  # noqa: E402

POINTS_MAX = 200  # a story has fewer places of one name
PLANE_POINTS = ("store.commit.before", "store.commit.after", "launcher.send", "launcher.recv", "assign.begin", "assign.joined")
EVERY = "--every" in sys.argv
if EVERY:
    sys.argv.remove("--every")  # the harness has no such word
STRIDE = 1 if EVERY else 3


def await_pool(client):
    """Until the next create is a hand-over; where launchers die there may be no pool."""
    wait_for(lambda: client.launchers_die or client.api.get("/v1/inspect/host").expect(200).json["pool_ready"],
             "a sandbox is prepared")


def story(client):
    """Every operation that changes something; each name is of the newest sandbox."""
    def newest():
        return max(client.reference.boxes.values(), key=lambda box: box.was_ready if box.told else 0).id

    await_pool(client)
    client.create(None, 1)
    client.run_program(newest(), 40)
    client.create(None, 2)
    client.run_program(newest(), 41)
    client.extend(newest(), 1)
    client.create_once(None, 0)
    client.create_once(None, 0)
    client.run_background(newest(), 42)
    client.look_at_background(newest(), 0)
    client.recreate(newest(), 0)
    client.run_program(newest(), 43)
    client.destroy_together(newest(), 0)
    client.list(None, 0)


def tell(world, launchers_die):
    """Lets one client tell the story; True if nothing was cut."""
    client = Client("one", world.daemon.api, world.reference, None, 0, None, launchers_die)
    try:
        story(client)
    except Cut:
        client.cut = True
    except ValueError:
        check(launchers_die, "no sandbox was made")  # then there is none to go on with
    finally:
        world.trace += client.trace
    if client.problem:
        raise Failure(client.problem)
    return not client.cut


def live_and_die(c, name, neighbour, launchers_die, **env):
    """One story with one death in it, and all that follows; False if the death did not come."""
    world = World(c, name)
    try:
        served = world.start(**env)
        survived = served and tell(world, launchers_die)
        if survived:
            world.daemon.kill()
        world.daemon.wait()
        world.look_at_store()
        world.finish()
        neighbour.check()
    except Failure as problem:
        said = "\n".join([*world.trace, world.daemon.tail(40)])
        world.abandon()
        raise Failure(f"{env}: {problem}\n{said}") from None
    return not survived


def some(c, things):
    """Those of them at which this caller's daemon dies."""
    return itertools.islice(things, 0 if c.root or EVERY else 1, None, STRIDE)


def every_count(c, point, neighbour):
    """How often the control plane died at a place, until it did not come there any more."""
    for deaths, count in enumerate(some(c, range(1, POINTS_MAX))):
        died = live_and_die(c, f"{point}-{count}", neighbour, False, SANDBOXER_DIE_AT=f"{point}:{count}")
        if not died:
            return deaths
    raise Failure(f"{point}: still dying after {POINTS_MAX} times")


@test(seconds=900)
def the_control_plane_dies_at_every_write_and_message(c):
    with Neighbour(c) as neighbour:
        for point in PLANE_POINTS:
            count = every_count(c, point, neighbour)
            if count == 0:  # a slice may begin behind the only time that the point was passed
                count = live_and_die(c, f"{point}-first", neighbour, False, SANDBOXER_DIE_AT=f"{point}:1")
            print(f"# {point}: {count} deaths", flush=True)
            check(count > 0, f"{point} is never passed: this build has no test hooks (-Dtest_hooks=true)")


@test(seconds=900)
def launchers_die_at_every_message(c):
    with Neighbour(c) as neighbour:
        for point, count in some(c, itertools.product(("launch.request", "launch.answer", "assign.groups", "assign.sent"), (1, 2, 3, 4))):
            live_and_die(c, f"{point}-{count}", neighbour, True, SANDBOXER_DIE_AT=f"{point}:{count}")


@test(seconds=900)
def launchers_die_at_every_step(c):
    steps = c.execute([c.program("sandboxer-launch"), "--list-steps"])
    if steps.code != 0 or not steps.text:
        raise Skip("this build has no test hooks (-Dtest_hooks=true)")
    with Neighbour(c) as neighbour:
        for step in some(c, steps.text.split()):
            live_and_die(c, f"step-{step}", neighbour, True, SANDBOXER_TEST_DIE_STEP=step)


main()
