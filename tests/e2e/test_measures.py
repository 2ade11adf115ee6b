#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""What captured layers hold is on record: damage is seen, one content is kept once, and whoever dies meanwhile."""

import contextlib
import os
import sqlite3
import subprocess

from client import Client
from daemon import DRIVER, Cut, Daemon
from harness import PLAIN, check, equal, main, test, wait_for
from snapshots import CHANGE, RUN, image, image_import, root
from trees import layers, look, make, run, same, snapshot, unfinished
from volumes import volume

AT_ONCE = f"storage: {{driver: {DRIVER}, measure_after: 0}}\nimages: {{free_min: 0}}"
NEVER = f"storage: {{driver: {DRIVER}, measure_after: 1d}}\nimages: {{free_min: 0}}"


@contextlib.contextmanager
def store(d):
    """To read: a backup, because the store itself is the daemon's alone while it runs."""
    path = d.state / "daemon/sandboxer.db"
    if d.alive:
        path = d.dir / "backup"
        path.write_bytes(d.api.get("/v1/backup").expect(200).data)
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        yield db


def rows(d):
    """What the store has of layers: their measures."""
    with store(d) as db:
        return dict(db.execute("SELECT name, measure FROM layers"))


def captured(d):
    return [name for name in layers(d) if name.startswith("lay_")]


def digests(d, snap):
    return d.api.get(f"/v1/snapshots/{snap}").expect(200).json["digests"]


def measured(d, snap):
    """Its digests, when all of them are there."""
    wait_for(lambda: None not in digests(d, snap), "it is measured by itself")
    return digests(d, snap)


def filled(d, text="content", **request):
    box = d.create(**request)
    run(d, box, ["sh", "-c", f"mkdir /root/d; echo {text} >/root/d/f; ln -s f /root/d/l"])
    return box


def damage(d, layer, path="root/d/f"):
    """One bit of one byte, and nothing else of it, as a disk does it."""
    path = d.state / "storage/layers" / layer / "fs" / path
    before = os.stat(path)
    with open(path, "r+b") as f:
        byte = f.read(1)
        f.seek(0)
        f.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@test
def it_happens_by_itself(c):
    with Daemon(c, config=AT_ONCE) as d:
        box = filled(d)
        make(d, box, "/tmp/all")
        snap = snapshot(d, box)["snapshot_id"]
        first = measured(d, snap)
        check(len(first) == 1 and first[0].startswith("sha256:") and len(first[0]) == 71, f"{first}")
        equal(rows(d), {captured(d)[0]: first[0]}, "what is on record")
        check("digests" not in d.api.get("/v1/snapshots").json["snapshots"][0], "a list has none")
        # A second layer, which is the uppermost; what the layers of pauses and forks hold is on record, too.
        other = d.create(snapshot=snap)
        run(d, other, ["sh", "-c", "echo more >/root/more"])
        second = measured(d, snapshot(d, other)["snapshot_id"])
        equal((len(second), second[1]), (2, first[0]), "the digests of two layers")
        d.api.post(f"/v1/sandboxes/{other}/pause").expect(200)
        d.api.post(f"/v1/sandboxes/{other}/stop").expect(200)
        d.api.post(f"/v1/sandboxes/{other}/resume").expect(200)
        d.api.post(f"/v1/sandboxes/{box}/fork", {"count": 1}).expect(201)
        wait_for(lambda: sorted(n for n, m in rows(d).items() if m) == captured(d), "all that is there is measured")


@test
def what_has_no_measure_gets_one_at_the_next_start(c):
    with Daemon(c, config=NEVER) as d:
        box = filled(d)
        snap = snapshot(d, box)["snapshot_id"]
        image_import(d, image({**RUN, "User": "0"}))
        equal((digests(d, snap), [n for n in rows(d) if n.startswith("lay_")]), ([None], []), "nobody has looked at it")
        name = captured(d)[0]
        d.stop()
        with contextlib.closing(sqlite3.connect(f"{d.state}/daemon/sandboxer.db")) as db:  # as an older version left it
            db.execute("UPDATE layers SET measure = ''")
            db.commit()
        d.config.write_text(d.config.read_text().replace("1d", "0"))
        d.start()
        first = measured(d, snap)
        wait_for(lambda: all(rows(d).values()), "the layers of images, too")
        equal(rows(d)[name], first[0], "what is on record")
        Client(d)("image", "verify", "box:1").expect(0)


@test
def verify_looks_at_every_layer(c):
    with Daemon(c, config=NEVER) as d:
        cli = Client(d)
        image_import(d, image({**RUN, "User": "0"}))
        box = d.create(image="box:1")
        root(d, box, CHANGE)
        snap = snapshot(d, box, name="one")["snapshot_id"]
        first = cli.json("snapshots", "verify", snap)
        equal((first["snapshot_id"], first["layers"], first["first_time"]), (snap, 5, 1), "the first time")
        check(first["bytes"] > 0, f"{first}")
        again = cli.json("snapshots", "verify", snap)
        equal((again["layers"], again["first_time"], again["bytes"]), (5, 0, first["bytes"]), "the second time")
        check("5 layers" in cli("snapshots", "verify", snap).expect(0).text, "it is said how many")
        check(digests(d, snap)[0].startswith("sha256:"), "its digest is on record")
        cli("snapshots", "verify", "none").expect(3)
        # The image's layers are a part of it.
        name = next(n for n in layers(d) if (d.state / "storage/layers" / n / "fs/etc/marker").exists())
        damage(d, name, "etc/marker")
        for what in (("image", "verify", "box:1"), ("snapshots", "verify", snap)):
            check(name[:19] in cli(*what).expect(4, says="is damaged").notes, "the layer is named")


@test
def damage_is_seen_after_a_restart(c):
    # Without a daemon, a btrfs in a file is not mounted.
    with Daemon(c, config="storage: {driver: memory, measure_after: 0}\nimages: {free_min: 0}") as d:
        cli = Client(d)
        box = filled(d)
        good = snapshot(d, box, name="good")["snapshot_id"]
        other = d.create(snapshot=good)
        run(d, other, ["sh", "-c", "mkdir /root/e; echo more >/root/e/f"])
        above = snapshot(d, other, name="above")["snapshot_id"]
        alone = snapshot(d, filled(d, "another"), name="alone")["snapshot_id"]
        for snap in (good, above, alone):
            measured(d, snap)
        d.stop()
        bottom = next(n for n in layers(d) if rows(d)[n] == digests_of(d, good))
        damage(d, bottom)
        d.start()
        for snap in (good, above):
            check(bottom in cli("snapshots", "verify", snap).expect(4, says="is damaged").notes, "the layer is named")
        cli("snapshots", "verify", alone).expect(0)
        equal(d.api.post(f"/v1/snapshots/{good}/verify").expect(409, code="conflict").json["code"], "conflict", "over HTTP")
        # Nothing that is damaged is told as exported, nor committed.
        target = c.dir / "file"
        cli("snapshots", "export", above, target).expect(4, says="damaged")
        check(not target.exists(), "a file of a damaged snapshot is there")
        cli("snapshots", "export", alone, target).expect(0)
        damage(d, bottom)  # the same bit again
        for snap in (good, above):
            cli("snapshots", "verify", snap).expect(0)


def digests_of(d, snap):
    """Without a daemon."""
    with store(d) as db:
        (names,), = db.execute("SELECT layers FROM snapshots WHERE id = ?", (snap,))
        return rows(d)[names.split()[0]]


@test
def rows_go_with_their_layers(c):
    with Daemon(c, config=AT_ONCE) as d:
        cli = Client(d)
        image_import(d, image({**RUN, "User": "0"}))
        images = set(rows(d))
        box = d.create(image="box:1")
        root(d, box, CHANGE)
        cli("commit", box, "made:1").expect(0)
        snap = snapshot(d, d.create(image="made:1"))["snapshot_id"]
        file = c.dir / "file"
        measured(d, snap)
        cli("snapshots", "export", snap, file).expect(0)
        moved = cli.json("snapshots", "import", file, "--name", "moved")["snapshot_id"]
        check(None not in digests(d, moved), "what was imported is on record at once")
        wait_for(lambda: sorted(rows(d)) == layers(d), "everything has a row")
        for b in d.list():
            d.destroy(b["sandbox_id"])
        for s in (snap, moved):
            d.api.delete(f"/v1/snapshots/{s}").expect(204)
        cli("image", "remove", "made:1").expect(0)
        wait_for(lambda: set(rows(d)) == images and set(layers(d)) == images and unfinished(d) == [], "only the image is left")
        # A row of nothing, and one of a layer that nobody names.
        box = filled(d)
        gone = snapshot(d, box)["snapshot_id"]
        measured(d, gone)
        d.stop()
        with contextlib.closing(sqlite3.connect(f"{d.state}/daemon/sandboxer.db")) as db:
            db.execute("INSERT INTO layers VALUES ('lay_00000000000000000000', 'sha256:x', 1, 1, 1)")
            db.execute("DELETE FROM snapshots WHERE id = ?", (gone,))
            db.commit()
        d.start()
        wait_for(lambda: set(rows(d)) == images and set(layers(d)) == images and unfinished(d) == [], "what is nobody's is gone")


def three_of_one(d):
    with d:
        box = filled(d)
        make(d, box, "/tmp/all")
        snaps = []
        for _ in range(3):
            snaps.append(snapshot(d, box)["snapshot_id"])
            measured(d, snaps[-1])
        again = d.create(snapshot=snaps[0])
        before = look(d, again, "/root", "/tmp")
        d.destroy(again)
        wait_for(lambda: len(captured(d)) == 1 and unfinished(d) == [], "three snapshots of what did not change have one layer")
        other = snapshot(d, filled(d, "else"))["snapshot_id"]
        check(measured(d, other) != digests(d, snaps[0]), "another one is another one")
        equal(len(captured(d)), 2, "layers")
        d.stop()
        d.start()
        for gone in (0, 2):  # the one whose layer it was, and another
            d.api.delete(f"/v1/snapshots/{snaps[gone]}").expect(204)
            again = d.create(snapshot=snaps[1])
            same(before, look(d, again, "/root", "/tmp"), "what is left")
            d.destroy(again)
            Client(d)("snapshots", "verify", snaps[1]).expect(0)
        d.api.delete(f"/v1/snapshots/{snaps[1]}").expect(204)
        wait_for(lambda: len(captured(d)) == 1, "the last has gone with its layer")


@test
def what_is_the_same_is_kept_once(c):
    three_of_one(Daemon(c, config=AT_ONCE))


@test(only="root", because="only root mounts file systems")
def what_was_cloned_or_snapshotted_too(c):
    for kind, driver in (("btrfs", "btrfs"), ("xfs", "reflink")):
        with volume(c, kind) as top:
            three_of_one(Daemon(c, name=driver, config=AT_ONCE.replace(DRIVER, driver), state=top / "state"))


FULL = """
echo first >/root/f
sleep 0.05
head -c 40000000 /dev/zero >/root/fill; sync /root/fill
head -c 200000 /dev/zero >>/root/f && echo it has room
stat -c %s /root/f
"""


def read_from_disk_again(c, top):
    """Nothing of its file system is in memory any more."""
    wait_for(lambda: subprocess.run(["umount", top], capture_output=True).returncode == 0, "nobody uses it any more")
    subprocess.run(["mount", "-o", "loop", c.dir / "btrfs.img", top], check=True)


@test(only="root", because="only root mounts file systems, and limits them")
def what_a_full_disk_refused_is_not_measured(c):
    """btrfs leaves the time of a write that it refuses in memory alone: it is gone with the next time that the file is read from disk."""
    with volume(c, "btrfs", megabytes=512) as top:
        d = Daemon(c, config="storage: {driver: btrfs, measure_after: 0}\nimages: {free_min: 0}", state=top / "state", driver="btrfs")
        with d:
            box = d.create()
            answer = d.api.run(box, ["sh", "-c", FULL]).expect(200).json
            equal(answer["stdout"], "6\n", "what was written before and after its disk was full")
            d.api.post(f"/v1/sandboxes/{box}/stop").expect(200)
            snap = snapshot(d, box)["snapshot_id"]  # of what nothing runs in: no copy of it is made
            before = measured(d, snap)
        read_from_disk_again(c, top)
        with d:
            d.api.post(f"/v1/snapshots/{snap}/verify").expect(200)
            equal(digests(d, snap), before, "digests")
            equal(run(d, d.create(snapshot=snap), ["cat", "/root/f"]), "first\n", "what was written before")


@test
def what_is_damaged_is_not_kept_instead(c):
    with Daemon(c, config=AT_ONCE) as d:
        box = filled(d)
        first = snapshot(d, box)["snapshot_id"]
        measured(d, first)
        damage(d, captured(d)[0])
        second = snapshot(d, box)["snapshot_id"]
        equal(measured(d, second), digests(d, first), "the same, as far as the record says")
        wait_for(lambda: "layer.not_shared" in d.log_path.read_text(), "it was looked at")
        equal(len(captured(d)), 2, "the good one stays")
        Client(d)("snapshots", "verify", first).expect(4)
        Client(d)("snapshots", "verify", second).expect(0)


@test(only="root", because="other users reach only root's daemon")
def owners_share_nothing(c):
    with Daemon(c, config=AT_ONCE + '\nsocket: {mode: "0666"}') as d:
        os.chmod(d.dir, 0o755)

        def other(*argv):
            return subprocess.run([c.program(), *argv], user=PLAIN, group=PLAIN, extra_groups=[], capture_output=True,
                                  env={**c.environment, **Client(d).env}, check=False, cwd="/")
        file = c.dir / "file"
        mine = snapshot(d, filled(d))["snapshot_id"]
        measured(d, mine)
        Client(d)("snapshots", "export", mine, file).expect(0)
        os.chmod(c.dir, 0o755)
        os.chmod(file, 0o644)
        made = other("snapshots", "import", "-q", file)
        equal(made.returncode, 0, f"import by another user ({made.stderr})")
        theirs = made.stdout.decode().strip()
        equal(digests(d, theirs), digests(d, mine), "what they hold")
        again = snapshot(d, d.create())["snapshot_id"]  # when that is measured, what came before has been looked at
        measured(d, again)
        equal(len(captured(d)), 3, "nobody has another's")
        for argv in (("snapshots", "verify", mine), ("snapshots", "get", mine)):
            result = other(*argv)
            check(result.returncode == 3 and b"not_found" in result.stderr, f"{argv}: {result}")
        equal(other("snapshots", "verify", theirs).returncode, 0, "one's own")


@test(seconds=300)
def whoever_dies_while_it_is_measured(c):
    d = Daemon(c, config=AT_ONCE)
    with d:
        box = filled(d)
        before = look(d, box, "/root")
        for point in ("measure.begin:1", "measure.record:1", "measure.stored:1", "measure.done:1", "share.record:1",
                      "share.stored:1", "layers.forget:1"):
            first = snapshot(d, box)["snapshot_id"]
            measured(d, first)
            d.stop()
            d.start(SANDBOXER_DIE_AT=point)
            with contextlib.suppress(Cut):  # it may, before it has answered
                if point.startswith("layers."):
                    d.api.delete(f"/v1/snapshots/{first}")
                snapshot(d, box)
            d.wait()
            d.start()
            same(before, look(d, box, "/root"), f"{point}: the sandbox")
            for s in d.api.get("/v1/snapshots").json["snapshots"]:
                measured(d, s["snapshot_id"])
                Client(d)("snapshots", "verify", s["snapshot_id"]).expect(0)
                again = d.create(snapshot=s["snapshot_id"])
                same(before, look(d, again, "/root"), f"{point}: restored")
                d.destroy(again)
                d.api.delete(f"/v1/snapshots/{s['snapshot_id']}").expect(204)
            wait_for(lambda: not rows(d) and not captured(d) and unfinished(d) == [], f"{point}: nothing is left")


if __name__ == "__main__":
    main()
