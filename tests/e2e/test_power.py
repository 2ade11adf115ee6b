#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""What was told as done outlives a power cut: of the store's log, whatever was not forced to disk is lost with it.

The log is traced: how much of it was there when it was forced last. A cut kills everybody and leaves no more than that."""

import contextlib
import os
import re
import signal
import subprocess

from daemon import Daemon
from harness import check, equal, main, processes, test, wait_for
from trees import layers, look, make, run, same, snapshot, supervisor, unfinished

CALL = re.compile(r"(\d+) +(pwrite64|fdatasync|fsync)\(\d+<(.*?)>(.*)")
WRITE = re.compile(r", \"\"\.*, (\d+), (\d+)")


class Power:
    """Of a daemon that is traced from now on, until it is cut."""

    def __init__(self, d, *more):
        self.d, self.log = d, d.dir / "writes"
        self.store = d.state / "daemon/sandboxer.db-wal"
        self.had = os.path.getsize(self.store)
        with open(d.dir / "strace", "w") as complaints:
            self.tracer = subprocess.Popen(["strace", "-f", "-qq", "-y", "-s", "0", "-e", "trace=pwrite64,fdatasync,fsync",
                                            *more, "-o", self.log, "-p", str(d.plane)], stderr=complaints)
        wait_for(lambda: all("TracerPid:\t0\n" not in open(f"/proc/{d.plane}/task/{t}/status").read()
                             for t in os.listdir(f"/proc/{d.plane}/task")), "the tracer is there")

    def seen(self):
        """(bytes of the log that are forced to disk, how often they were)"""
        written, forced, times, waiting = self.had, self.had, 0, {}
        for line in self.log.read_text().splitlines():
            call = CALL.match(line)
            if call and not call[3].endswith("-wal"):
                continue
            if call and call[2] == "pwrite64" and (at := WRITE.match(call[4])):
                written = max(written, int(at[1]) + int(at[2]))
            elif call:
                waiting[call[1]] = written
            pid = line.split()[0]
            if ("sync(" in line or "sync resumed" in line) and line.endswith("= 0") and pid in waiting:
                forced, times = waiting.pop(pid), times + 1
        return forced, times

    def end(self):
        self.tracer.send_signal(signal.SIGINT)
        self.tracer.wait()

    def cut(self):
        """Nobody lives on; then there is a daemon again."""
        d = self.d
        running = [supervisor(d, b["sandbox_id"]) for b in d.list() if b["state"] != "failed"]
        d.kill()
        self.end()
        forced, _ = self.seen()
        check(forced <= os.path.getsize(self.store), "the log is shorter than what was forced")
        os.truncate(self.store, forced)
        for pid in running:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not set(running) & set(processes()), "sandboxes end")
        d.start()


@contextlib.contextmanager
def power(d, *more):
    p = Power(d, *more)
    try:
        yield p
    finally:
        if p.tracer.poll() is None:
            p.end()


def snapshots(d):
    return {s["snapshot_id"]: s for s in d.api.get("/v1/snapshots").expect(200).json["snapshots"]}


def high(d, box, n):
    """A snapshot on so many layers; boxes that were only a step on the way are gone."""
    for i in range(n - 1):
        run(d, box, ["sh", "-c", f"echo {i} >/root/f{i}"])
        snap = snapshot(d, box)["snapshot_id"]
        d.destroy(box)
        box = d.create(snapshot=snap)
        d.api.delete(f"/v1/snapshots/{snap}").expect(204)
    return box


def story(c, driver):
    with Daemon(c, driver=driver) as d:
        box = d.create()
        make(d, box, "/root/all")
        before = look(d, box, "/root")

        with power(d) as p:  # what costs nothing but itself
            other = d.create()
            d.works(other)
            d.destroy(other)
            equal(p.seen()[1], 0, "times that a create, a program and a destroy waited for the disk")
            snap = snapshot(d, box)["snapshot_id"]
            p.cut()
        check(snap in snapshots(d), "the snapshot was told, and is gone")
        box = d.create(snapshot=snap)
        same(before, look(d, box, "/root"), "what was restored")

        with power(d) as p:
            d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
            p.cut()
        d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
        same(before, look(d, box, "/root"), "what was paused")

        d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
        kept = set(layers(d))
        with power(d) as p:  # on what it was paused as nobody stands any more
            d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
            if driver == "memory":
                wait_for(lambda: set(layers(d)) < kept, "the layer of the pause is removed")
            p.cut()
        check(d.get(box)["state"] != "paused", "it was resumed, and is paused again without its files")
        d.destroy(box)

        box = high(d, d.create(snapshot=snap), 9)
        before = look(d, box, "/root")
        with power(d) as p:
            snap = snapshot(d, box)["snapshot_id"]
            d.destroy(box)
            wait_for(lambda: snapshots(d)[snap]["layers"] == 1, "the stack becomes one layer", 600)  # at the lowest priority
            wait_for(lambda: len(layers(d)) == 2, "and the others are removed")
            p.cut()
        box = d.create(snapshot=snap)
        same(before, look(d, box, "/root"), "what was flattened")
        d.destroy(box)

        with power(d) as p:
            for s in snapshots(d):
                d.api.delete(f"/v1/snapshots/{s}").expect(204)
            wait_for(lambda: not layers(d), "what nobody names is removed")
            p.cut()
        equal(snapshots(d), {}, "what was deleted")
        wait_for(lambda: not unfinished(d), "what was half removed goes")


@test(only="root", because="only root traces a daemon")
def what_was_told_is_on_disk(c):
    story(c, "memory")


@test(only="root", because="only root traces a daemon")
def on_disk_too(c):
    story(c, "plain")


@test(only="root", because="only root traces a daemon")
def the_end_of_a_program_does_not_undo_a_pause(c):
    """That nothing runs any more is noted a quarter of a second later; here the pause is on its way to a slow disk then."""
    with Daemon(c) as d:
        box = d.create()
        with power(d, "-e", "inject=fdatasync:delay_enter=500000"):
            d.works(box)
            d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
            d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
        d.kill()
        d.start()
        equal(d.get(box)["state"], "paused", "what was told")
        d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
        d.works(box)


if __name__ == "__main__":
    main()
