#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Snapshots, forks and pauses of sandboxes that stand on stored images."""

import json
import os
import re
import signal
import socket
import struct
import tarfile
import urllib.parse

from client import Client
from daemon import Daemon
from harness import check, equal, main, processes, test, wait_for
from images import busybox, directory, member
from registry import Image, file, folder, layer
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


OWN = ("hostname", "hosts", "machine-id", "resolv.conf")


def named_image(outside):
    """One that says who it is: two of its names are links that lead out."""
    names = layer(folder("etc"), file("etc/machine-id", "0123456789abcdef" * 2 + "\n"), file("etc/hosts", "10.0.0.1 image\n"),
                  *[member(f"etc/{n}", kind=tarfile.SYMTYPE, link=str(outside)) for n in ("hostname", "resolv.conf")])
    return Image(layers=[*image().plain, names], config={**RUN, "User": "0"})


@test
def clones_on_an_image_differ(c):
    """Whatever the image says of itself, or a program wrote in an earlier life."""
    outside = c.write("outside", "outside")

    def of(box):
        return root(d, box, "for f in hosts hostname machine-id resolv.conf; do test -f /etc/$f -a ! -L /etc/$f || echo no file; done; "
                    "cat /etc/machine-id /etc/hostname; busybox hostname; cat /etc/hosts").splitlines()

    def changes(box, query=""):
        return [x["path"] for x in d.api.get(f"/v1/sandboxes/{box}/diff{query}").expect(200).json["changes"]]

    with Daemon(c, config=CONFIG) as d:
        image_import(d, named_image(outside))
        box = d.create(image="box:1")
        first = of(box)
        equal(changes(box), [], "what it has changed, when it has not")
        root(d, box, "busybox mkdir /opt")
        clean = snapshot(d, box)
        # What programs make of them does not outlive them.
        root(d, box, f"cd /etc; echo 10.0.0.2 mine >>hosts; ln -sf {outside} machine-id; rm hostname; busybox mkdir hostname")
        equal(changes(box), [], "of its names nothing is told")
        before = look_at_image(d, box)
        snap = snapshot(d, box)["snapshot_id"]
        boxes = [b["sandbox_id"] for b in d.api.post(f"/v1/sandboxes/{box}/fork", {"count": 2}).expect(201).json["sandboxes"]]
        boxes.append(d.create(snapshot=snap))
        d.api.post(f"/v1/sandboxes/{box}/commit", {"image": "box:2"}).expect(201)
        boxes.append(d.create(image="box:2"))
        d.api.post(f"/v1/sandboxes/{box}/stop").expect(200)
        d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
        equal(of(box), first, "made again, it is who it was")
        seen = [first]
        for b in boxes:
            own, name = of(b), b.replace("_", "-")
            equal(own[1:], [name, name, "127.0.0.1 localhost", "::1 localhost", f"127.0.1.1 {name}"], "who it is")
            equal(look_at_image(d, b), before, "the rest")
            equal(root(d, b, f"busybox grep -rl -e {box} -e {first[0]} -e {first[1]} /etc; true"), "", "traces of its source")
            equal(changes(b), [], "what it has changed")
            equal(changes(b, f"?snapshot={clean['snapshot_id']}"), [], "and against how its source began")
            seen.append(own)
        for i, what in ((0, "machine-id"), (1, "hostname")):
            equal(len({x[i] for x in seen}), 5, f"{what}: how many are different")
        # Nor is it on disk in what was committed or kept.
        kept = [p for p in (d.state / "storage/layers").glob("lay_*/fs/etc/*") if p.name in OWN and not p.is_dir()]
        equal(kept, [], "names in what was kept")
    equal(outside.read_text(), "outside", "what is outside")


@test
def images_with_and_without_an_etc(c):
    """A program alone is enough; an /etc that is no directory is the image's business."""
    alone = [folder("bin"), file("bin/busybox", busybox().read_bytes(), 0o755)]
    with Daemon(c, config=CONFIG) as d:
        image_import(d, Image(layers=[layer(*alone)], config={"Env": []}), "alone:1")
        box = d.create(image="alone:1")
        equal(busy(d, box, "busybox ls /etc; busybox stat -c %a:%u /etc"), "".join(n + "\n" for n in OWN) + "755:0\n", "what there is")
        online = d.create(image="alone:1", egress={"allow": ["example.com"]})
        equal(busy(d, online, "busybox cat /etc/resolv.conf"), "nameserver 127.0.0.1\n", "whom it asks for names, where it has a network")
        root(d, box, "echo x >/etc/x; busybox rm /etc/hosts")
        other = d.create(snapshot=snapshot(d, box)["snapshot_id"])
        equal(busy(d, other, "busybox cat /etc/x /etc/hostname"), "x\n" + other.replace("_", "-") + "\n", "restored")
        root(d, other, "busybox rm -r /etc")
        again = d.create(snapshot=snapshot(d, other)["snapshot_id"])
        equal(busy(d, again, "busybox ls /etc"), "".join(n + "\n" for n in OWN), "where all of it was removed")
        link = [folder("usr/etc"), file("usr/etc/mine", "mine"), member("etc", kind=tarfile.SYMTYPE, link="usr/etc")]
        image_import(d, Image(layers=[layer(*alone, *link)], config={"Env": []}), "link:1")
        equal(busy(d, d.create(image="link:1"), "busybox readlink /etc; busybox ls /etc"), "usr/etc\nmine\n", "a link stays one")
        closed = member("etc/", kind=tarfile.DIRTYPE, mode=0o2750)
        image_import(d, Image(layers=[layer(*alone, closed)], config={"Env": []}), "closed:1")
        equal(root(d, d.create(image="closed:1"), "busybox stat -c '%a %Y' /etc"), "2750 0\n", "how it looks is the image's")


@test
def a_run_on_a_directory_has_names(c):
    """Without a daemon, and without writing to the image."""
    top = directory(c)
    c.write("image/etc/hosts", "10.0.0.1 image\n")
    ran = c.run("--image", top, "--", "/bin/sh", "-c", "cat /etc/hosts /etc/hostname; ls /etc").expect(0).text
    equal(ran.split("\n"), ["127.0.0.1 localhost", "::1 localhost", "127.0.1.1 sandbox", "sandbox", "hostname", "hosts", "machine-id",
                            "marker", "passwd", "resolv.conf"], "what it sees")
    equal(sorted(os.listdir(top / "etc")), ["hosts", "marker", "passwd"], "the image")


@test
def a_commit_makes_an_image(c):
    d = Daemon(c, config=CONFIG)
    d.start()
    with d:
        cli = Client(d)
        image_import(d, image({**RUN, "User": "0"}))
        box = d.create(image="box:1", env={"COLOUR": "green", "API_KEY": "tok-5f3a9b27c1"})
        root(d, box, CHANGE)
        before = look_at_image(d, box)
        check(re.fullmatch(r"team/box:2 committed; the sandbox stood still for [\d.]+ ms", cli("commit", box, "team/box:2").expect(0).text),
              "what is said")
        root(d, box, "echo later >/etc/later")
        d.destroy(box)
        d.stop()
        d.start()
        shown = cli.json("image", "inspect", "team/box:2")
        equal(shown["config"]["config"]["Labels"], {"a": "b"}, "what the base said")
        check("tok-" not in json.dumps(shown), f"what only the sandbox was given: {shown}")
        equal(len(shown["layers"]), 5, "layers")
        cli("image", "verify", "team/box:2").expect(0)
        new = d.create(image="team/box:2")
        equal(look_at_image(d, new), before, "what was committed")
        equal(busy(d, new, "echo $COLOUR $API_KEY in $(pwd)"), "blue in /srv\n", "how programs are run, without what only that one was given")
        # Snapshots and commits of that, and its files stay as long as somebody needs them.
        root(d, new, REPLACE)
        before = look_at_image(d, new)
        snap = snapshot(d, new)["snapshot_id"]
        check(d.api.post(f"/v1/sandboxes/{new}/commit", {"image": "box:3"}).expect(201).json["pause_ms"] > 0, "how long it stood still")
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
