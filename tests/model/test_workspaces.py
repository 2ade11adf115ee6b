#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Random stories of workspaces: whatever happens, no change that was acknowledged is lost.

Some sandboxes with a workspace each live under one daemon. Both sides of the workspaces are written to; they are synced,
paused, stopped, resumed, captured, destroyed, and expire; the daemon is killed at random steps, the disk of its state
directory is filled to the last bytes and freed again. Where the files of sandboxes are on disk, their first processes are
killed, too, and the machine is restarted. At its end, the last content of each file that a sandbox was told to have
written is on the host or in the snapshot that is kept, and what the host has written was never touched.

All of it with every storage driver that the machine can have: N stories each. A slice runs with every check; `./dev soak`
runs many.

    test_workspaces.py [--stories N] [--seed S]"""

import contextlib
import os
import random
import signal
import sqlite3
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from daemon import Cut  # noqa: E402
from harness import Failure, check, equal, main, processes, reap, test, wait_for  # noqa: E402
from trees import supervisor  # noqa: E402
from volumes import fill, volume  # noqa: E402
from workspaces import ROOM, SALVAGE_POINTS, daemon_for, workspace  # noqa: E402

POINTS = (*SALVAGE_POINTS, "store.commit.before", "store.commit.after", "resume.record", "resume.told", "resume.rebuild",
          "rescue.record", "layers.renamed", "layers.done")
FILES = ("a.txt", "b.txt", "dir/c.txt")
# A name is replaced as a whole, or not at all: a disk that is full does not leave half of it.
WRITE = 'printf %s "$1" >/root/new && mv -f /root/new "/workspace/$2"'
READ = 'for name; do cat "/workspace/$name"; printf "\\0"; done'
TOGETHER = 8  # stories under one daemon
PATIENCE_SECONDS = 15
WORDS = ("write_inside",) * 8 + ("write_outside",) * 4 + ("sync", "pause", "resume", "stop", "snapshot", "destroy") * 2 + ("kill", "fill", "free")
ON_DISK = ("die", "restart")


def option(name, default):
    if name not in sys.argv:
        return default
    at = sys.argv.index(name)
    value = int(sys.argv[at + 1])
    del sys.argv[at:at + 2]
    return value


STORIES, SEED = option("--stories", 4), option("--seed", 1)


def brief(texts):
    return sorted(str(text)[:20] for text in texts)


class World:
    """A daemon, the volume with its state, and what happened."""

    def __init__(self, d, top, chance):
        self.d, self.top, self.chance, self.log = d, top, chance, []
        self.words = WORDS + (ON_DISK if d.driver != "memory" else ())

    def request(self, method, path, body=None):
        """The answer; None if the daemon died of it. A btrfs writes nothing in place: when the file that fills it has taken
        what the store's reserve gave, too, an end waits for room."""
        room = threading.Timer(PATIENCE_SECONDS, self.free)
        if self.d.driver == "btrfs":
            room.start()
        try:
            answer = self.d.api.request(method, path, body, {"Accept": "application/json"})
        except (Cut, OSError):
            self.log.append(f"{method} {path}: killed")
            self.d.wait()
            self.start()
            return None
        finally:
            room.cancel()
        self.log.append(f"{method} {path}: {answer.status}")
        return answer

    def start(self):
        """On a disk without any room it may say so and end; whatever it has is there when there is room again."""
        if not self.d.spawn():
            self.d.wait()
            check("No space left" in self.d.tail(2), f"the daemon does not serve\n{self.d.tail()}")
            self.free()
            self.d.start()

    def kill(self, point=None):
        self.d.kill()
        if point and not self.d.spawn(SANDBOXER_DIE_AT=point):
            self.d.wait()
            point = None
        if not self.d.alive:
            self.start()
        self.log.append(f"killed, and started again to die at {point}")

    def fill(self):
        left = self.chance.choice((0, 0, 64 << 10, 1 << 20, 4 << 20))
        fill(self.top / "filler", left)
        self.log.append(f"filled: {left} bytes are left")

    def free(self):
        (self.top / "filler").unlink(missing_ok=True)
        self.log.append("freed")

    def end_processes(self, *boxes):
        """Of sandboxes, as far as they have any."""
        ended = set()
        for box in boxes:
            with contextlib.suppress(OSError):
                ended.add(supervisor(self.d, box))
        for pid in ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not ended & set(processes()), "they end")

    def restart(self):
        """The machine: nothing runs, and it is another boot. The test writes to the store, too, which needs room."""
        self.free()
        self.d.kill()
        self.end_processes(*self.d.leftovers())
        with contextlib.closing(sqlite3.connect(self.d.state / "daemon/sandboxer.db")) as store, store:
            store.execute("UPDATE sandboxes SET boot = 'another'")
        self.d.start()
        self.log.append("the machine is restarted")


class Story:
    """One sandbox with a workspace, and what both sides have written."""

    def __init__(self, c, world, number):
        self.world, self.chance = world, world.chance
        self.host = workspace(c, f"work/story{number}")
        self.inside, self.outside, self.expires = {}, {}, self.chance.random() < 0.3
        self.box = world.d.create(profile="profile.work", inputs={"repo": str(self.host)},
                                  **({"ttl": self.chance.choice(("1s", "2s", "4s"))} if self.expires else {}))

    def ask(self, verb, body=None, method="POST"):
        return self.world.request(method, f"/v1/sandboxes/{self.box}{verb}", body)

    def write_inside(self, n):
        name, text = self.chance.choice(FILES), f"inside {n}\n" + "x" * self.chance.choice((0, 100, 20000))
        answer = self.ask("/processes", {"argv": ["sh", "-c", WRITE, "-", text, name]})
        if answer and answer.status == 200 and answer.json["exit_code"] == 0:
            self.inside[name] = {text}
        else:  # it may have been written
            self.inside.setdefault(name, {None}).add(text)

    def write_outside(self, n):
        name = self.chance.choice(FILES)
        if (self.host / name).read_text() in self.inside.get(name, ()):
            self.inside[name].add(None)  # it came to the host, whose own it is from now on
        (self.host / name).write_text(f"outside {n}\n")
        self.outside[name] = f"outside {n}\n"
        self.world.log.append(f"{self.box}: outside {name} {n}")

    def step(self, word, n):
        if word in ("write_inside", "write_outside"):
            getattr(self, word)(n)
        elif word == "destroy":
            self.ask(self.chance.choice(("", "?unsynced=refuse")), method="DELETE")
        elif word == "die":
            self.world.end_processes(self.box)
            self.world.log.append(f"{self.box}: its first process is killed")
        else:
            self.ask(f"/{word}", {} if word in ("sync", "snapshot") else None)

    def end(self):
        """By its time, if it has one and is not paused; else by a request."""
        if self.expires and self.chance.random() < 0.5:
            wait_for(lambda: (r := self.world.d.get(self.box))["state"] in ("destroyed", "paused") or r.get("unsynced"), f"{self.box} ends, or is held")
        wait_for(lambda: (answer := self.ask("", method="DELETE")) and answer.status == 200, f"{self.box} is destroyed", 60)
        return self.world.d.get(self.box)

    def check(self):
        d, record = self.world.d, self.end()
        kept, there = record.get("kept", {}).get("snapshot_id"), {}
        if kept:
            box = d.create(snapshot=kept)
            answer = d.api.run(box, ["sh", "-c", READ, "-", *FILES]).expect(200).json
            equal(answer["exit_code"], 0, f"reading {kept}: {answer['stderr']}; the exit code")
            there = dict(zip(FILES, answer["stdout"].split("\0")))
            d.destroy(box)
            d.api.delete(f"/v1/snapshots/{kept}").expect(204)
        for name in FILES:
            here, wanted = (self.host / name).read_text(), self.inside.get(name, {None})
            if name in self.outside:
                equal(here, self.outside[name], f"{self.box}: what the host wrote to {name}")
            check(None in wanted or wanted & {here, there.get(name)},
                  f"{self.box}: {name} is lost: {brief(wanted)} was written, {brief({here})} is here, {brief({there.get(name)})} is kept: {record}")


def tell(c, world, first, count):
    stories = [Story(c, world, first + i) for i in range(count)]
    for n in range(count * world.chance.randrange(6, 12)):
        word = world.chance.choice(world.words)
        if word == "kill":
            world.kill(f"{world.chance.choice(POINTS)}:{world.chance.randrange(1, 4)}")
        elif word in ("fill", "free", "restart"):
            getattr(world, word)()
        else:
            world.chance.choice(stories).step(word, n)
    world.free()
    world.kill()
    for story in stories:
        story.check()
    for s in world.d.api.get("/v1/snapshots").json["snapshots"]:
        world.d.api.delete(f"/v1/snapshots/{s['snapshot_id']}").expect(204)


def tell_all(c, d, top):
    (d.dir / "profiles/profile.pooled.yaml").unlink()  # every start of the daemon would prepare sandboxes
    with d:
        for first in range(0, STORIES, TOGETHER):
            world = World(d, top, random.Random(f"{SEED}-{c.name}-{first}"))
            try:
                tell(c, world, first, min(TOGETHER, STORIES - first))
            except (Failure, Cut) as e:
                raise Failure(f"--seed {SEED}, stories from {first} on: {e}\n" + "\n".join((*world.log, d.tail(60)))) from None
            reap()  # the first processes of these sandboxes are ours by now


# A driver, the file system that the state is on, and how large that is: on ext4, btrfs is in a file.
PLACES = (("memory", "ext4", 96), ("plain", "ext4", 96), ("reflink", "xfs", 0), ("btrfs", "btrfs", 512), ("btrfs", "ext4", 1400))

for DRIVER, KIND, SIZE in PLACES:
    def stories(c, driver=DRIVER, kind=KIND, size=SIZE):
        with volume(c, kind, megabytes=size, kept=False) as top:
            tell_all(c, daemon_for(c, ROOM, driver=driver, state=top / "state"), top)
    file = DRIVER == "btrfs" and KIND == "ext4"
    stories.__name__ = "no_story_loses_a_change_with_" + (f"{DRIVER}_in_a_file" if file else DRIVER)
    test(seconds=120 + 10 * STORIES, only="root" if file else None, because="a plain user has no file system in a file")(stories)


if __name__ == "__main__":
    main()
