#!/usr/bin/env python3
# parallel
"""Snapshots, forks and pauses of sandboxes that stand on stored images."""

import os
import signal
import socket
import struct
import urllib.parse

from client import Client
from daemon import Daemon
from harness import check, equal, main, processes, test, wait_for
from snapshots import CHANGE, CONFIG, REPLACE, RUN, busy, image, image_import, look_at_image, root
from trees import layers, snapshot


def remove(d, ref="box:1"):
    return d.api.delete("/v1/images?" + urllib.parse.urlencode({"ref": ref}))


def kill_inside(d, box):
    """Its processes die while the daemon is away."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(str(d.state / "daemon/run" / box / "control"))
        first = struct.unpack("iII", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    d.kill()
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: first not in processes(), "its processes are gone")
    d.start()


@test
def what_was_written_on_an_image_comes_back(c):
    with Daemon(c, config=CONFIG) as d:
        image_import(d, image({**RUN, "User": "0"}))
        box = d.create(image="box:1")
        root(d, box, CHANGE)
        before = look_at_image(d, box)
        check("etc/other" in before and "srv/old" not in before, f"{before}")
        snap = snapshot(d, box, name="on-image")
        equal((snap["image"], snap["layers"]), ("box:1", 1), "the snapshot")
        other = d.create(snapshot="on-image")
        equal(look_at_image(d, other), before, "restored")
        equal(d.get(other)["image"], "box:1", "what it stands on")
        equal(busy(d, other, "echo $COLOUR in $(pwd)"), "blue in /srv\n", "how programs are run")
        # Again on top of it, and forks of that.
        root(d, other, REPLACE)
        before = look_at_image(d, other)
        third = d.create(snapshot=snapshot(d, other)["snapshot_id"])
        equal(look_at_image(d, third), before, "restored again")
        forks = d.api.post(f"/v1/sandboxes/{third}/fork", {"count": 2}).expect(201).json["sandboxes"]
        for b in forks:
            equal(look_at_image(d, b["sandbox_id"]), before, "a fork")
            equal(busy(d, b["sandbox_id"], "echo $COLOUR in $(pwd)"), "blue in /srv\n", "how programs are run")
        diff = d.api.get(f"/v1/sandboxes/{third}/diff").expect(200).json["changes"]
        equal(diff, [], "what a new one has changed")
        root(d, third, "rm -r /srv /etc/new; echo changed >/etc/marker")
        diff = d.api.get(f"/v1/sandboxes/{third}/diff?snapshot={snap['snapshot_id']}").expect(200).json["changes"]
        equal(sorted((x["change"], x["path"]) for x in diff),
              [("added", "opt/a/again"), ("changed", "etc/marker"), ("deleted", "etc/new"), ("deleted", "opt/a/b"),
               ("deleted", "opt/a/linked"), ("deleted", "srv")], "what has changed since the first")


@test
def a_pause_on_an_image_survives(c):
    d = Daemon(c, config=CONFIG)
    d.start()
    with d:
        image_import(d, image({**RUN, "User": "0"}))
        box = d.create(image="box:1")
        for script in (CHANGE, REPLACE):
            root(d, box, script)
            before = look_at_image(d, box)
            d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
            paused = d.create(snapshot=snapshot(d, box)["snapshot_id"])
            equal(look_at_image(d, paused), before, "a snapshot of a paused one")
            kill_inside(d, box)
            check("gone" in d.api.post(f"/v1/sandboxes/{box}/resume").expect(200).json["reason"], "it was built again")
            equal(look_at_image(d, box), before, "its files, built again")
            equal(busy(d, box, "echo $COLOUR in $(pwd)"), "blue in /srv\n", "how programs are run")


@test
def an_image_stays_while_a_snapshot_stands_on_it(c):
    """Its layers and how its programs are run, whatever becomes of its name."""
    d = Daemon(c, config=CONFIG)
    d.start()
    with d:
        image_import(d, image({**RUN, "User": "0"}))
        box = d.create(image="box:1")
        root(d, box, "echo mine >/etc/mine")
        snap = snapshot(d, box)["snapshot_id"]
        d.destroy(box)
        answer = remove(d).expect(409, code="conflict")
        check(snap in answer.json["detail"], f"{answer}")
        image_import(d, image({"Env": ["COLOUR=red"], "WorkingDir": "/"}, marker="second"))
        d.api.post("/v1/images/prune").expect(200)
        d.stop()
        d.start()
        d.api.post("/v1/images/prune").expect(200)
        other = d.create(snapshot=snap)
        equal(busy(d, other, "cat /etc/marker /etc/mine; echo $COLOUR in $(pwd)"), "firstmine\nblue in /srv\n", "restored")
        new = d.create(image="box:1")
        equal(busy(d, new, "cat /etc/marker; /bin/echo $COLOUR"), "secondred\n", "the new one of that name")
        d.api.post("/v1/sandboxes", {"snapshot": snap, "image": "box:2"}).expect(400)
        for b in (other, new):
            d.destroy(b)
        d.api.delete(f"/v1/snapshots/{snap}").expect(204)
        remove(d).expect(200)
        wait_for(lambda: (d.api.post("/v1/images/prune").expect(200), layers(d))[1] == [], "the layers are gone")


@test(only="root", because="a plain user may have one identity only")
def who_runs_is_kept(c):
    with Daemon(c, config=CONFIG) as d:
        image_import(d, image())
        box = d.create(image="box:1")
        equal(busy(d, box, "id -u"), "1234\n", "the image's user")
        other = d.create(snapshot=snapshot(d, box)["snapshot_id"])
        equal(busy(d, other, "id -u"), "1234\n", "the image's user, restored")


@test
def a_commit_makes_an_image(c):
    d = Daemon(c, config=CONFIG)
    d.start()
    with d:
        cli = Client(d)
        image_import(d, image({**RUN, "User": "0"}))
        box = d.create(image="box:1", env={"COLOUR": "green", "MORE": "more"})
        root(d, box, CHANGE)
        before = look_at_image(d, box)
        equal(cli("commit", box, "team/box:2").expect(0).text, "team/box:2 committed", "what is said")
        root(d, box, "echo later >/etc/later")
        d.destroy(box)
        d.stop()
        d.start()
        shown = cli.json("image", "inspect", "team/box:2")
        equal(shown["config"]["config"]["Labels"], {"a": "b"}, "what the base said")
        equal(len(shown["layers"]), 5, "layers")
        cli("image", "verify", "team/box:2").expect(0)
        new = d.create(image="team/box:2")
        equal(look_at_image(d, new), before, "what was committed")
        equal(busy(d, new, "echo $COLOUR $MORE in $(pwd)"), "green more in /srv\n", "how programs are run")
        # Snapshots and commits of that, and its files stay as long as somebody needs them.
        root(d, new, REPLACE)
        before = look_at_image(d, new)
        snap = snapshot(d, new)["snapshot_id"]
        d.api.post(f"/v1/sandboxes/{new}/commit", {"image": "box:3"}).expect(201)
        d.destroy(new)
        remove(d, "team/box:2").expect(409, code="conflict")
        remove(d, "box:1").expect(200)  # nothing stands on that one alone
        d.api.post("/v1/images/prune").expect(200)
        for b in (d.create(snapshot=snap), d.create(image="box:3")):
            equal(look_at_image(d, b), before, "what stands on it")
            d.destroy(b)
        d.api.delete(f"/v1/snapshots/{snap}").expect(204)
        for ref in ("team/box:2", "box:3"):
            remove(d, ref).expect(200)
        wait_for(lambda: layers(d) == [], "the layers are gone")
        # One on the host's system cannot become an image, and a bad name is none.
        box = d.create()
        answer = d.api.post(f"/v1/sandboxes/{box}/commit", {"image": "box:4"}).expect(409, code="conflict")
        check("snapshot" in answer.json["detail"], f"{answer}")
        d.api.post(f"/v1/sandboxes/{box}/commit", {"image": "../x"}).expect(400, code="invalid")
        d.api.post(f"/v1/sandboxes/{box}/commit", {}).expect(400, code="invalid")


if __name__ == "__main__":
    main()
