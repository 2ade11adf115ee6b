#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Snapshots as files: what is exported here is the same elsewhere, and nothing is believed of what is imported."""

import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess

from client import Client
from daemon import Cut, Daemon
from harness import Skip, check, equal, main, test, wait_for
from snapshots import CHANGE, CONFIG, RUN, image, image_import, look_at_image, root
from trees import layers, look, make, run, same, snapshot, unfinished


def export(d, snap, **query):
    path = f"/v1/snapshots/{snap}/export" + ("?without_image=true" if query.get("without_image") else "")
    return d.api.get(path).expect(200).data


def upload(d, data, query=""):
    return d.api.request("POST", "/v1/snapshots/import" + query, data, {"Content-Type": "application/zstd"})


def nothing_is_left(d, but=()):
    wait_for(lambda: layers(d) == sorted(but) and unfinished(d) == [], "nothing is left")


def plain(data):
    if not shutil.which("zstd"):
        raise Skip("zstd is not installed")
    return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout


@test
def every_byte_moves_to_another_state_directory(c):
    with Daemon(c, name="here", config=CONFIG) as here, Daemon(c, name="there", config=CONFIG) as there:
        box = here.create(labels={"team": "web"})
        for top in ("/root/all", "/tmp/all"):
            make(here, box, top)
        first = snapshot(here, box)
        box = here.create(snapshot=first["snapshot_id"])
        run(here, box, ["sh", "-c", "rm -r /root/all/deep; mkdir /root/all/deep; echo n >/root/all/deep/n; rm /tmp/all/plain; "
                        "ln /tmp/all/empty /root/another"])
        snap = snapshot(here, box, name="moving")
        before = look(here, here.create(snapshot="moving"), "/root", "/tmp", "/srv", "/etc/passwd")
        data = export(here, snap["snapshot_id"])
        equal(data[:4], b"\x28\xb5\x2f\xfd", "it is packed")
        made = upload(there, data).expect(201).json
        for what in ("name", "sandbox_id", "profile", "entries", "layers", "labels"):
            equal(made[what], snap[what], what)
        check(snap["bytes"] < made["bytes"] <= first["bytes"] + snap["bytes"], f"{made}: not what both layers have")
        check(made["snapshot_id"] != snap["snapshot_id"], "it is another one")
        other = there.create(snapshot="moving")
        same(before, look(there, other, "/root", "/tmp", "/srv", "/etc/passwd"), "what was moved")
        # Once more, from there: the same layers.
        again = upload(here, export(there, "moving"), "?name=back").expect(201).json
        other = here.create(snapshot="back")
        same(before, look(here, other, "/root", "/tmp", "/srv", "/etc/passwd"), "what came back")
        here.destroy(other)
        here.api.delete(f"/v1/snapshots/{again['snapshot_id']}").expect(204)
        wait_for(lambda: len(layers(here)) == 2, "what came back is gone")


@test
def a_file_is_there_when_it_is_whole(c):
    with Daemon(c) as d:
        cli, snap, place = Client(d), snapshot(d, d.create())["snapshot_id"], c.mkdir(c.dir / "place")
        log = c.mkdir(c.dir / "log") / "calls"
        c.write("place/file.partial", "somebody's")
        c.execute(["strace", "-y", "-e", "trace=rename,renameat,renameat2,fsync", "-o", log, c.program(), "snapshots", "export",
                   snap, place / "file"], env=cli.env).expect(0)
        calls = [line.split("(")[0] + (" directory" if f"<{place}>" in line else "") for line in log.read_text().splitlines()
                 if str(place) in line]
        equal([call.replace("at2", "").replace("at", "") for call in calls], ["fsync", "rename", "fsync directory"], "its last calls")
        equal(sorted(os.listdir(place)), ["file", "file.partial"], "what is there")
        equal((place / "file.partial").read_text(), "somebody's", "somebody's file")
        for end in (signal.SIGINT, signal.SIGTERM):
            os.kill(d.plane, signal.SIGSTOP)
            p = cli.start("snapshots", "export", snap, place / "other", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_for(lambda: len(os.listdir(place)) == 3, "it begins")
            p.send_signal(end)
            equal(p.wait(20), -end, "its end")
            os.kill(d.plane, signal.SIGCONT)
            equal(sorted(os.listdir(place)), ["file", "file.partial"], "what is there")


@test
def the_image_goes_along(c):
    with Daemon(c, name="here", config=CONFIG) as here, Daemon(c, name="there", config=CONFIG) as there:
        image_import(here, image({**RUN, "User": "0"}))
        box = here.create(image="box:1")
        root(here, box, CHANGE)
        before = look_at_image(here, box)
        snap = snapshot(here, box)["snapshot_id"]
        data = export(here, snap)
        made = upload(there, data).expect(201).json
        equal((made["image"], made["layers"]), ("box:1", 1), "what it stands on")
        check(all(name.startswith("lay_") for name in layers(there)), "nobody promised that these are the image's")
        box = there.create(snapshot=made["snapshot_id"])
        equal(look_at_image(there, box), before, "what was moved")
        equal(root(there, box, "echo $COLOUR in $(pwd)"), "blue in /srv\n", "how programs are run")
        second = there.create(snapshot=snapshot(there, box)["snapshot_id"])
        there.api.delete(f"/v1/snapshots/{made['snapshot_id']}").expect(204)
        there.stop()
        there.start()
        equal(look_at_image(there, second), before, "one that stands on it, after a restart")
        # From there again, also without the image: what has no name elsewhere goes along.
        for without in (False, True):
            last = upload(there, export(there, snapshot(there, second)["snapshot_id"], without_image=without)).expect(201).json
            equal(look_at_image(there, there.create(snapshot=last["snapshot_id"])), before, "moved twice")
        # Without it, it must be there.
        small = export(here, snap, without_image=True)
        check(len(small) < len(data) // 10, f"{len(small)} of {len(data)}")
        answer = upload(there, small).expect(404, code="not_found")
        check("box:1" in answer.json["detail"] and "image pull" in answer.json["detail"], f"{answer}")
        image_import(there, image({**RUN, "User": "0"}))
        for what in (small, data):
            count = len(layers(there))
            made = upload(there, what).expect(201).json
            equal(len(layers(there)), count + 1, "layers of the image that are here are not kept twice")
            equal(look_at_image(there, there.create(snapshot=made["snapshot_id"])), before, "what was moved")


def repack(parts):
    """A file of these parts, with the right hash at its end."""
    data = b"".join(parts) + b"Z"
    return data + hashlib.sha256(data).digest()


MAGIC = b"sandboxer snapshot 1\n"


def take_apart(data):
    size = struct.unpack_from("<I", data, len(MAGIC))[0]
    at = len(MAGIC) + 4
    return json.loads(data[at:at + size]), data[at + size:-33]


def put_together(manifest, rest):
    text = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    return repack([MAGIC, struct.pack("<I", len(text)), text, rest])


def hostile_manifests(good):
    yield "no JSON", b"{"
    yield "a list", b"[]"
    yield "an unknown format", {**good, "format": 3}
    yield "the format of an older version", {**good, "format": 1}
    yield "an unknown member", {**good, "more": 1}
    yield "no layers", {**good, "layers": []}
    yield "too many layers", {**good, "layers": good["layers"] * 40}
    yield "fewer layers than there are", {**good, "layers": good["layers"][:1]}
    yield "more layers than there are", {**good, "layers": good["layers"] + good["layers"][:1]}
    yield "a sandbox that is none", {**good, "sandbox_id": "../../etc"}
    yield "a long name", {**good, "name": "n" * 64}
    yield "a measure that is none", {**good, "layers": [{**x, "measure": "sha256:../.."} for x in good["layers"]]}
    yield "another measure", {**good, "layers": [{**x, "measure": "sha256:" + "0" * 64} for x in good["layers"]]}
    yield "an image's layer that is none", {**good, "image": "a:1", "layers": good["layers"][:1] + [{**good["layers"][1], "image": "lay_x"}]}
    yield "an image above what was written", {**good, "image": "a:1", "layers": [{**good["layers"][0], "image": "sha256-" + "0" * 64}, good["layers"][1]]}
    yield "what was written, left out", {**good, "layers": [{**x, "left_out": True} for x in good["layers"]]}
    yield "an image without layers", {**good, "image": "a:1"}


def text(s):
    return struct.pack("<H", len(s)) + s


ATTRIBUTES = struct.pack("<IIIqIqI", 0o644, 0, 0, 1, 0, 1, 0)
LINK = struct.pack("<Q", 0)
LEAVE = b"." + ATTRIBUTES + struct.pack("<H", 0)


def fifo(name, attributes=ATTRIBUTES):
    return b"p" + text(name) + attributes + LINK


def of_file(name, size, *ranges, extended=b"\0\0"):
    data = b"".join(struct.pack("<QQ", at, n) + b"x" * min(n, 10) for at, n in ranges)
    return b"f" + text(name) + ATTRIBUTES + LINK + extended + struct.pack("<Q", size) + data + struct.pack("<QQ", 0, 0)


def hostile_trees():
    for name in (b"..", b".", b"", b"a/b", b"/etc/passwd", b"a\0b", b"n" * 256):
        yield f"a name {name[:20]!r}", fifo(name) + LEAVE
    yield "a directory ..", b"d" + text(b"..") + LEAVE + LEAVE
    yield "the same name twice", fifo(b"a") + fifo(b"a") + LEAVE
    yield "a kind that is none", b"b" + text(b"disk") + LEAVE
    yield "an owner that nobody is", fifo(b"a", struct.pack("<IIIqIqI", 0o644, 70000, 0, 1, 0, 1, 0)) + LEAVE
    yield "a mode that is none", fifo(b"a", struct.pack("<IIIqIqI", 0o100644, 0, 0, 1, 0, 1, 0)) + LEAVE
    yield "a time that is none", fifo(b"a", struct.pack("<IIIqIqI", 0o644, 0, 0, 1, 2**30, 1, 0)) + LEAVE
    yield "another name of nothing", b"h" + text(b"a") + struct.pack("<Q", 7) + LEAVE
    yield "a link to nothing", b"l" + text(b"a") + ATTRIBUTES + LINK + text(b"") + LEAVE
    yield "a piece outside of its file", of_file(b"a", 5, (3, 10)) + LEAVE
    yield "pieces out of order", of_file(b"a", 100, (50, 10), (0, 10)) + LEAVE
    yield "a file without end", of_file(b"a", 2**63, (0, 2**62)) + LEAVE
    yield "an attribute of the system", of_file(b"a", 0, extended=struct.pack("<H", 1) + text(b"security.capability") +
                                               struct.pack("<I", 1) + b"x") + LEAVE
    yield "an attribute of overlayfs", of_file(b"a", 0, extended=struct.pack("<H", 1) + text(b"user.overlay.redirect") +
                                              struct.pack("<I", 1) + b"/") + LEAVE
    yield "directories without end", (b"d" + text(b"d")) * 200 + LEAVE * 201
    yield "a tree that goes on behind its root", LEAVE + LEAVE


@test
def hostile_files_are_refused(c):
    with Daemon(c, config=CONFIG) as d:
        box = d.create()
        run(d, box, ["sh", "-c", "echo one >/root/one; ln /root/one /root/two"])
        box = d.create(snapshot=snapshot(d, box, name="a")["snapshot_id"])
        run(d, box, ["sh", "-c", "echo three >/root/three"])
        snapshot(d, box, name="b")
        packed = export(d, "b")
        good = plain(packed)
        kept = layers(d)
        manifest, rest = take_apart(good)
        upload(d, put_together(manifest, rest), "?name=good").expect(201)  # not packed is fine, too
        counted = d.api.get("/v1/snapshots/good").expect(200).json["bytes"]
        d.api.delete("/v1/snapshots/good").expect(204)
        made = upload(d, put_together({**manifest, "bytes": 0}, rest), "?name=small").expect(201).json
        equal(made["bytes"], counted, "what it claims to have is not believed")
        check(counted > 0, "it has nothing")
        d.api.delete("/v1/snapshots/small").expect(204)
        nothing_is_left(d, kept)
        count = len(d.api.get("/v1/snapshots").json["snapshots"])

        def refused(what, data, statuses=(400, 413, 501)):
            answer = upload(d, data)
            check(answer.status in statuses, f"{what}: {answer}")
            check("snapshot_id" not in answer.json and answer.json["detail"], f"{what}: {answer}")

        refused("nothing", b"")
        refused("something else", b"hello" * 100)
        refused("a tar archive", b"\0" * 10240)
        for n in (10, len(packed) // 2, len(packed) - 1):
            refused(f"the first {n} bytes", packed[:n])
        for n in (30, len(good) // 2, len(good) - 1):
            refused(f"the first {n} bytes, not packed", good[:n])
        refused("more behind its end", good + b"x")
        for at in (len(good) - 1, len(good) - 40, len(MAGIC) + 30, len(good) // 2):
            refused(f"another byte at {at}", good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
        for what, bad in hostile_manifests(manifest):
            refused(what, put_together(bad, rest))
        head = b"L" + manifest["layers"][0]["measure"].replace(":", "-").encode()
        for what, tree in hostile_trees():
            refused(what, put_together({**manifest, "layers": manifest["layers"][:1]}, head + tree))
        huge = subprocess.run(["zstd", "-c"], input=MAGIC + struct.pack("<I", 2**32 - 1), stdout=subprocess.PIPE, check=True).stdout
        refused("a huge manifest", huge)
        equal(len(d.api.get("/v1/snapshots").json["snapshots"]), count, "snapshots")
        nothing_is_left(d, kept)
        upload(d, packed).expect(201)


@test(only="root", because="the daemon is the same")
def bombs_are_refused(c):
    """Few bytes that would be many: content, names, and the time it takes."""
    with Daemon(c, config="images: {free_min: 0, max_bytes: 8M}") as d:
        box = d.create()
        run(d, box, ["sh", "-c", "head -c 20000000 /dev/zero >/root/zeros"])
        data = export(d, snapshot(d, box)["snapshot_id"])
        check(len(data) < 100000, f"{len(data)}")
        kept = layers(d)
        upload(d, data).expect(413, code="too_big")
        upload(d, os.urandom(9 << 20)).expect(413, code="too_big")
        nothing_is_left(d, kept)


@test
def whoever_dies_nothing_is_left(c):
    d = Daemon(c, config=CONFIG)
    d.start()
    with d:
        box = d.create()
        make(d, box, "/root/all")
        before = look(d, box, "/root")
        data = export(d, snapshot(d, box, name="one")["snapshot_id"])
        kept = layers(d)
        for point in ("import.record", "layers.rename", "layers.renamed", "layers.done"):
            d.stop()
            d.start(SANDBOXER_DIE_AT=f"{point}:1")
            try:
                upload(d, data).expect(502, code="upstream")
            except Cut:
                d.wait()
            if not d.alive:
                d.start()
            d.stop()
            d.start()
            equal(len(d.api.get("/v1/snapshots").json["snapshots"]), 1, f"{point}: snapshots")
            nothing_is_left(d, kept)
        made = upload(d, data).expect(201).json["snapshot_id"]
        same(before, look(d, d.create(snapshot=made), "/root"), "what was imported")


@test
def the_command_line_moves_them(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli.sh(box, "echo data >/root/data").expect(0)
        cli("snapshot", box, "--name", "one").expect(0)
        path = c.mkdir(c.dir / "files") / "one.snapshot"
        cli("snapshots", "export", "one", path).expect(0)
        equal(os.listdir(path.parent), ["one.snapshot"], "the file")
        made = cli("snapshots", "import", path, "--name", "two", "-q").expect(0).text
        equal(cli.json("snapshots", "get", "two")["snapshot_id"], made, "by its name")
        other = cli("restore", "two", "-q").expect(0).text
        equal(cli.sh(other, "cat /root/data").expect(0).text, "data", "what was moved")
        cli("snapshots", "export", "none", path.parent / "none").expect(3)
        equal(os.listdir(path.parent), ["one.snapshot"], "no file")
        c.write("files/bad", "bad")
        cli("snapshots", "import", path.parent / "bad").expect(2, says="not a snapshot file")
        cli("snapshots", "import", path.parent / "missing").expect(125)


if __name__ == "__main__":
    main()
