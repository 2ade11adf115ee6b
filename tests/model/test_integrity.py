#!/usr/bin/env python3
# parallel
"""Files that are written while they are captured, and whoever dies meanwhile.

A program in a sandbox changes files, forces each change to disk and then says so in a journal. Meanwhile the sandbox
is snapshotted, forked and paused at random moments, and the daemon or its keeper is killed at random steps or moments.
Whatever was captured must be the state after some number of changes: every byte, mode, owner, time, attribute, link and
hole of what the journal says is there, and of the one change that was under way, at most its own file differs.

Sandboxes write to memory, and to a file system that is captured by cloning or by a snapshot, in turn by the seed.

    test_integrity.py [--rounds N] [--seed S]"""

import os
import random
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from daemon import Cut, Daemon  # noqa: E402
from harness import check, equal, main, test, wait_for  # noqa: E402
from volumes import volume  # noqa: E402

FILES = 12
POINTS = ("capture.freeze", "capture.taken", "capture.done", "snapshot.record", "snapshot.told", "pause.record",
          "pause.told", "resume.record", "resume.told", "layers.begin", "layers.taken", "layers.sync", "layers.rename",
          "layers.renamed", "layers.done", "store.commit.before", "store.commit.after", "launcher.send", "launcher.recv")


def option(name, default):
    if name not in sys.argv:
        return default
    at = sys.argv.index(name)
    value = int(sys.argv[at + 1])
    del sys.argv[at:at + 2]
    return value


ROUNDS, SEED = option("--rounds", 6), option("--seed", 1)
TOGETHER = 20  # rounds of one sandbox: all changes that it made are made again for each comparison

# In the sandbox: what a change is, given the seed. The same changes make the same files.
CHANGES = r"""
import hashlib, os, random, sys, time
FILES = %d
def name(i): return f"f{i}"
def changes(seed):
    r = random.Random(seed)
    while True:
        k, other = r.randrange(FILES), r.randrange(FILES)
        what = r.choice(("write", "write", "append", "hole", "mode", "owner", "note", "rename", "link", "remove"))
        yield what, k, other, r.randrange(1, 60000), r.getrandbits(32)
def fill(seed, n):
    return (hashlib.sha256(str(seed).encode()).digest() * (n // 32 + 1))[:n]
def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
def date(path, seed):
    os.utime(path, ns=(seed, seed * 1000003))
def apply(top, change):
    what, k, other, n, seed = change
    path, to = f"{top}/{name(k)}", f"{top}/{name(other)}"
    if what in ("write", "append", "hole") or not os.path.exists(path):
        with open(path, "ab" if what == "append" else "wb") as f:
            if what == "hole": f.seek((n %% 4 + 1) << 20)
            f.write(fill(seed, n))
            f.flush(); date(path, seed); os.fsync(f.fileno())
        return
    date(path, seed)
    if what == "mode": os.chmod(path, 0o600 | seed & 0o177)
    elif what == "owner":
        try: os.chown(path, seed %% 1000, seed %% 1000 + 1)
        except OSError: pass  # of a user who has one identity only
    elif what == "note":
        try: os.setxattr(path, "user.note", fill(seed, n %% 200 + 1))
        except OSError: pass
    elif what == "rename" and k != other: os.rename(path, to)
    elif what == "link" and not os.path.exists(to): os.link(path, to)
    elif what == "remove": os.unlink(path)
    sync(top)
def touches(change): return {name(change[1]), name(change[2])}
def begins_with_hole(path):
    with open(path, "rb") as f:
        try: return os.lseek(f.fileno(), 0, os.SEEK_DATA) > 0
        except OSError: return False  # all of it is one, or it is empty
def look(top):
    found = {}
    for entry in sorted(os.listdir(top)):
        path, st = f"{top}/{entry}", os.lstat(f"{top}/{entry}")
        same = sorted(e for e in os.listdir(top) if os.lstat(f"{top}/{e}").st_ino == st.st_ino)
        found[entry] = [oct(st.st_mode), st.st_size, hashlib.sha256(open(path, "rb").read()).hexdigest(), same,
                        sorted((a, os.getxattr(path, a).hex()) for a in os.listxattr(path)),
                        st.st_uid, st.st_gid, st.st_mtime_ns, begins_with_hole(path)]
    return found
""" % FILES

# Until it is told to stop: a change, then its number in the journal.
WRITE = CHANGES + r"""
seed, top = int(sys.argv[1]), sys.argv[2]
os.makedirs(top + "/files", exist_ok=True)
journal = open(top + "/journal", "ab", buffering=0)
for i, change in enumerate(changes(seed)):
    if os.path.exists(top + "/stop"): break
    time.sleep(0.005)  # all of them are made again to compare
    apply(top + "/files", change)
    journal.write(f"{i + 1}\n".encode()); os.fsync(journal.fileno())
"""

# What is there, beside what must be.
COMPARE = CHANGES + r"""
import shutil
seed, top = int(sys.argv[1]), sys.argv[2]
lines = open(top + "/journal").read().split("\n")[:-1]
n = int(lines[-1]) if lines else 0
assert lines == [str(i + 1) for i in range(n)], "the journal has a gap"
shutil.rmtree("/tmp/again", ignore_errors=True)
os.makedirs("/tmp/again")
stream = changes(seed)
for i in range(n): apply("/tmp/again", next(stream))
was, must = look(top + "/files"), look("/tmp/again")
loose = touches(next(stream))
loose |= {e for l in loose if l in must for e in must[l][3]}  # other names of the same file
for entry in sorted({*was, *must} - loose):
    a, b = was.get(entry), must.get(entry)
    if a and b:
        a[3], b[3] = [e for e in a[3] if e not in loose], [e for e in b[3] if e not in loose]
        if len(a[3]) < 2 or len(b[3]) < 2: a[3] = b[3] = []
    assert a == b, f"after {n} changes {entry} is {a}, not {b}"
print(n)
"""


class World:
    def __init__(self, d, seed):
        self.d, self.seed = d.start(), seed
        self.r = random.Random(seed)
        self.known = {}  # snapshots that were promised: how many changes at least
        self.box = None

    def run(self, box, program, *args):
        answer = self.d.api.run(box, ["python3", "-c", program, str(self.seed), *args], timeout="50s").expect(200).json
        check(answer["exit_code"] == 0, f"seed {self.seed}: {answer['stderr'][-500:]}")
        return answer["stdout"]

    def begin(self):
        self.box = self.d.create()
        self.d.api.post(f"/v1/sandboxes/{self.box}/processes",
                        {"argv": ["python3", "-c", WRITE, str(self.seed), "/root/w"], "background": True}).expect(201)
        wait_for(lambda: self.changes() > 3, "it writes")

    def changes(self):
        answer = self.d.api.run(self.box, ["tail", "-n", "1", "/root/w/journal"])
        return int(answer.json["stdout"] or 0) if answer.status == 200 else 0

    def compare(self, box, least, what):
        n = int(self.run(box, COMPARE, "/root/w"))
        check(n >= least, f"seed {self.seed}: {what} has {n} changes, and {least} were on disk before it was taken")

    def request(self, verb, body=None, dies=None):
        """The answer, or None if somebody died first; then everybody is there again."""
        if dies:
            self.d.stop()
            self.d.start(SANDBOXER_DIE_AT=f"{dies}:{self.r.randint(1, 3)}")
        killer = None
        if not dies and self.r.random() < 0.3:
            killer = threading.Timer(self.r.random() / 20, os.kill, (self.d.process.pid, signal.SIGKILL))
            killer.start()
        answer = None
        try:
            answer = self.d.api.post(f"/v1/sandboxes/{self.box}/{verb}", body)
        except Cut:
            pass
        if killer:
            killer.join()
        if dies or killer:
            try:
                self.d.stop()
            except Exception:  # noqa: BLE001 it died at the end of its life, or before
                self.d.wait()
            self.d.start()
        return answer if answer is not None and answer.status < 300 else None

    def settle(self):
        """It goes on, whatever it was at."""
        state = self.d.get(self.box)["state"]
        check(state in ("ready", "active", "paused"), f"seed {self.seed}: it is {self.d.get(self.box)}")
        if state == "paused":
            self.d.api.post(f"/v1/sandboxes/{self.box}/resume").expect(200)
        before = self.changes()
        wait_for(lambda: self.changes() > before, f"seed {self.seed}: it writes again")

    def round(self):
        dies = self.r.choice(POINTS) if self.r.random() < 0.5 else None
        least = self.changes()
        what = self.r.choice(("snapshot", "snapshot", "fork", "pause"))
        answer = self.request(what, {"count": 1} if what == "fork" else None, dies)
        if answer and what == "snapshot":
            self.known[answer.json["snapshot_id"]] = least
        if answer and what == "fork":
            self.compare(answer.json["sandboxes"][0]["sandbox_id"], least, "a fork")
        if answer and what == "pause":
            equal(self.d.get(self.box)["state"], "paused", "what was told")
            if self.r.random() < 0.5:
                self.request("resume", None, self.r.choice((None, "resume.record", "resume.told")))
        self.settle()
        have = {s["snapshot_id"] for s in self.d.api.get("/v1/snapshots").json["snapshots"]}
        check(set(self.known) <= have, f"seed {self.seed}: {set(self.known) - have} were promised")
        for box in self.d.list():
            if box["sandbox_id"] != self.box:
                self.d.destroy(box["sandbox_id"])
        if self.known and self.r.random() < 0.5:
            self.restore(self.r.choice(sorted(self.known)))

    def restore(self, snapshot):
        other = self.d.create(snapshot=snapshot)
        self.compare(other, self.known[snapshot], snapshot)
        self.d.destroy(other)

    def end(self):
        self.d.api.run(self.box, ["touch", "/root/w/stop"]).expect(200)
        wait_for(lambda: all(p["state"] == "exited" for p in
                             self.d.api.get(f"/v1/sandboxes/{self.box}/processes").json["processes"]), "it stops")
        self.compare(self.box, 0, "the sandbox itself")
        for snapshot in sorted(self.known):
            self.restore(snapshot)
        for s in self.d.api.get("/v1/snapshots").json["snapshots"]:
            self.d.api.delete(f"/v1/snapshots/{s['snapshot_id']}").expect(204)
        with self.d:
            pass
        with self.d:
            storage = self.d.state / "storage"
            wait_for(lambda: not os.listdir(storage / "layers") and not os.listdir(storage / "tmp") and
                     not any(box == self.box for box in os.listdir(storage / "boxes")), "nothing is left")


def rounds(d, seed):
    seed += 1_000_000 if d.c.name == "plain" else 0
    for first in range(0, ROUNDS, TOGETHER):
        world = World(d, seed + first)
        world.begin()
        for _ in range(min(TOGETHER, ROUNDS - first)):
            world.round()
        world.end()


@test(seconds=120 + 10 * ROUNDS)
def what_is_captured_is_a_moment(c):
    rounds(Daemon(c, driver="memory"), SEED)


@test(seconds=120 + 10 * ROUNDS)
def on_disk_too(c):
    kind, driver = (("xfs", "reflink"), ("btrfs", "btrfs"))[(SEED + (c.name == "plain")) % 2]
    with volume(c, kind) as top:
        rounds(Daemon(c, driver=driver, state=top / "state"), SEED)


if __name__ == "__main__":
    main()
