#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Snapshots, forks and pauses: every byte and attribute comes back, whoever is killed meanwhile."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import threading
import time

import images
from client import Client
from daemon import PROFILE, PROFILES, Cut, Daemon
from harness import check, equal, main, processes, test, wait_for
from trees import layers, look, make, run, same, snapshot, supervisor, unfinished

# What no two machines may have in common.
UNIQUE = r"""
import ctypes, json, os, socket
libc = ctypes.CDLL(None)
libc.getauxval.restype = ctypes.c_ulong
print(json.dumps({
    "machine-id": open("/etc/machine-id").read().strip(), "hostname": socket.gethostname(),
    "urandom": os.urandom(16).hex(), "kernel's uuid": open("/proc/sys/kernel/random/uuid").read(),
    "seed of a process": ctypes.string_at(libc.getauxval(25), 16).hex()}))
"""


@test
def everything_comes_back(c):
    with Daemon(c) as d:
        box = d.create(labels={"team": "web"})
        for top in ("/root/all", "/tmp/all", "/srv/all"):
            make(d, box, top)
        run(d, box, ["sh", "-c", "echo kept >/etc/mine; echo 'x:x:77:77::/:/bin/sh' >>/etc/passwd; rmdir /mnt; "
                     "echo not >/run/gone; echo not >/dev/shm/gone"])
        before = look(d, box, "/root", "/tmp", "/srv", "/home", "/etc/mine", "/etc/passwd", "/opt")
        snap = snapshot(d, box, name="first")
        equal((snap["sandbox_id"], snap["name"], snap["layers"], snap["labels"]), (box, "first", 1, {"team": "web"}),
              "the snapshot")
        check(snap["bytes"] > 3 * 6000 and snap["entries"] > 30 and snap["pause_ms"] > 0, f"{snap}")
        run(d, box, ["rm", "-rf", "/root/all/deep", "/etc/mine"])
        for name in (snap["snapshot_id"], "first"):
            other = d.api.post("/v1/sandboxes", {"snapshot": name}).expect(201).json
            equal(other["snapshot_id"], snap["snapshot_id"], "where it is from")
            other = other["sandbox_id"]
            same(before, look(d, other, "/root", "/tmp", "/srv", "/home", "/etc/mine", "/etc/passwd", "/opt"),
                 "what was restored")
            equal(run(d, other, ["sh", "-c", "ls /run/gone /dev/shm/gone /mnt 2>/dev/null; echo -n"]), "", "what was not")
        # Another one on top of it: changed, added and removed.
        run(d, other, ["sh", "-c", "echo more >/root/more; rm /tmp/all/plain; chmod u+w /srv/all/closed; rm -r /srv/all; mkdir /srv/all; "
                       "echo new >/srv/all/new; chmod 700 /root/all/sticky"])
        before = look(d, other, "/root", "/tmp", "/srv")
        second = snapshot(d, other)
        equal(second["layers"], 2, "layers")
        third = d.create(snapshot=second["snapshot_id"])
        same(before, look(d, third, "/root", "/tmp", "/srv"), "the second layer")
        # They are gone when nothing stands on them.
        equal(len(layers(d)), 2, "layers")
        equal([s["snapshot_id"] for s in d.api.get("/v1/snapshots").json["snapshots"]],
              [second["snapshot_id"], snap["snapshot_id"]], "the list")
        for s in (snap, second):
            d.api.delete(f"/v1/snapshots/{s['snapshot_id']}").expect(204)
            d.api.get(f"/v1/snapshots/{s['snapshot_id']}").expect(404)
        same(before, look(d, third, "/root", "/tmp", "/srv"), "without its snapshot")
        for b in d.list():
            d.destroy(b["sandbox_id"])
        wait_for(lambda: layers(d) == [] and unfinished(d) == [], "the layers are gone")


@test(only="root", because="to a plain user the host's system directories belong to nobody")
def systems_that_take_writes_come_back(c):
    d = Daemon(c)
    c.write("daemon/profiles/writable.yaml",
            PROFILE.format(id="profile.writable", **PROFILES["profile.sandbox-canary"]) + "writable_system: true\n")
    change = "echo new >/usr/local/new; rm /usr/bin/yes; echo kept >/root/kept; chmod 700 /usr/bin/env"
    see = "cat /usr/local/new /root/kept; ls /usr/bin/yes 2>&1 | grep -c 'No such'; stat -c %a /usr/bin/env; test -x /usr/bin/id"
    with d:
        box = d.create(profile="profile.writable")
        run(d, box, ["sh", "-c", change])
        saw = run(d, box, ["sh", "-c", see])
        equal(saw, "new\nkept\n1\n700\n", "what it sees")
        second = d.create(snapshot=snapshot(d, box)["snapshot_id"])
        equal(run(d, second, ["sh", "-c", see]), saw, "restored")
        run(d, second, ["sh", "-c", "echo newer >/usr/local/new; rm -r /usr/share/doc; mkdir /usr/share/doc"])
        third = d.create(snapshot=snapshot(d, second)["snapshot_id"])
        equal(run(d, third, ["sh", "-c", see]), saw.replace("new\n", "newer\n"), "restored again")
        equal(run(d, third, ["ls", "-A", "/usr/share/doc"]), "", "an opaque directory")
        # So many that they become one layer: what the host has stays hidden, and nothing else shows.
        for i in range(10):
            run(d, third, ["sh", "-c", f"rm -f /usr/local/made{i - 1}/x; mkdir /usr/local/made{i}; echo {i} >/usr/local/made{i}/x"])
            snap = snapshot(d, third)
            d.destroy(third)
            third = d.create(snapshot=snap["snapshot_id"])
        wait_for(lambda: d.api.get(f"/v1/snapshots/{snap['snapshot_id']}").json["layers"] < 5, "most are one layer")
        d.destroy(third)
        third = d.create(snapshot=snap["snapshot_id"])
        equal(run(d, third, ["sh", "-c", see]), saw.replace("new\n", "newer\n"), "restored from one")
        equal(run(d, third, ["sh", "-c", "ls -A /usr/share/doc; ls /usr/local/made*/*"]), "/usr/local/made9/x\n", "what is shown")


@test(only="plain", because="root's daemon shows no directory of the host as an image")
def images_come_back(c):
    d = Daemon(c)
    c.write("daemon/profiles/image.yaml", PROFILE.format(id="profile.image", **PROFILES["profile.sandbox-canary"]) +
            f"image: {images.directory(c)}\n")
    change = "echo new >/etc/new; echo other >/etc/marker; echo t >/tmp/t"
    with d:
        box = d.create(profile="profile.image")
        run(d, box, ["/bin/sh", "-c", change])
        snap = snapshot(d, box)
        other = d.create(snapshot=snap["snapshot_id"])
        equal(run(d, other, ["/bin/cat", "/etc/new", "/etc/marker", "/tmp/t"]), "new\nother\nt\n", "restored")
        equal(d.get(other)["profile"], "profile.image", "its profile")
        d.api.post("/v1/sandboxes", {"snapshot": snap["snapshot_id"], "profile": "profile.sandbox-canary"}).expect(409)
        d.api.post("/v1/sandboxes", {"snapshot": "snap_none"}).expect(404)


@test
def a_diff_names_what_has_changed(c):
    def changes(box, query=""):
        answer = d.api.get(f"/v1/sandboxes/{box}/diff{query}").expect(200).json["changes"]
        return sorted((x["change"], x.get("kind", "-"), x["path"]) for x in answer)

    with Daemon(c) as d:
        box = d.create()
        equal(changes(box), [], "a new one")
        run(d, box, ["sh", "-c", "mkdir /root/d; echo a >/root/d/a; ln -s a /root/d/l; echo b >/tmp/b; echo c >/etc/c; "
                     "echo not >/run/not"])
        first = [("added", "dir", "root/d"), ("added", "file", "etc/c"), ("added", "file", "root/d/a"),
                 ("added", "file", "tmp/b"), ("added", "link", "root/d/l")]
        equal(changes(box), first, "what it wrote")
        other = d.create(snapshot=snapshot(d, box)["snapshot_id"])
        equal(changes(other), [], "one that begins with it")
        run(d, other, ["sh", "-c", "echo more >>/root/d/a; rm /tmp/b /root/d/l; echo n >/root/n; touch '/tmp/a\nb'"])
        equal(changes(other), [("added", "file", "root/n"), ("added", "file", "tmp/a\nb"), ("changed", "file", "root/d/a"),
                               ("deleted", "-", "root/d/l"), ("deleted", "-", "tmp/b")],
              "what this one did")
        for box, way in ((box, "pause"), (other, "stop")):
            saw = changes(box)
            d.api.post(f"/v1/sandboxes/{box}/{way}").expect(200)
            equal(changes(box), saw, f"after a {way}")
            snap = snapshot(d, box)["snapshot_id"]
            equal((changes(box), changes(box, f"?snapshot={snap}")), (saw, []), "when it was taken as well")
            d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)


@test
def a_diff_against_a_snapshot(c):
    def changes(box, snap):
        answer = d.api.get(f"/v1/sandboxes/{box}/diff?snapshot={snap}").expect(200).json["changes"]
        return sorted((x["change"], x.get("kind", "-"), x["path"]) for x in answer)

    with Daemon(c) as d:
        box = d.create()
        run(d, box, ["sh", "-c", "mkdir -p /root/d/e; echo a >/root/d/a; echo same >/root/d/same; echo x >/root/d/e/x; "
                     "ln -s a /root/d/l; echo b >/tmp/b; echo same >/tmp/touched"])
        snap = snapshot(d, box, name="then")["snapshot_id"]
        equal(changes(box, "then"), [], "nothing yet")
        run(d, box, ["sh", "-c", "echo A >/root/d/a; chmod 600 /root/d/same; rm -r /root/d/e; mkdir /root/d/e; echo y >/root/d/e/y; "
                     "ln -sf b /root/d/l; rm /tmp/b; touch /tmp/touched; mkdir /srv/n; echo n >/srv/n/n"])
        own = [("added", "dir", "srv/n"), ("added", "file", "root/d/e/y"), ("added", "file", "srv/n/n"),
               ("changed", "file", "root/d/a"), ("changed", "file", "root/d/same"), ("changed", "link", "root/d/l"),
               ("deleted", "-", "root/d/e/x"), ("deleted", "-", "tmp/b")]
        equal(changes(box, snap), own, "against one of its own")
        second = snapshot(d, box)["snapshot_id"]
        other = d.create(snapshot=second)
        equal(changes(other, second), [], "against what it was made from")
        equal(changes(other, snap), own, "against an older one")
        run(d, other, ["sh", "-c", "rm -r /root/d; echo back >/tmp/b"])
        equal(changes(other, second), [("added", "file", "tmp/b"), ("deleted", "-", "root/d")], "against its own")
        # The other way round: a sandbox of the older one, against the newer.
        older = d.create(snapshot=snap)
        run(d, older, ["sh", "-c", "rm -r /root/d/e"])
        equal(changes(older, second), [("added", "file", "tmp/b"), ("changed", "file", "root/d/a"),
                                       ("changed", "file", "root/d/same"), ("changed", "link", "root/d/l"),
                                       ("deleted", "-", "root/d/e"), ("deleted", "-", "srv/n")], "against a newer one")
        d.api.get(f"/v1/sandboxes/{box}/diff?snapshot=none").expect(404, code="not_found")
        text = Client(d)("diff", box, snap).expect(0).text
        check("deleted" in text and "root/d/e/x" in text, text)


@test
def clones_differ(c):
    with Daemon(c) as d:
        box = d.create()
        run(d, box, ["sh", "-c", "echo data >/root/data"])
        made = d.api.post(f"/v1/sandboxes/{box}/fork", {"count": 3}).expect(201).json
        boxes = [b["sandbox_id"] for b in made["sandboxes"]]
        equal(len(set(boxes)), 3, "forks")
        snap = snapshot(d, box)["snapshot_id"]
        boxes.append(d.create(snapshot=snap))
        d.api.delete(f"/v1/snapshots/{snap}").expect(204)
        own = []
        for b in [box, *boxes]:
            equal(run(d, b, ["cat", "/root/data"]), "data\n", "what was copied")
            run(d, b, ["sh", "-c", f"echo {b} >/root/own"])
            own.append(json.loads(run(d, b, ["python3", "-c", UNIQUE])))
        for what in own[0]:
            equal(len({x[what] for x in own}), 5, f"{what}: how many are different")
        for b in boxes:  # of the source, nothing but its files
            traces = f"grep -rl -e {box} -e {own[0]['machine-id']} -e {own[0]['hostname']} /etc /run /dev/shm /proc/self/environ 2>/dev/null"
            equal(run(d, b, ["sh", "-c", traces + "; true"]), "", "traces of its source")
        for b in [box, *boxes]:
            equal(run(d, b, ["cat", "/root/own"]), b + "\n", "what is its own")
        for b in [box, *boxes]:
            d.destroy(b)
        wait_for(lambda: layers(d) == [], "what they stood on is gone")


@test
def what_a_sandbox_was_given_stays_its_own(c):
    """Variables are how credentials are given: they are in no copy, unless somebody says so."""
    secret = "tok-5f3a9b27c1"

    def knows(box):
        out = run(d, box, ["sh", "-c", "env; cat /proc/self/environ; grep -rl tok-5f3 /etc /root /home /tmp /var /run 2>/dev/null; true"])
        return secret in out or secret in json.dumps(d.get(box))

    with Daemon(c) as d:
        cli = Client(d)
        box = d.create(env={"API_KEY": secret})
        check(knows(box), "the one that it was given to has it")
        snap = cli("snapshot", box, "-q", "--name", "one").expect(0).text
        for copy in (*cli.lines("fork", box, "-n", "2", "-q"), cli("restore", snap, "-q").expect(0).text):
            check(not knows(copy), "a copy has it")
            again = d.api.post(f"/v1/sandboxes/{copy}/fork", {"count": 1}).expect(201).json["sandboxes"][0]["sandbox_id"]
            check(not knows(again), "a copy of a copy has it")
        path = c.dir / "one.snapshot"
        cli("snapshots", "export", snap, path).expect(0)
        plain = subprocess.run(["zstd", "-dcq", path], capture_output=True, check=True).stdout
        check(len(plain) > 1000 and secret.encode() not in plain, "a file that is moved has it")
        check(knows(cli("fork", box, "--keep-env", "-q").expect(0).text), "one that was to have it")
        d.api.post(f"/v1/sandboxes/{box}/fork", {"count": 1, "keep_env": "yes"}).expect(400, code="invalid")


@test
def a_fork_is_whole_or_not_there(c):
    """Whoever is told of an error is not told of sandboxes: so there are none."""
    limits = "limits: {sandboxes_max: 6}\npool: {total_max: 6}"
    with Daemon(c, config=limits) as d:
        cli = Client(d)
        boxes = {d.create() for _ in range(4)}
        box = min(boxes)
        seen = d.api.get("/v1/events?limit=1000").json["events"][-1]["seq"]
        said = cli("fork", box, "-n", "5").expect(6).notes
        check("2 of 5 were created, and were destroyed again" in said and "sandboxes" in said, said)
        equal({b["sandbox_id"] for b in d.list()}, boxes, "what there is, at once")
        ends = [e for e in d.api.get(f"/v1/events?after={seen}&limit=1000").json["events"] if e.get("to") == "destroyed"]
        equal(len(ends), 2, "on record")
        # There is still room for as many as there was, and where none was made nothing is said of any.
        said = cli("fork", box, "-n", "2").expect(0).text
        check("the sandbox stood still for" in said, said)
        check("were created" not in cli("fork", box).expect(6).notes, "where none was made")
        wait_for(lambda: unfinished(d) == [], "nothing is unfinished")


@test
def the_command_line_does_all_of_it(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli.sh(box, "echo data >/root/data").expect(0)
        check("added   file  root/data" in cli("diff", box).expect(0).text, "diff")
        snap = cli("snapshot", box, "-q", "--name", "one").expect(0).text
        equal(cli.lines("snapshots", "list", "-q"), [snap], "the list")
        equal(cli.json("snapshots", "get", "one")["snapshot_id"], snap, "by its name")
        other = cli("restore", "one", "-q", "--label", "a=b").expect(0).text
        equal(cli.sh(other, "cat /root/data").expect(0).text, "data", "what was restored")
        equal(cli.json("get", other)["labels"], {"a": "b"}, "labels")
        equal(len(cli.lines("fork", box, "-n", "2", "-q")), 2, "forks")
        cli("fork", box, "-n", "0").expect(2)
        equal(cli.json("pause", box)["state"], "paused", "state")
        cli.sh(box, "true").expect(125, says="resume it first")
        check(cli.json("resume", box)["state"] in ("ready", "active"), "state")
        cli("exec", "-d", box, "--", "sleep", "777").expect(0)
        for _ in range(2):
            equal(cli.json("stop", box)["state"], "paused", "state")
        check(cli.json("resume", box)["state"] in ("ready", "active"), "state")
        equal(cli.sh(box, "cat /root/data; pgrep -x sleep").text, "data", "its files, and no process")
        cli("stop", "sbx_none").expect(3)
        cli("snapshots", "delete", "one").expect(0)
        cli("snapshots", "delete", "one").expect(3)
        cli("restore", "one").expect(3)


@test
def high_stacks_become_one(c):
    """Each round adds, changes and removes something; what is seen at the end is what was seen before."""
    with Daemon(c) as d:
        box = d.create()
        make(d, box, "/root/all")
        run(d, box, ["sh", "-c", "mkdir -p /root/opaque/old; echo o >/root/opaque/old/o"])
        for i in range(14):
            run(d, box, ["sh", "-c", f"echo {i} >/root/f{i}; rm -f /root/f{i - 2}; echo {i} >>/root/log; mkdir /tmp/d{i}; "
                         f"ln /root/log /tmp/d{i}/log; rm -r /root/opaque; mkdir -p /root/opaque/new{i}"])
            before = look(d, box, "/root", "/tmp")
            other = d.api.post(f"/v1/sandboxes/{box}/fork", {"count": 1}).expect(201).json["sandboxes"][0]["sandbox_id"]
            same(before, look(d, other, "/root", "/tmp"), f"round {i}")
            d.destroy(box)
            box = other
        snap = snapshot(d, box)
        equal(snap["layers"], 3, "the twelfth was as high as one may be, and the next made one layer of all")
        d.api.delete(f"/v1/snapshots/{snap['snapshot_id']}").expect(204)
        # A paused one is built again on any number, too.
        for i in range(10):
            run(d, box, ["sh", "-c", f"echo {i} >>/root/log; echo {i} >/root/r{i}"])
            before = look(d, box, "/root", "/tmp")
            d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
            first = supervisor(d, box)
            d.kill()
            os.kill(first, signal.SIGKILL)
            d.start()
            check("gone" in d.api.post(f"/v1/sandboxes/{box}/resume").expect(200).json["reason"], "it was built again")
            same(before, look(d, box, "/root", "/tmp"), f"resume {i}")
        d.destroy(box)
        wait_for(lambda: layers(d) == [] and unfinished(d) == [], "the layers are gone")


@test
def processes_that_ended_unnoticed(c):
    """The daemon hears that the first process of a paused sandbox is gone when it is asked to resume it."""
    with Daemon(c) as d:
        box = d.create()
        for i in range(6):
            run(d, box, ["sh", "-c", f"echo {i} >>/root/log"])
            d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
            first, answers = supervisor(d, box), []
            os.kill(d.plane, signal.SIGSTOP)
            os.kill(first, signal.SIGKILL)
            wait_for(lambda: first not in processes(), "it is gone")
            ask = threading.Thread(target=lambda: answers.append(d.api.post(f"/v1/sandboxes/{box}/resume")))
            ask.start()
            time.sleep(i * 0.01)
            os.kill(d.plane, signal.SIGCONT)
            ask.join()
            check("gone" in answers[0].expect(200).json["reason"], f"{answers[0]}")
            equal(run(d, box, ["cat", "/root/log"]), "".join(f"{n}\n" for n in range(i + 1)), "its files")
        d.destroy(box)


@test
def hostile_trees_stay_inside(c):
    """What stands where the runtime writes is removed or an error; nothing is followed."""
    outside = c.write("outside/file", "outside")
    with Daemon(c) as d:
        box = d.create()
        run(d, box, ["python3", "-c", f"""
import os, shutil
def put(path, target):
    if os.path.lexists(path): os.unlink(path)
    os.symlink(target, path)
for name in ("hosts", "hostname", "machine-id", "resolv.conf", "nsswitch.conf"):
    put("/etc/" + name, {str(outside)!r})
os.rmdir("/srv"); put("/srv", {str(outside.parent)!r})
shutil.rmtree("/tmp"); put("/tmp", {str(outside.parent)!r})
"""])
        snap = snapshot(d, box)["snapshot_id"]
        etc = next((d.state / "storage/layers").glob("*/fs/etc"))
        for name in ("hosts", "hostname", "machine-id", "resolv.conf"):  # left out of ours, and perhaps in a file that was imported
            os.symlink(outside, etc / name)
            os.lchown(etc / name, etc.stat().st_uid, etc.stat().st_gid)
        other = d.create(snapshot=snap)
        equal(run(d, other, ["sh", "-c", "test -d /tmp -a ! -L /tmp && test -f /etc/hosts -a ! -L /etc/hosts && "
                             "readlink /srv /etc/nsswitch.conf"]), f"{outside.parent}\n{outside}\n", "what is there")
        equal(outside.read_text(), "outside", "what is outside")
        equal(os.listdir(outside.parent), ["file"], "what is outside")


@test
def a_pause_holds_and_lets_go(c):
    with Daemon(c) as d:
        box = d.create()
        ticks = "i=0; while :; do i=$((i+1)); echo $i >/tmp/ticks; done"
        d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sh", "-c", ticks], "background": True}).expect(201)
        for i in range(3):
            wait_for(lambda: run(d, box, ["sh", "-c", "cat /tmp/ticks 2>/dev/null; true"]).strip(), "it ticks")
            equal(d.api.post(f"/v1/sandboxes/{box}/pause").expect(200).json["state"], "paused", "state")
            equal(d.api.post(f"/v1/sandboxes/{box}/pause").expect(200).json["state"], "paused", "again")
            answer = d.api.run(box, ["true"]).expect(409, code="paused")
            check("resume it first" in answer.json["detail"], f"{answer}")
            d.api.get(f"/v1/sandboxes/{box}/files?path=/tmp/ticks").expect(409, code="paused")
            paused = d.create(snapshot=snapshot(d, box)["snapshot_id"])
            at = run(d, paused, ["cat", "/tmp/ticks"])
            d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
            check(d.get(box)["state"] in ("ready", "active"), "it goes on")
            wait_for(lambda: run(d, box, ["cat", "/tmp/ticks"]).strip() not in ("", at.strip()), "it ticks on")
            d.destroy(paused)
        d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
        d.destroy(box)


@test
def a_pause_survives_the_daemon(c):
    d = Daemon(c).start()
    with d:
        box = d.create()
        make(d, box, "/root/all")
        before = look(d, box, "/root")
        d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sleep", "1000"], "background": True}).expect(201)
        d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
        for killed in ("warden", "plane", None):
            if killed:
                d.kill(d.plane if killed == "plane" else None)
            else:
                d.stop()
            d.start()
            equal(d.get(box)["state"], "paused", "state")
        answer = d.api.post(f"/v1/sandboxes/{box}/resume").expect(200).json
        same(before, look(d, box, "/root"), "its files")
        check("gone" not in answer["reason"], f"{answer['reason']}")
        states = {p["state"] for p in d.api.get(f"/v1/sandboxes/{box}/processes").json["processes"] if p["background"]}
        equal(states, {"running"}, "its program")
        # The machine is started again: another boot, and nothing runs.
        before = look(d, box, "/root")
        d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
        first = supervisor(d, box)
        d.stop()
        os.kill(first, signal.SIGKILL)
        with contextlib.closing(sqlite3.connect(d.state / "daemon/sandboxer.db")) as store, store:
            store.execute("UPDATE sandboxes SET boot = 'another'")
        d.start()
        equal(d.get(box)["state"], "paused", "state")
        check(d.get(box)["expires_at"] > answer["expires_at"], "the time that it may be paused")
        answer = d.api.post(f"/v1/sandboxes/{box}/resume").expect(200).json
        check("gone" in answer["reason"], f"{answer['reason']}")
        same(before, look(d, box, "/root"), "its files, after a restart of the machine")
        states = {p["state"] for p in d.api.get(f"/v1/sandboxes/{box}/processes").json["processes"]}
        equal(states, {"exited"}, "its programs")
        # Its processes are killed while it is paused and the daemon away: the files are still there.
        for i in range(3):
            run(d, box, ["sh", "-c", f"echo {i} >/root/round{i}"])
            before = look(d, box, "/root")
            d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
            first = supervisor(d, box)
            d.kill()
            os.kill(first, signal.SIGKILL)
            wait_for(lambda: first not in processes(), "its processes are gone")
            d.start()
            answer = d.api.post(f"/v1/sandboxes/{box}/resume").expect(200).json
            check("gone" in answer["reason"], f"{answer['reason']}")
            same(before, look(d, box, "/root"), "its files, built again")


@test
def a_name_of_a_snapshot_has_no_spaces(c):
    with Daemon(c) as d:
        box = d.create()
        for name in ("a b", "a\tb", " "):
            d.api.post(f"/v1/sandboxes/{box}/snapshot", {"name": name}).expect(400, code="invalid")
        d.api.post(f"/v1/sandboxes/{box}/snapshot", {"name": "a-b"}).expect(201)


@test
def an_entry_whose_time_has_passed_is_not_set(c):
    policy = "version: 1\nnetwork_policies:\n  web: {{until: {}-01-01T00:00:00Z, endpoints: [{{host: api.example.com, port: 443}}]}}\n"
    with Daemon(c) as d:
        for year, valid in (("2020", False), ("2199", True)):
            text = policy.format(year)
            told = d.api.post("/v1/egress/check", text.encode()).expect(200).json
            equal((told["valid"], "has passed" in told.get("problem", "")), (valid, not valid), f"{year}: {told}")
            d.api.post("/v1/sandboxes", {"egress": {"policy": text}}).expect(201 if valid else 400)


@test
def what_is_paused_shows_its_processes(c):
    """Also after a restart of the daemon, before its resume."""
    with Daemon(c) as d:
        cli, box = Client(d), d.create()
        numbers = [cli.spawn(box, script) for script in ("echo said; exec sleep 1000", "echo over; exit 3")]
        path = f"/v1/sandboxes/{box}/processes"

        def states():
            return [p["state"] for p in d.api.get(path).expect(200).json["processes"]]
        wait_for(lambda: states() == ["running", "exited"], "one of them ends")
        wait_for(lambda: "said" in cli("logs", box, "-p", numbers[0]).text, "the other one says something")
        d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
        for _ in range(2):
            d.stop()
            d.start()
            equal(states(), ["running", "exited"], "its processes, while it is paused")
            for number, text in zip(numbers, ("said", "over")):
                equal(cli("logs", box, "-p", number).expect(0).text, text, f"the output of {number}, while it is paused")
            refused = d.api.post(f"{path}/{numbers[0]}/signal", {"signal": "TERM"})
            check(refused.status == 409, f"a signal to what is frozen: {refused}")
        d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
        equal(states(), ["running", "exited"], "its processes, when it is resumed")
        d.api.post(f"{path}/{numbers[0]}/signal", {"signal": "TERM"}).expect(200, 204)
        wait_for(lambda: states() == ["exited", "exited"], "it ends")
        third = cli.spawn(box, "echo third; exec sleep 1000")
        wait_for(lambda: "third" in cli("logs", box, "-p", third).text, "a third one says something")
        d.api.post(f"/v1/sandboxes/{box}/stop").expect(200)
        d.stop()
        d.start()
        equal((states(), cli("logs", box, "-p", third).expect(0).text), (["exited"] * 3, "third"), "what was stopped")
        d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
        equal(states(), ["exited"] * 3, "its processes, when it is built again")


@test
def what_is_resumed_has_its_processes(c):
    """However late the store says after a restart which ran: none of them runs unseen."""
    d = Daemon(c)
    with d:
        box = d.create()
        d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sleep", "1000"], "background": True}).expect(201)
        d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
        d.stop()
        d.start(SANDBOXER_DELAY_AT="store.read.processes:1")
        equal(d.api.post(f"/v1/sandboxes/{box}/resume").expect(200).json["state"], "active", "what it was resumed to")
        told = d.api.get(f"/v1/sandboxes/{box}/processes").expect(200).json["processes"]
        equal([(p["argv"], p["state"]) for p in told], [(["sleep", "1000"], "running")], "what runs in it")


@test(only="root", because="only root mounts file systems")
def a_full_disk_loses_nothing(c):
    d = Daemon(c, config="images: {free_min: 0}", driver="memory")
    (d.state / "storage").mkdir(parents=True, mode=0o700)
    d.state.chmod(0o711)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "none", d.state / "storage"], check=True)
    try:
        with d:
            box = d.create()
            run(d, box, ["sh", "-c", "echo small >/root/small"])
            small = snapshot(d, box)
            run(d, box, ["sh", "-c", "head -c 6000000 /dev/urandom >/root/large"])
            before = look(d, box, "/root")
            answer = d.api.post(f"/v1/sandboxes/{box}/snapshot", {}).expect(507, code="storage_full")
            check("nearly full" in answer.json["detail"], f"{answer}")
            d.api.post(f"/v1/sandboxes/{box}/pause").expect(507, code="storage_full")
            # Room enough in all, but not for so many files.
            run(d, box, ["sh", "-c", "rm /root/large; mkdir /root/many; for i in $(seq 3000); do : >/root/many/$i; done"])
            before = look(d, box, "/root")
            subprocess.run(["mount", "-o", "remount,nr_inodes=500", d.state / "storage"], check=True)
            d.api.post(f"/v1/sandboxes/{box}/snapshot", {}).expect(500, code="system")
            d.api.post(f"/v1/sandboxes/{box}/pause").expect(500, code="system")
            same(before, look(d, box, "/root"), "the sandbox")
            equal(unfinished(d), [], "what is unfinished")
            equal(len(layers(d)), 1, "layers")
            other = d.create(snapshot=small["snapshot_id"])
            equal(run(d, other, ["cat", "/root/small"]), "small\n", "what was kept before")
            d.api.delete(f"/v1/snapshots/{small['snapshot_id']}").expect(204)
    finally:
        subprocess.run(["umount", d.state / "storage"], check=True)


POINTS = ("capture.freeze", "capture.taken", "capture.done", "snapshot.record", "snapshot.told", "pause.record",
          "pause.told", "stop.remove", "layers.ahead", "layers.begin", "layers.taken", "layers.sync", "layers.rename", "layers.renamed", "layers.done")


@test
def whoever_dies_while_it_is_built_again(c):
    """What is found half built is not taken for what was paused: neither resumed, nor captured."""
    for driver in ("memory", "plain"):
        d = Daemon(c, driver=driver)
        d.start()
        with d:
            box = d.create()
            for i, point in enumerate(("resume.rebuild", "resume.record", "resume.told")):
                run(d, box, ["sh", "-c", f"echo {i} >/root/r{i}"])
                before = look(d, box, "/root")
                d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
                first = supervisor(d, box)
                d.kill()
                os.kill(first, signal.SIGKILL)
                d.start(SANDBOXER_DIE_AT=f"{point}:1")
                try:
                    d.api.post(f"/v1/sandboxes/{box}/resume")
                except Cut:
                    d.wait()
                check(not d.alive, f"{point}: nobody died")
                d.start()
                if d.get(box)["state"] == "paused":
                    other = d.create(snapshot=snapshot(d, box)["snapshot_id"])
                    same(before, look(d, other, "/root"), f"{driver}, {point}: a snapshot of it")
                    d.destroy(other)
                    d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
                same(before, look(d, box, "/root"), f"{driver}, {point}: the sandbox")
            for s in d.api.get("/v1/snapshots").json["snapshots"]:
                d.api.delete(f"/v1/snapshots/{s['snapshot_id']}").expect(204)


@test
def whoever_dies_it_goes_on(c):
    """The daemon or a keeper dies at every step: the sandbox goes on, and what was said to be done is. With a driver that copies, and so
    comes to every step."""
    d = Daemon(c, driver="memory")
    d.start()
    box = d.create()
    make(d, box, "/root/all")
    before = look(d, box, "/root")
    known = {}
    for point in POINTS:
        d.stop()
        d.start(SANDBOXER_DIE_AT=f"{point}:1")
        verb = {"pause": "pause", "stop": "stop"}.get(point.partition(".")[0], "snapshot")
        try:
            answer = d.api.post(f"/v1/sandboxes/{box}/{verb}")
            check(point.startswith("layers"), f"{point}: nobody died: {answer}")
            answer.expect(502, code="upstream")
        except Cut:
            check(not point.startswith("layers"), f"{point}: the daemon died with its keeper")
            d.wait()
        if not d.alive:
            d.start()
        d.stop()
        d.start()
        if d.get(box)["state"] == "paused":
            d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
        d.works(box)
        same(before, look(d, box, "/root"), f"{point}: the sandbox")
        have = {s["snapshot_id"] for s in d.api.get("/v1/snapshots").json["snapshots"]}
        check(set(known) <= have, f"{point}: {set(known) - have} were promised")
        for s in have - set(known):
            known[s] = before
    for s, files in known.items():
        other = d.create(snapshot=s)
        same(files, look(d, other, "/root"), f"{s}")
        d.destroy(other)
        d.api.delete(f"/v1/snapshots/{s}").expect(204)
    with d:
        pass
    d.start()
    with d:
        wait_for(lambda: layers(d) == [] and unfinished(d) == [], "nothing is left")


if __name__ == "__main__":
    main()
