#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Files that are written while they are captured, and whoever dies or fails meanwhile.

A program in a sandbox (changes.py) changes files, forces each change to disk and then says so in a journal. Meanwhile the
sandbox is snapshotted, forked, paused and resumed at random moments; the daemon or its keeper is killed at random steps or
moments, or a system call of its keepers and launchers fails with EIO or ENOSPC; and the processes of a paused sandbox are
killed, so that a resume has to make it again. Whatever was told as done must be there, and what was captured must be the
state after some number of changes, and what is on record of it: every byte, mode, owner, time, attribute, link, hole and removal of what the journal says,
and of the one change that was under way, at most its own files differ. What failed succeeds when it is tried again.

Beside that, the disk of the sandbox is full while it is captured, where its driver has a limit, or the disk that the state of the daemon is
on; several requests come at once, of which some are refused; sandboxes made from snapshots are destroyed while they are made, or expire. None
of it takes anything from what was acknowledged.

All of it with every storage driver that the machine can have: N rounds each. A slice runs with every check; `./dev soak` runs many.

    test_integrity.py [--rounds N] [--seed S]"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from daemon import Cut, Daemon  # noqa: E402
from harness import Failure, check, equal, main, processes, reap, test, wait_for  # noqa: E402
from trees import supervisor  # noqa: E402
from volumes import fill, volume  # noqa: E402

CHANGES = (HERE / "changes.py").read_text()
POINTS = ("capture.freeze", "capture.taken", "capture.done", "snapshot.record", "snapshot.told", "pause.record",
          "pause.told", "resume.record", "resume.told", "resume.rebuild", "layers.ahead", "layers.begin", "layers.taken", "layers.sync",
          "layers.rename", "layers.renamed", "layers.done", "flatten.begun", "flatten.record", "flatten.stored",
          "layers.forget", "measure.begin", "measure.record", "measure.stored", "measure.done", "share.record", "share.stored",
          "store.commit.before", "store.commit.after", "launcher.send", "launcher.recv")
# What keepers do, and some of it launchers, too.
FAULTS = tuple(f"{call}:error={error}" for error in ("EIO", "ENOSPC")
               for call in ("syncfs", "fsync", "renameat2", "mkdirat", "mknodat", "pwrite64", "write", "linkat", "symlinkat",
                            "fsetxattr", "ftruncate", "fchown", "ioctl", "unlinkat", "mount,fsconfig,fsmount"))


def option(name, default):
    if name not in sys.argv:
        return default
    at = sys.argv.index(name)
    value = int(sys.argv[at + 1])
    del sys.argv[at:at + 2]
    return value


ROUNDS, SEED = option("--rounds", 3), option("--seed", 1)
WRITERS = 'for p in /proc/[0-9]*/cmdline; do tr "\\0" "\\n" 2>/dev/null <$p | grep -qx "writ[e]" && echo $p; done; true'
WRITES_SECONDS = 60  # it forces all file systems of the machine to disk, which others may be writing to
TOGETHER = 20  # rounds of one sandbox: all changes that it made are made again for each comparison


class World:
    def __init__(self, d, seed, top):
        self.d, self.seed, self.top = d.start(), seed, top
        self.r = random.Random(seed)
        self.known = {}  # snapshots that were promised: how many changes at least
        self.box, self.last = None, "its start"
        self.limited = self.d.api.get("/v1/inspect/host").expect(200).json["storage_limited"]

    def say(self, text):
        return f"seed {self.seed}: {text}"

    def post(self, verb, body=None):
        return self.d.api.post(f"/v1/sandboxes/{self.box}/{verb}", body)

    # --- the program ---

    def argv(self, what):
        return ["python3", "-c", CHANGES, what, str(self.seed), "/root/w"]

    def write(self):
        before = self.changes()
        self.post("processes", {"argv": self.argv("write"), "background": True}).expect(201)
        self.wait_for_more(before + 3)

    def wait_for_more(self, than):
        try:
            wait_for(lambda: self.changes() > than, "it writes", WRITES_SECONDS)
        except Failure as late:
            logs = self.d.api.get(f"/v1/sandboxes/{self.box}/logs?tail=8").data.decode(errors="replace")
            raise Failure(self.say(f"{late} ({self.last}): {self.d.get(self.box)['state']}, {self.changes()} changes, "
                                   f"{than} before\n{logs}")) from None

    def begin(self):
        self.box = self.d.create()
        self.write()

    def changes(self):
        answer = self.d.api.run(self.box, ["sh", "-c", "grep -v again /root/w/journal | tail -n 1"])
        return int(answer.json["stdout"] or 0) if answer.status == 200 else 0

    def compare(self, box, least, what):
        argv = self.argv("compare") + ["exact"] * (self.d.driver == "memory")
        answer = self.d.api.run(box, argv, timeout="50s").expect(200).json
        check(answer["exit_code"] == 0, self.say(f"{what}: {answer['stderr'][-900:]}"))
        n = int(answer["stdout"])
        check(n >= least, self.say(f"{what} has {n} changes, and {least} were on disk before it was taken"))

    # --- what goes wrong ---

    def dies_at(self, point, verb, body):
        """At that step, the first to the third time; a start takes some, too."""
        self.d.stop()
        serves = self.d.spawn(SANDBOXER_DIE_AT=f"{point}:{self.r.randint(1, 3)}")
        return self.survive(verb, body) if serves else None

    def dies_soon(self, verb, body):
        killer = threading.Timer(self.r.random() / 20, os.kill, (self.d.process.pid, signal.SIGKILL))
        killer.start()
        try:
            return self.survive(verb, body)
        finally:
            killer.join()

    def survive(self, verb, body):
        """The answer, or None if somebody died first."""
        with contextlib.suppress(Cut):
            return self.post(verb, body)
        return None

    def restart(self):
        self.d.process.send_signal(signal.SIGTERM)  # if it has not died yet; it may at the end of its life
        self.d.wait()
        if not self.d.spawn():  # on a disk without any room it may say so and end
            self.d.wait()
            check("No space left" in self.d.tail(2), self.say(f"the daemon does not serve\n{self.d.tail()}"))
            (self.top / "filler").unlink(missing_ok=True)
            self.d.start()

    def fails(self, fault, verb, body):
        """Of what the warden starts from now on."""
        pid = self.d.process.pid
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "signal=none", "-e",
                                   f"inject={fault}:when={self.r.randint(1, 4)}", "-p", str(pid)], stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: "TracerPid:\t0" not in open(f"/proc/{pid}/status").read(), "the tracer is there")
            return self.post(verb, body)
        finally:
            tracer.send_signal(signal.SIGINT)
            try:
                tracer.wait(5)
            except subprocess.TimeoutExpired:  # it cannot let go of what stands still
                tracer.kill()
                tracer.wait()

    def request(self, verb, body=None, full=False):
        """What was told as done, or None; then everybody is there again, and it would have succeeded, unless the disk is full."""
        way = self.r.choice(("well", "dies_at", "dies_at", "dies_soon", "fails"))
        detail = self.r.choice(FAULTS if way == "fails" else POINTS)
        self.last = f"{verb} {way} {detail}"
        if way == "well":
            answer = self.post(verb, body)
            check(answer.status < 300 or full, self.say(f"{verb}: {answer}"))
        elif way == "fails":
            answer = self.fails(detail, verb, body)
            check(answer.status < 300 or answer.status >= 400, self.say(f"{answer}"))
            if answer.status >= 300 and not full:
                answer = self.post(verb, body)
                check(answer.status < 300, self.say(f"after {self.last}, tried again: {answer}"))
        else:
            answer = self.dies_at(detail, verb, body) if way == "dies_at" else self.dies_soon(verb, body)
            self.restart()
        return answer if answer is not None and answer.status < 300 else None

    # --- what is asked ---

    def snapshot(self, least):
        if answer := self.request("snapshot"):
            self.known[answer.json["snapshot_id"]] = least

    def full(self, least):
        """Captured while nothing more can be written; the writer may have died of it."""
        if not self.limited or self.r.random() < 0.5:
            return self.full_volume(least)
        self.d.api.run(self.box, ["sh", "-c", "head -c 40000000 /dev/zero >/root/fill; sync /root/fill"])
        answer = self.d.api.run(self.box, ["sh", "-c", "head -c 1000000 /dev/zero >/root/more && sync /root/more"]).expect(200).json
        check(answer["exit_code"] != 0, self.say("its disk has no limit"))
        answer = self.request(self.r.choice(("snapshot", "pause")))
        if answer and "snapshot_id" in answer.json:
            self.known[answer.json["snapshot_id"]] = least
        if self.d.get(self.box)["state"] == "paused":
            if self.r.random() < 0.5:
                self.end_processes()
            self.post("resume").expect(200)
        self.last += ", full"
        self.make_room()
        return None

    def full_volume(self, least):
        """Nothing that is refused is half done, and all of it succeeds when there is room again."""
        verb = self.r.choice(("snapshot", "pause"))
        fill(self.top / "filler", self.r.choice((0, 0, 256 << 10, 4 << 20)))
        try:
            answer = self.request(verb, full=True)
        finally:
            (self.top / "filler").unlink(missing_ok=True)
        self.last += ", full"
        answer = answer or self.post(verb)
        check(answer.status < 300, self.say(f"{verb} ({self.last}, with room again): {answer}"))
        if "snapshot_id" in answer.json:
            self.known[answer.json["snapshot_id"]] = least
        elif self.r.random() < 0.5:
            self.end_processes()

    def make_room(self):
        """Files that a layer has, too, cannot be removed on a full disk: a stop makes a layer of what is there, and room."""
        argv = ["rm", "-f", "/root/fill", "/root/more"]
        answer = self.d.api.run(self.box, argv).expect(200).json
        if answer["exit_code"] == 0:
            return
        check("quota" in answer["stderr"].lower(), self.say(f"rm ({self.last}): {answer}"))
        for verb in ("stop", "resume"):
            answer = self.post(verb)
            check(answer.status == 200, self.say(f"{verb} ({self.last}): {answer}"))
        answer = self.d.api.run(self.box, argv).expect(200).json
        check(answer["exit_code"] == 0, self.say(f"rm ({self.last}, after a stop): {answer}"))

    def conflict(self, least):
        """Requests at once: some are refused, and whatever is told as done is."""
        self.last, answers = "conflict", []
        verbs = [self.r.choice(("snapshot", "snapshot", "pause", "resume")) for _ in range(3)]
        all_at_once = [threading.Thread(target=lambda v=verb: answers.append(self.post(v))) for verb in verbs]
        for thread in all_at_once:
            thread.start()
        for thread in all_at_once:
            thread.join()
        equal(len(answers), 3, self.say(f"answers to {verbs}"))
        for answer in answers:
            check(answer.status < 300 or answer.status == 409 or answer.code in ("busy", "storage_full"), self.say(f"{verbs}: {answer}"))
            if answer.status < 300 and "snapshot_id" in answer.json:
                self.known[answer.json["snapshot_id"]] = least

    def vanish(self, least):
        """Of sandboxes on a snapshot: one is destroyed as soon as it is there, one expires by itself in a while."""
        if not self.known:
            return self.snapshot(least)
        self.last, snapshot = "vanish", self.r.choice(sorted(self.known))
        other = self.d.create(snapshot=snapshot)
        self.d.api.run(other, ["sh", "-c", "rm -rf /root/w; echo >/root/other"]).expect(200)
        taken = self.d.api.post(f"/v1/sandboxes/{other}/snapshot").expect(201).json["snapshot_id"]
        self.d.destroy(other)
        self.d.api.delete(f"/v1/snapshots/{taken}").expect(204)
        self.d.create(snapshot=snapshot, profile="profile.short")
        return None

    def fork(self, least):
        if answer := self.request("fork", {"count": 1}):
            self.compare(answer.json["sandboxes"][0]["sandbox_id"], least, f"a fork ({self.last})")

    def end_processes(self):
        """Of one that is paused, whether or not there is a daemon."""
        first, away = supervisor(self.d, self.box), self.r.random() < 0.5
        if away:
            self.d.kill()
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: first not in processes(), "its processes are gone")
        if away:
            self.d.start()

    def pause(self, least):
        if not self.request("pause"):
            return
        equal(self.d.get(self.box)["state"], "paused", self.say(f"what was told ({self.last})"))
        if self.r.random() < 0.5:
            self.end_processes()
        if self.r.random() < 0.5:  # of one that is paused
            self.snapshot(least)
        if self.r.random() < 0.7:
            self.request("resume")
        self.resume(least)

    def resume(self, least):
        """If it is paused still; with its writer, if that is gone."""
        if self.d.get(self.box)["state"] == "paused":
            answer = self.post("resume")
            check(answer.status == 200, self.say(f"resume ({self.last}): {answer}"))
        if self.is_idle():
            self.compare(self.box, least, f"what was resumed ({self.last})")
            self.write()

    def is_idle(self):
        told = self.d.api.get(f"/v1/sandboxes/{self.box}/processes").expect(200).json["processes"]
        if any(p["state"] != "exited" for p in told):
            return False
        found = self.d.api.run(self.box, ["sh", "-c", WRITERS]).expect(200).json["stdout"]
        check(not found, self.say(f"its writer runs ({self.last}), and is told as ended: {found} {told}"))
        return True

    def settle(self, least):
        """It goes on, whatever it was at."""
        state = self.d.get(self.box)["state"]
        check(state in ("ready", "active", "paused"), self.say(f"after {self.last} it is {self.d.get(self.box)}"))
        self.resume(least)
        before = self.changes()
        if self.last.endswith(", full"):  # a write that began on the full disk may end the writer only now
            wait_for(lambda: self.changes() > before + 3 or self.is_idle(), "it writes, or has died", WRITES_SECONDS)
            self.resume(least)
        self.wait_for_more(before)

    def round(self):
        least = self.changes()
        self.r.choice((self.snapshot, self.fork, self.pause, self.pause, self.full, self.conflict, self.vanish))(least)
        self.settle(least)
        have = {s["snapshot_id"] for s in self.d.api.get("/v1/snapshots").json["snapshots"]}
        check(set(self.known) <= have, self.say(f"{set(self.known) - have} were promised ({self.last})"))
        for box in self.d.list():
            if box["sandbox_id"] != self.box and box["profile"] != "profile.short":
                self.d.destroy(box["sandbox_id"])
        if self.known and self.r.random() < 0.5:
            self.restore(self.r.choice(sorted(self.known)))

    def restore(self, snapshot):
        answer = self.d.api.post(f"/v1/snapshots/{snapshot}/verify")
        check(answer.status == 200, self.say(f"{snapshot} is not what it was ({self.last}): {answer}"))
        other = self.d.create(snapshot=snapshot)
        self.compare(other, self.known[snapshot], f"{snapshot} ({self.last})")
        self.d.destroy(other)

    def resume_often(self, n):
        """What was made again is paused and made again."""
        for i in range(n):
            least = self.changes()
            self.post("pause").expect(200)
            self.end_processes()
            self.post("resume").expect(200)
            if i in (1, n - 1):
                self.compare(self.box, least, f"resume {i + 1}")
        self.write()

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


def daemon(c, driver, **more):
    """One that measures what was captured at once, so that what goes wrong goes wrong with that, too."""
    return Daemon(c, driver=driver, config=f"storage: {{driver: {driver}, measure_after: 0, size: 1G}}\nimages: {{free_min: 0}}", **more)


def rounds(d, seed, resumes, top):
    seed += 1_000_000 if d.c.name == "plain" else 0
    for first in range(0, ROUNDS, TOGETHER):
        world = World(d, seed + first, top)
        world.begin()
        for _ in range(min(TOGETHER, ROUNDS - first)):
            world.round()
        if first == 0:
            world.resume_often(resumes)
        world.end()
        reap()  # the first processes of all these sandboxes are ours by now


# A driver, the file system that it is on, and how large that is: on ext4, btrfs is in a file.
PLACES = (("memory", "ext4", 600), ("plain", "ext4", 600), ("reflink", "xfs", 600), ("btrfs", "btrfs", 600), ("btrfs", "ext4", 2600))

for DRIVER, KIND, SIZE in PLACES:
    def story(c, driver=DRIVER, kind=KIND, size=SIZE):
        with volume(c, kind, megabytes=size, kept=False) as top:
            rounds(daemon(c, driver, state=top / "state"), SEED, 10 if (driver, kind) == ("btrfs", "ext4") else 2, top)
    file = DRIVER == "btrfs" and KIND == "ext4"
    story.__name__ = "btrfs_in_a_file" if file else f"{DRIVER}_on_{KIND}"
    test(seconds=120 + 15 * ROUNDS, only="root" if file else None, because="a plain user has no file system in a file")(story)


if __name__ == "__main__":
    main()
