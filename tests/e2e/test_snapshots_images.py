#!/usr/bin/env python3
# parallel
"""Snapshots, forks and pauses of sandboxes that stand on stored images."""

import os
import signal
import socket
import struct
import urllib.parse

from daemon import Daemon
from harness import check, equal, main, processes, test, wait_for
from images import member
from registry import Image, base_layer, file, folder, layer, tar_of, upper_layer

CONFIG = "images: {free_min: 0}"
RUN = {"Env": ["COLOUR=blue", "PATH=/bin"], "WorkingDir": "/srv", "User": "1234:1234", "Labels": {"a": "b"},
       "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo $COLOUR in $(pwd)"]}

# Everything that the busybox of the image can tell of what is there.
LOOK = r"""
cd / && find etc srv opt tmp -print | sort | while read -r f; do
    stat -c '%n %f %u:%g %Y' "$f"; [ -f "$f" ] && sha256sum <"$f"; [ -L "$f" ] && readlink "$f"
done; exit 0
"""
CHANGE = "cd / && echo new >etc/new && rm etc/passwd srv/new && echo other >etc/other && mkdir -p opt/a/b && echo b >opt/a/b/c && " \
    "ln opt/a/b/c opt/a/linked && ln -s c opt/a/b/link && chmod 640 etc/new && touch -d '2001-02-03 04:05:06' etc/new"
REPLACE = "cd / && rm -r opt/a && mkdir opt/a && echo again >opt/a/again && rm etc/new && mkdir etc/new && echo in >etc/new/in"


def image_import(d, image, name="box:1"):
    query = urllib.parse.urlencode({"name": name})
    d.api.request("POST", f"/v1/images/import?{query}", tar_of(image.saved(name)),
                  {"Content-Type": "application/x-tar"}).expect(201)


def remove(d, ref="box:1"):
    return d.api.delete("/v1/images?" + urllib.parse.urlencode({"ref": ref}))


def run(d, box, script, **options):
    """As root, unless it is said who."""
    answer = d.api.run(box, ["/bin/busybox", "sh", "-c", script], **options).expect(200).json
    equal((answer["exit_code"], answer["stderr"]), (0, ""), f"{script[:60]}")
    return answer["stdout"]


def root(d, box, script):
    return run(d, box, script, user="0")


def look(d, box):
    return root(d, box, LOOK)


def snapshot(d, box, **request):
    return d.api.post(f"/v1/sandboxes/{box}/snapshot", request).expect(201).json


def layers(d):
    return sorted(os.listdir(d.state / "storage/layers"))


def kill_inside(d, box):
    """Its processes die while the daemon is away."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(str(d.state / "daemon/run" / box / "control"))
        first = struct.unpack("iII", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    d.kill()
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: first not in processes(), "its processes are gone")
    d.start()


def applets():
    return layer(folder("bin"), *[member(f"bin/{a}", kind=b"2", link="busybox")
                                  for a in ("find", "stat", "sort", "readlink", "sha256sum")])


def image(config=None, marker="first"):
    return Image(layers=[base_layer(), upper_layer(), applets(), layer(folder("etc"), file("etc/marker", marker))],
                 config=config or RUN)


@test
def what_was_written_on_an_image_comes_back(c):
    with Daemon(c, config=CONFIG) as d:
        image_import(d, image({**RUN, "User": "0"}))
        box = d.create(image="box:1")
        root(d, box, CHANGE)
        before = look(d, box)
        check("etc/other" in before and "srv/old" not in before, f"{before}")
        snap = snapshot(d, box, name="on-image")
        equal((snap["image"], snap["layers"]), ("box:1", 1), "the snapshot")
        other = d.create(snapshot="on-image")
        equal(look(d, other), before, "restored")
        equal(d.get(other)["image"], "box:1", "what it stands on")
        equal(run(d, other, "echo $COLOUR in $(pwd)"), "blue in /srv\n", "how programs are run")
        # Again on top of it, and forks of that.
        root(d, other, REPLACE)
        before = look(d, other)
        third = d.create(snapshot=snapshot(d, other)["snapshot_id"])
        equal(look(d, third), before, "restored again")
        forks = d.api.post(f"/v1/sandboxes/{third}/fork", {"count": 2}).expect(201).json["sandboxes"]
        for b in forks:
            equal(look(d, b["sandbox_id"]), before, "a fork")
            equal(run(d, b["sandbox_id"], "echo $COLOUR in $(pwd)"), "blue in /srv\n", "how programs are run")
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
            before = look(d, box)
            d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
            paused = d.create(snapshot=snapshot(d, box)["snapshot_id"])
            equal(look(d, paused), before, "a snapshot of a paused one")
            kill_inside(d, box)
            check("gone" in d.api.post(f"/v1/sandboxes/{box}/resume").expect(200).json["reason"], "it was built again")
            equal(look(d, box), before, "its files, built again")
            equal(run(d, box, "echo $COLOUR in $(pwd)"), "blue in /srv\n", "how programs are run")


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
        equal(run(d, other, "cat /etc/marker /etc/mine; echo $COLOUR in $(pwd)"), "firstmine\nblue in /srv\n", "restored")
        new = d.create(image="box:1")
        equal(run(d, new, "cat /etc/marker; /bin/echo $COLOUR"), "secondred\n", "the new one of that name")
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
        equal(run(d, box, "id -u"), "1234\n", "the image's user")
        other = d.create(snapshot=snapshot(d, box)["snapshot_id"])
        equal(run(d, other, "id -u"), "1234\n", "the image's user, restored")


if __name__ == "__main__":
    main()
