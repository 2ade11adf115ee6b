#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The end of a sandbox's time: told, then ended; not before, and not while somebody uses it."""

import contextlib
import time

from daemon import Daemon, Stream
from harness import check, equal, main, test, wait_for

TTL = """\
id: profile.ttl-{name}
version: 1
ttl: {{default: {default}, max: {most}, idle_reap: {idle}}}
resources: {{cpu: 1, memory_mb: 128, pids: 64, disk_mb: 32}}
"""


@contextlib.contextmanager
def daemon(c, grace=1, config="", **profiles):
    """A daemon with profiles of these (default, max, idle) times."""
    for name, (default, most, idle) in profiles.items():
        c.write(f"daemon/profiles/ttl-{name}.yaml", TTL.format(name=name, default=default, most=most, idle=idle))
    with Daemon(c, grace=grace, config=config) as d:
        yield d


def types(d, box):
    return [e["type"] for e in d.api.get(f"/v1/sandboxes/{box}/events?limit=1000").expect(200).json["events"]]


def gone(d, box):
    """Asked by the list: to ask for a sandbox itself is to use it."""
    return box in {b["sandbox_id"] for b in d.list("?state=destroyed&limit=1000")}


def state(d, box):
    return next(b["state"] for b in d.list("?state=all&limit=1000") if b["sandbox_id"] == box)


@test
def an_expired_sandbox_is_reaped_by_itself(c):
    with daemon(c, short=("1s", "1h", 0)) as d:
        before = time.monotonic()
        box = d.create(profile="profile.ttl-short")
        wait_for(lambda: gone(d, box), "it is reaped")
        check(time.monotonic() - before >= 1, "it was reaped before its time")
        seen = types(d, box)
        equal([t for t in seen if t in ("sandbox.ready", "sandbox.expired", "sandbox.destroyed")],
              ["sandbox.ready", "sandbox.expired", "sandbox.destroyed"], f"events ({seen})")


@test
def one_that_is_to_be_paused_then_is(c):
    with daemon(c, short=("1s", "1h", 0)) as d:
        box = d.create(profile="profile.ttl-short", on_timeout="pause")
        wait_for(lambda: state(d, box) == "paused", "it is paused")
        check("sandbox.expired" not in types(d, box), f"{types(d, box)}")
        d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
        wait_for(lambda: state(d, box) == "paused", "it is paused once more")
        d.api.delete(f"/v1/sandboxes/{box}").expect(200)
        d.api.post("/v1/sandboxes", {"profile": "profile.ttl-short", "on_timeout": "sleep"}).expect(400)


@test
def one_that_cannot_be_kept_is_paused_when_it_can(c):
    full = "images: {free_min: 1024T}"
    with daemon(c, config=full, short=("1s", "1h", 0)) as d:
        box = d.create(profile="profile.ttl-short", on_timeout="pause")
        d.api.run(box, ["sh", "-c", "echo kept >/root/kept"]).expect(200)
        wait_for(lambda: d.log_path.read_text().count("sandbox.pause_waits") > 1, "it is tried again")
        check(state(d, box) in ("ready", "active"), f"it is {state(d, box)}")
        d.stop()
        d.config.write_text(d.config.read_text().replace(full, "images: {free_min: 0}"))
        d.start()
        wait_for(lambda: state(d, box) == "paused", "it is paused")
        d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
        equal(d.api.run(box, ["cat", "/root/kept"]).expect(200).json["stdout"], "kept\n", "what it wrote")


@test
def work_in_flight_is_told_before_it_is_killed(c):
    with daemon(c, grace=2, short=("4s", "1h", 0)) as d:
        box = d.create(profile="profile.ttl-short")
        script = "trap 'echo told' TERM; echo up; while :; do sleep 0.05; done"
        with Stream(d.api, box, ["/bin/sh", "-c", script]) as program:
            heard = ""
            while event := program.next():
                heard += event.get("data", "")
                if event["event"] in ("exited", "error"):
                    break
        check(heard.startswith("up") and "told" in heard, f"it wrote {heard!r}")
        wait_for(lambda: gone(d, box), "it is reaped")
        check("sandbox.expiring" in types(d, box), f"no warning: {types(d, box)}")


@test
def programs_that_end_when_told_have_their_own_end(c):
    with daemon(c, grace=20, short=("4s", "1h", 0)) as d:
        box = d.create(profile="profile.ttl-short")
        with Stream(d.api, box, ["/bin/sh", "-c", "trap 'echo saved; exit 7' TERM; echo up; while :; do sleep 0.05; done"]) as program:
            program.until("stdout")
            equal(program.until("exited")["exit_code"], 7, "its exit status")
        wait_for(lambda: gone(d, box), "it is reaped")


@test
def time_can_be_added_during_grace(c):
    with daemon(c, grace=20, short=("4s", "1h", 0)) as d:
        box = d.create(profile="profile.ttl-short")
        with Stream(d.api, box, ["/bin/sh", "-c", "trap 'echo told' TERM; while :; do sleep 0.05; done"]) as program:
            program.until("stdout")
            answer = d.api.post(f"/v1/sandboxes/{box}/extend-ttl", {"duration": "10m"})
            if answer.status != 200:
                answer.expect(409, code="conflict")  # it is expired: that is the table's last word
                return
            d.works(box)
            equal(d.get(box)["state"], "active", "its state")
        d.destroy(box)


@test
def extending_keeps_it_alive(c):
    with daemon(c, short=("3s", "1h", 0)) as d:
        box = d.create(profile="profile.ttl-short")
        d.api.post(f"/v1/sandboxes/{box}/extend-ttl", {"duration": "30m"}).expect(200)
        other = d.create(profile="profile.ttl-short")
        wait_for(lambda: gone(d, other), "the other one is reaped")
        d.works(box)
        check("sandbox.ttl_extended" in types(d, box), "no event")


@test
def nobody_lives_past_the_most(c):
    with daemon(c, bounded=("3s", "5s", 0)) as d:
        d.api.post("/v1/sandboxes", {"profile": "profile.ttl-bounded", "ttl": "10s"}).expect(400, code="invalid")
        box = d.create(profile="profile.ttl-bounded")
        answer = d.api.post(f"/v1/sandboxes/{box}/extend-ttl", {"duration": "1h"}).expect(200).json
        check(answer["ttl"] <= 5, f"ttl is {answer['ttl']}")
        wait_for(lambda: gone(d, box), "it is reaped all the same")


@test
def time_goes_on_while_the_daemon_is_away(c):
    with daemon(c, short=("1s", "1h", 0)) as d:
        box = d.create(profile="profile.ttl-short")
        d.kill()
        time.sleep(1.2)
        d.start()
        wait_for(lambda: gone(d, box), "it is reaped after the restart")


@test
def an_idle_sandbox_is_reaped(c):
    with daemon(c, idle=("10m", "1h", "2s")) as d:
        box = d.create(profile="profile.ttl-idle")
        wait_for(lambda: gone(d, box), "it is reaped", 40)
        check(any("it was idle" in (e.get("reason") or "") for e in d.api.get(f"/v1/sandboxes/{box}/events").json["events"]), "no reason")


@test
def a_process_that_a_client_started_is_use(c):
    """In the background, or left behind by a program that has ended; also when the daemon was away."""
    with daemon(c, idle=("10m", "1h", "3s")) as d:
        server, leaver = d.create(profile="profile.ttl-idle"), d.create(profile="profile.ttl-idle")
        proc = d.api.post(f"/v1/sandboxes/{server}/processes", {"argv": ["sleep", "1000"], "background": True}).expect(201).json["process"]
        d.api.run(leaver, ["/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $! >/tmp/pid"]).expect(200)
        for life in ("the first", "the second"):
            idle = d.create(profile="profile.ttl-idle")
            wait_for(lambda: gone(d, idle), f"an idle one is reaped in {life} life of the daemon", 40)
            equal([state(d, server), state(d, leaver)], ["active", "ready"], f"in {life} life of the daemon")
            if life == "the first":
                d.stop()
                d.start()
        d.api.post(f"/v1/sandboxes/{server}/processes/{proc}/signal", {"signal": "SIGKILL"}).expect(200)
        d.api.run(leaver, ["/bin/sh", "-c", "kill $(cat /tmp/pid)"]).expect(200)
        wait_for(lambda: gone(d, server) and gone(d, leaver), "both are reaped", 40)


@test
def the_earlier_end_is_shown_and_an_end_is_explained(c):
    with daemon(c, idle=("10m", "1h", "30s"), short=("10m", "1h", "2s"), late=("10s", "1h", "20m")) as d:
        box, late = d.create(profile="profile.ttl-idle"), d.create(profile="profile.ttl-late")
        shown = {b["sandbox_id"]: b for b in d.list()}
        check(shown[box]["expires_at"] < shown[box]["ttl_expires_at"], f"the idle time is earlier: {shown[box]}")
        equal(shown[late]["expires_at"], shown[late]["ttl_expires_at"], "the ttl is earlier")
        before = shown[box]["expires_at"]
        d.works(box)
        check(next(b for b in d.list() if b["sandbox_id"] == box)["expires_at"] > before, "use moves it")
        reaped = d.create(profile="profile.ttl-short")
        wait_for(lambda: gone(d, reaped), "it is reaped", 40)
        refused = d.api.post(f"/v1/sandboxes/{reaped}/processes", {"argv": ["true"]}).expect(409, code="conflict")
        check("was destroyed" in refused.json["detail"] and "it was idle for 2s (idle_reap of its profile)" in refused.json["detail"], refused.json["detail"])
        wait_for(lambda: gone(d, late), "its ttl is over", 40)
        refused = d.api.get(f"/v1/sandboxes/{late}/files?path=/etc/passwd").expect(409, code="conflict")
        check("its ttl of 10s has expired" in refused.json["detail"], refused.json["detail"])
        d.destroy(box)


# A child burns half a second, and nobody waits for it: its time is no process's afterwards.
BURN = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while time.process_time() < 0.5: pass
    os._exit(0)
try: os.wait()
except ChildProcessError: print("burned")
"""


@test(only="root", because="a plain user's sandboxes may have no control group")
def time_that_nobody_waits_for_counts(c):
    """By the control group's counter, of whichever version: idleness is judged by it."""
    with daemon(c) as d:
        box = d.create()
        equal(d.api.run(box, ["python3", "-c", BURN]).expect(200).json["stdout"], "burned\n", "its output")
        used = d.api.get(f"/v1/sandboxes/{box}?usage=true").expect(200).json["usage"]["cpu_seconds"]
        check(0.5 <= used < 60, f"{used} s were used")


@test
def what_is_used_is_not_idle(c):
    with daemon(c, idle=("10m", "1h", "4s")) as d:
        working = d.create(profile="profile.ttl-idle")
        busy = d.api.post(f"/v1/sandboxes/{working}/processes", {"argv": ["/bin/sh", "-c", "while :; do :; done"], "background": True})
        busy.expect(201)
        attached = d.create(profile="profile.ttl-idle")
        with Stream(d.api, attached, ["/bin/sh", "-c", "echo up; exec sleep 1000"]) as program:
            program.until("stdout")
            idle = d.create(profile="profile.ttl-idle")
            wait_for(lambda: gone(d, idle), "the idle one is reaped", 40)
            time.sleep(2)
            equal([state(d, b) for b in (attached, working)], ["active", "active"], "those that are used")
        wait_for(lambda: gone(d, attached), "it is reaped when nobody is attached any more", 40)
        d.destroy(working)


main()
