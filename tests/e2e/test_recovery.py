#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The daemon dies or is replaced: sandboxes live on, programs are told the truth about, half-done things are
finished or undone, and nothing is left."""

import contextlib
import os
import shutil
import signal
import sqlite3
import time
from pathlib import Path

from daemon import Cut, Daemon, Stream
from harness import Failure, Skip, check, descendants, equal, main, processes, test, wait_for


NO_POOL = "pool: {enabled: false}"


def first_process(d, box):
    """The pid of its PID 1, as we see it: the parent of what runs in it."""
    word = str(time.monotonic_ns())
    with Stream(d.api, box, ["/bin/sh", "-c", "echo up; read x", word], stdin=True) as program:
        program.until("stdout")
        for pid, (parent, _) in processes().items():
            with contextlib.suppress(OSError):
                if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return parent
    raise Failure(f"nothing runs in {box}")


def kill_all(d):
    d.kill_launchers()
    d.kill()


WAYS = {
    "the warden is killed": lambda d: d.kill(),
    "the control plane is killed": lambda d: d.kill(d.plane),
    "all of it is killed": kill_all,
    "it is stopped in good order": lambda d: d.stop(),
}


def survive(c, way):
    with Daemon(c) as d:
        boxes = [d.create() for _ in range(3)]
        d.api.run(boxes[0], ["/bin/sh", "-c", "echo kept >/tmp/mark"]).expect(200)
        way(d)
        d.start()
        equal({b["sandbox_id"]: b["state"] in ("ready", "active") for b in d.list()}, dict.fromkeys(boxes, True),
              "the list")
        for box in boxes:
            d.works(box)
        equal(d.api.run(boxes[0], ["cat", "/tmp/mark"]).json["stdout"], "kept\n", "the file")


@test
def sandboxes_outlive_the_warden(c):
    survive(c, WAYS["the warden is killed"])


@test
def sandboxes_outlive_the_control_plane(c):
    survive(c, WAYS["the control plane is killed"])


@test
def sandboxes_outlive_everything_but_themselves(c):
    survive(c, WAYS["all of it is killed"])


@test
def an_upgrade_keeps_sandboxes(c):
    survive(c, WAYS["it is stopped in good order"])


@test
def launchers_that_die_are_replaced(c):
    with Daemon(c) as d:
        box = d.create()
        d.kill_launchers()
        d.works(box)
        other = d.create()
        d.works(other)
        d.kill_launchers()
        d.destroy(box)
        d.destroy(other)


@test
def a_foreground_program_ends_with_the_daemon(c):
    """Nobody hears it any more, so it is ended when the daemon is back; and nobody is told that it succeeded."""
    for way in WAYS.values():
        with Daemon(c) as d:
            box = d.create()
            with Stream(d.api, box, ["/bin/sh", "-c", "echo up; sleep 1000; exit 0"]) as program:
                program.until("stdout")
                way(d)
                try:
                    end = program.until("exited")
                    check(end["exit_code"] is None, f"a program that was cut off was told to have ended: {end}")
                except Cut:
                    pass
            d.start()
            wait_for(lambda: "sleep" not in descendants().values(), "the program ends")
            d.works(box)
        shutil.rmtree(d.dir)


def background(d, box, script):
    return d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["/bin/sh", "-c", script], "background": True}) \
        .expect(201).json["process"]


def process(d, box, number):
    return d.api.get(f"/v1/sandboxes/{box}/processes/{number}").expect(200).json


def output(d, box, number):
    """Everything that is kept of an ended one."""
    events = d.api.get(f"/v1/sandboxes/{box}/processes/{number}/attach").expect(200).lines
    return "".join(e.get("data", "") for e in events if e["event"] == "stdout")


@test
def a_background_program_outlives_the_daemon(c):
    """It runs on, ends meanwhile or afterwards, and its output and status are what they are."""
    for way in WAYS.values():
        with Daemon(c) as d:
            box = d.create()
            runs = background(d, box, "echo before; while ! [ -e /tmp/go ]; do sleep 0.02; done; echo after; exit 7")
            ends = background(d, box, "echo short; while ! [ -e /tmp/end ]; do sleep 0.02; done; exit 8")
            first = process(d, box, runs)["pid"]
            d.api.run(box, ["/bin/sh", "-c", "(sleep 0.3; touch /tmp/end) >/dev/null 2>&1 &"])
            way(d)
            time.sleep(0.5)
            d.start()
            equal((process(d, box, runs)["state"], process(d, box, runs)["pid"]), ("running", first), "it")
            wait_for(lambda: process(d, box, ends)["state"] == "exited", "the other one ended meanwhile")
            equal(process(d, box, ends)["exit_code"], 8, "its status")
            d.api.run(box, ["touch", "/tmp/go"]).expect(200)
            wait_for(lambda: process(d, box, runs)["state"] == "exited", "it ends")
            equal(process(d, box, runs)["exit_code"], 7, "its status")
            equal(output(d, box, runs), "before\nafter\n", "its output")
        shutil.rmtree(d.dir)


@test
def a_client_that_vanishes_takes_its_program_along(c):
    with Daemon(c) as d:
        box = d.create()
        for script in ("echo up; sleep 1000", "trap '' TERM HUP; echo up; (setsid sleep 1000 &); sleep 1000"):
            program = Stream(d.api, box, ["/bin/sh", "-c", script])
            program.until("stdout")
            wait_for(lambda: "sleep" in descendants().values(), "the program runs")
            program.close()
            wait_for(lambda: "sleep" not in descendants().values(), "the program ends")
        d.works(box)


@test
def the_first_process_of_a_sandbox_is_killed(c):
    """That is its end, with a reason, and it can be removed."""
    with Daemon(c) as d:
        box = d.create()
        os.kill(first_process(d, box), signal.SIGKILL)
        wait_for(lambda: d.get(box)["state"] == "failed", "it has failed")
        check(d.get(box)["reason"], "it has failed for no reason")
        d.api.run(box, ["true"]).expect(409, code="conflict")
        d.destroy(box)


@test
def a_sandbox_dies_while_the_daemon_is_away(c):
    with Daemon(c) as d:
        box, other = d.create(), d.create()
        first = first_process(d, box)
        kill_all(d)
        os.kill(first, signal.SIGKILL)
        d.start()
        wait_for(lambda: d.get(box)["state"] == "failed", "it has failed")
        check(d.get(box)["reason"], "it has failed for no reason")
        d.works(other)


@test
def a_create_that_was_cut_is_settled(c):
    """Wherever the daemon died in it: afterwards it is ready, or destroyed with a reason."""
    for point in ("store.commit.before", "store.commit.after", "launcher.send", "launcher.recv"):
        for count in (1, 2):
            d = Daemon(c, f"{point}-{count}", NO_POOL)
            d.start(SANDBOXER_DIE_AT=f"{point}:{count}")
            try:
                d.create(labels={"a": "b"})
            except Cut:
                pass
            equal(d.process.poll() is None or d.wait() == 137, True, "the daemon died as it was told to")
            if d.alive:
                d.kill()
            d.start()
            for box in d.list():
                state = wait_for(lambda: (s := d.get(box["sandbox_id"])["state"]) in ("ready", "destroyed") and s,
                                 f"{point}:{count}: it is settled")
                check(state == "ready" or d.get(box["sandbox_id"])["reason"], "it has failed for no reason")
            d.clear()


@test
def a_destroy_that_was_cut_is_finished(c):
    for point in ("store.commit.before", "store.commit.after", "launcher.send", "launcher.recv"):
        for count in (1, 2):
            d = Daemon(c, f"{point}-{count}", NO_POOL).start()
            box = d.create()
            d.stop()
            asked = d.spawn(SANDBOXER_DIE_AT=f"{point}:{count}")  # the start may have come to the point first
            try:
                if asked:
                    d.destroy(box)
            except Cut:
                d.wait()
            if d.alive:
                d.kill()
            d.start()
            if not asked:
                d.works(box)
            elif point != "store.commit.before" or count > 1:  # else nothing of the request is on disk
                wait_for(lambda: d.get(box)["state"] == "destroyed", f"{point}:{count}: it is finished")
            d.clear()


@test
def time_goes_on_while_the_daemon_is_away(c):
    with Daemon(c) as d:
        box = d.create(ttl="1s")
        d.kill()
        time.sleep(1.2)
        d.start()
        wait_for(lambda: d.get(box)["state"] == "destroyed", "it ends after its time")
        equal(d.get(box)["reason"], "its ttl of 1s has expired", "the reason")


@test
def asking_for_more_time_than_there_is_puts_nothing_off(c):
    """A program that ignores being told to end, and a client that asks again and again."""
    with Daemon(c) as d:
        box = d.create(profile="profile.short")
        with Stream(d.api, box, ["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.1; done"]) as program:
            program.until("stdout")

            def asks_in_vain():
                answer = d.api.post(f"/v1/sandboxes/{box}/extend-ttl", {"duration": "1h"})
                check(answer.status in (200, 409), f"the answer is {answer}")
                return answer.status == 409

            wait_for(asks_in_vain, "its time is over")
        wait_for(lambda: d.get(box)["state"] == "destroyed", "it ends")


@test
def two_daemons_do_not_touch_each_other(c):
    with Daemon(c, "one") as one, Daemon(c, "two") as two:
        mine, theirs = one.create(), two.create()
        for way in WAYS.values():
            way(one)
            two.works(theirs)
            one.start()
            one.works(mine)
        equal([b["sandbox_id"] for b in one.list()], [mine], "one's list")
        equal([b["sandbox_id"] for b in two.list()], [theirs], "two's list")
        one.destroy(mine)
        two.works(theirs)


@test
def a_second_daemon_for_the_same_place_is_refused(c):
    with Daemon(c) as d:
        box = d.create()
        second = Daemon(c)
        equal(second.spawn(), False, "the second one serves")
        equal(second.process.wait(20), 75, "its exit status")
        d.works(box)


@test
def a_damaged_store_is_refused_and_kept(c):
    d = Daemon(c).start()
    d.clear()
    path = d.state / "daemon/sandboxer.db"
    whole = path.read_bytes()
    path.write_bytes(b"this is not a database" * 100)
    equal(d.spawn(), False, "it serves")
    check(d.wait() not in (0, 75), "the exit status says that all is well")
    check("sandboxer.db" in d.tail() or "store" in d.tail(), f"the message names no file: {d.tail()}")
    equal(path.read_bytes()[:22], b"this is not a database", "the file's beginning")
    path.write_bytes(whole)
    with d.start():
        d.works(d.create())


def tags(box):
    """By which its control groups are told from those of other daemons. Groups of others come and go meanwhile."""
    return {part for path, names, _ in os.walk("/sys/fs/cgroup") if box in names
            for part in path.split("/") if part.startswith("sandboxer-")}


@test(only="root", because="a plain user may have no control groups")
def a_daemon_knows_its_control_groups_by_its_state_directory(c):
    with Daemon(c, name="one") as one, Daemon(c, name="two") as two:
        box, other = one.create(), two.create()
        mine, theirs = tags(box), tags(other)
        equal((len(mine), len(theirs), mine & theirs), (1, 1, set()), "tags")
        one.kill()
        one.start()
        again = one.create()
        equal(tags(again), mine, "the tag after a restart")
        one.destroy(box)  # made by an earlier life's launcher
        equal(tags(box), set(), "groups of what was destroyed")


# ---- the disk ---------------------------------------------------------------------------------------


def tracer():
    path = shutil.which("strace")
    if not path:
        raise Skip("strace is not installed")
    return path


class Faults:
    """Makes system calls of the control plane fail for as long as it is entered. Only calls on the store."""

    def __init__(self, c, d, call, error):
        self.c, self.d, self.call, self.error = c, d, call, error

    def __enter__(self):
        log = self.c.dir / "trace"
        paths = [f"-P{self.d.state}/daemon/{name}" for name in ("sandboxer.db", "sandboxer.db-wal")]
        self.process = self.c.start([tracer(), "-f", "-qq", "-o", log, *paths, "-e", f"trace={self.call}", "-e",
                                     "signal=none", "-e", f"inject={self.call}:error={self.error}", "-p",
                                     self.d.plane])
        tasks = f"/proc/{self.d.plane}/task"
        wait_for(lambda: self.process.poll() is not None or all(
            "TracerPid:\t0" not in open(f"{tasks}/{t}/status").read() for t in os.listdir(tasks)), "strace is there")
        if self.process.poll() is not None:
            raise Skip(f"strace cannot attach: {self.process.stderr.read()[-200:]!r}")
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)


def fail_writes(c, call, error):
    with Daemon(c) as d:
        box = d.create()
        with Faults(c, d, call, error):
            answer = d.api.post("/v1/sandboxes", {}).expect(500, 503, 507)
            check(answer.code in ("system", "busy", "storage_full"), f"code is {answer.code}: {answer}")
            equal(d.get(box)["state"] in ("ready", "active"), True, "what is there can be looked at")
        d.works(box)
        d.works(d.create())
        equal(len(d.list()), 2, "sandboxes")
        d.kill()
        d.start()
        d.works(box)


@test(only="root", because="the control plane of a plain user can be traced only by root here")
def a_full_disk_is_an_error_and_then_over(c):
    fail_writes(c, "pwrite64", "ENOSPC")


@test(only="root", because="the control plane of a plain user can be traced only by root here")
def a_broken_disk_is_an_error_and_then_over(c):
    fail_writes(c, "pwrite64", "EIO")


@test(only="root", because="the control plane of a plain user can be traced only by root here")
def a_destroy_on_a_full_disk_can_be_repeated(c):
    with Daemon(c) as d:
        box = d.create()
        with Faults(c, d, "pwrite64", "ENOSPC"):
            d.api.delete(f"/v1/sandboxes/{box}").expect(500, 503, 507)
        d.works(box)
        d.destroy(box)


class Syncs(Faults):
    """Of those that wait for the disk; true when one has failed."""

    def __init__(self, c, d, error):
        super().__init__(c, d, "fsync,fdatasync", error)

    def failed(self):
        return "(INJECTED)" in (self.c.dir / "trace").read_text()


def fail_syncs(c, error):
    """Nothing is on the disk for good, while more is written than the log is let grow to."""
    with Daemon(c) as d:
        box, answers = d.create(), []
        with Syncs(c, d, error) as faults:
            def write_more():
                answers.append(d.api.post("/v1/tokens", {"name": "n" * 60, "verbs": ["read"], "labels": {str(i): "v" * 60 for i in range(8)}}))
                return faults.failed()
            wait_for(write_more, "the log is written back", 120)
            answers += [d.api.post("/v1/tokens", {"name": "last", "verbs": ["read"]}) for _ in range(20)]
            equal(d.get(box)["state"], "ready", "what is there can be looked at")
        announced = {a.json["id"] for a in answers if a.status == 201}
        check(all(a.status == 201 or a.status in (500, 503, 507) and a.code in ("system", "busy", "storage_full") for a in answers), f"answers: {answers[-1]}")

        def kept():
            return {t["id"] for t in d.api.get("/v1/tokens").expect(200).json["tokens"]}
        check(announced and not announced - kept(), "something was announced that is not there")
        d.kill()
        d.start()
        check(not announced - kept(), "something was announced that is not there after a crash")
        d.works(box)
        d.works(d.create())


@test(only="root", because="the control plane of a plain user can be traced only by root here")
def a_disk_that_cannot_sync_loses_nothing_that_was_announced(c):
    fail_syncs(c, "EIO")


@test(only="root", because="the control plane of a plain user can be traced only by root here")
def a_disk_that_finds_out_late_that_it_is_full_loses_nothing_that_was_announced(c):
    fail_syncs(c, "ENOSPC")


@test(only="root", because="the control plane of a plain user can be traced only by root here")
def a_store_that_cannot_be_synced_is_not_begun(c):
    d = Daemon(c)
    check(not d.spawn(prefix=(tracer(), "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO")),
          "it serves although nothing reaches the disk")
    d.wait()
    check("Input/output error" in d.tail() or "disk" in d.tail(), f"what it says: {d.tail()}")
    with d:
        d.works(d.create())


@test
def the_store_is_the_daemons_alone(c):
    """Nobody else can lock it; nothing of it is mapped, which a full disk could make a SIGBUS; and who has it open is waited for by nobody."""
    with Daemon(c) as d:
        box, path = d.create(), d.state / "daemon/sandboxer.db"
        for statement in ("SELECT count(*) FROM sandboxes", "BEGIN IMMEDIATE"):
            with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
                try:
                    other.execute(statement)
                except sqlite3.OperationalError as e:
                    check("locked" in str(e), f"{statement}: {e}")
                else:
                    raise Failure(f"another program can do '{statement}'")
        mapped = [line for line in open(f"/proc/{d.plane}/maps", encoding="utf-8") if "sandboxer.db" in line]
        equal((mapped, path.with_name("sandboxer.db-shm").exists()), ([], False), "what is mapped, and whether there is a file for it")
        d.works(box)
        d.kill()
        path.with_name("sandboxer.db-shm").write_bytes(b"of an older version")
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("SELECT count(*) FROM sandboxes").fetchall()
            check(not d.spawn(), "it serves although another program has the store open")
            check(d.wait() != 0 and "another program has sandboxer.db open" in d.tail(3), f"what it says: {d.tail(3)}")
        path.with_name("sandboxer.db-shm").write_bytes(b"of an older version")
        d.start()
        check(not path.with_name("sandboxer.db-shm").exists(), "the index of an older version is still there")
        d.works(box)
        d.works(d.create())


@test
def what_is_stale_is_reaped_once(c):
    """A sweep that is asked for while one is under way takes up only what is new."""
    with Daemon(c, config=NO_POOL) as d:
        box, run = d.create(), d.state / "daemon/run"
        owner, swept = run.stat(), lambda: d.log_path.read_text().count("sandbox.swept")
        stale = [f"{box[:-2]}{a}{b}" for a in "abcdef" for b in "0123456789" if f"{a}{b}" != box[-2:]]
        for name in stale:
            (run / name).mkdir(mode=0o700)
            os.chown(run / name, owner.st_uid, owner.st_gid)
        equal({s["id"] for s in d.api.get("/v1/inspect/stale").expect(200).json["stale"]}, set(stale), "what is stale")
        first, second = (d.api.post("/v1/reap-stale", {"apply": True}).expect(200).json["stale"] for _ in range(2))
        equal({s["id"] for s in first}, set(stale), "what the first sweep took up")
        equal(second, [], "what the second one took up")
        wait_for(lambda: not d.api.get("/v1/inspect/stale").expect(200).json["stale"], "everything is gone")
        wait_for(lambda: swept() >= len(stale), "what was removed is in the log")
        equal(swept(), len(stale), "how many were removed")
        d.works(box)


@test
def nothing_is_swept_where_a_record_cannot_be_read(c):
    with Daemon(c, config=NO_POOL) as d:
        box, other = d.create(), d.create()

        def rewrite(text):
            d.stop()
            with contextlib.closing(sqlite3.connect(d.state / "daemon/sandboxer.db")) as store, store:
                store.execute("UPDATE sandboxes SET request = ? WHERE id = ?", (text, box))
            d.start()

        d.stop()
        with contextlib.closing(sqlite3.connect(d.state / "daemon/sandboxer.db")) as store:
            request = store.execute("SELECT request FROM sandboxes WHERE id = ?", (box,)).fetchone()[0]
        d.start()
        rewrite("damaged")
        for apply in (False, True):
            d.api.post("/v1/reap-stale", {"apply": apply}).expect(409, code="conflict")
        d.works(other)
        rewrite(request)
        d.works(box)
        equal(d.api.post("/v1/reap-stale", {"apply": True}).expect(200).json["stale"], [], "what is stale")


main()
