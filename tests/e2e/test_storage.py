#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Where sandboxes write to: each driver does what it says, says so, and leaves nothing."""

import contextlib
import glob
import json
import os
import signal
import subprocess
import threading

import trees
from daemon import Daemon
from harness import Failure, check, equal, main, processes, test, wait_for
from trees import boxes, layers, look, make, run, snapshot, supervisor, unfinished
from volumes import fill, kill_companion, volume

PLACES = (("plain", None), ("reflink", "xfs"), ("btrfs", "btrfs"))
SMALL = "storage: {{driver: {driver}, size: 256M}}\nimages: {{free_min: 0}}"
FILE = SMALL.format(driver="btrfs")
LARGE = """\
id: profile.large
version: 1
ttl: {default: 10m, max: 1h, idle_reap: 0}
resources: {cpu: 1, memory_mb: 128, pids: 64, disk_mb: 8192}
pool: {min: 0, max: 0}
"""
FULL = "images: {free_min: 0}"  # small disks may be filled


def host(d):
    return d.api.get("/v1/inspect/host").expect(200).json


@contextlib.contextmanager
def place(c, driver, kind, **more):
    """A daemon that writes with this driver."""
    with contextlib.ExitStack() as stack:
        top = stack.enter_context(volume(c, kind)) if kind else c.dir
        yield Daemon(c, driver=driver, state=top / "state", **more)


def same(before, after, what):
    """But for holes, which are up to the file system: xfs fills what is about to be written."""
    def solid(lines):
        return [line[:7] + line[8:] if len(line) > 9 else line for line in lines]
    trees.same(solid(before), solid(after), what)


def everything_comes_back(d):
    with d:
        equal(host(d)["storage_driver"], d.driver, "driver")
        box = d.create()
        check(box in boxes(d), f"{boxes(d)}")
        make(d, box, "/root/all")
        before = look(d, box, "/root")
        snap = snapshot(d, box)
        check(snap["bytes"] > 5000 and snap["entries"] > 10, f"{snap}")
        run(d, box, ["sh", "-c", "echo later >/root/later; rm -r /root/all/deep"])
        other = d.create(snapshot=snap["snapshot_id"])
        same(before, look(d, other, "/root"), "what was restored")
        # On top of it: changed, added, removed; and copies of that.
        run(d, other, ["sh", "-c", "echo more >/root/more; rm /root/all/plain; chmod 700 /root/all/sticky"])
        before = look(d, other, "/root")
        forks = d.api.post(f"/v1/sandboxes/{other}/fork", {"count": 2}).expect(201).json["sandboxes"]
        for fork in forks:
            same(before, look(d, fork["sandbox_id"], "/root"), "a fork")
        check({fork["sandbox_id"] for fork in forks} < set(boxes(d)), f"{boxes(d)}")
        d.api.delete(f"/v1/snapshots/{snap['snapshot_id']}").expect(204)

def a_pause_copies_nothing(d):
    """What was written stays where it is, and becomes a layer if the processes die."""
    with d:
        box = d.create()
        make(d, box, "/root/all")
        before = look(d, box, "/root")
        had = set(layers(d))
        d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
        check(set(layers(d)) <= had, f"{had} became {layers(d)}")
        copy = d.create(snapshot=snapshot(d, box)["snapshot_id"])
        same(before, look(d, copy, "/root"), "a snapshot of a paused one")
        d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
        for kept in (False, True, False):
            d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
            inode = os.stat(d.state / "storage/boxes" / box / "fs").st_ino
            first = supervisor(d, box)
            d.kill()
            os.kill(first, signal.SIGKILL)
            wait_for(lambda: first not in processes(), "its processes are gone")
            d.start()
            if kept:  # in which nothing runs any more: it is the layer, and so it is for the one that is built again
                copy = d.create(snapshot=snapshot(d, box)["snapshot_id"])
                check(box not in boxes(d), "it was copied")
                same(before, look(d, copy, "/root"), "a snapshot of one whose processes are gone")
            answer = d.api.post(f"/v1/sandboxes/{box}/resume").expect(200).json
            check("gone" in answer["reason"], f"{answer['reason']}")
            same(before, look(d, box, "/root"), "its files, built again")
            check(any(os.stat(d.state / "storage/layers" / x / "fs").st_ino == inode for x in layers(d)), "it was copied")
        for s in d.api.get("/v1/snapshots").json["snapshots"]:
            d.api.delete(f"/v1/snapshots/{s['snapshot_id']}").expect(204)


def what_nobody_uses_is_removed(d):
    with d:
        box, other = d.create(), d.create(profile="profile.pooled")
        wait_for(lambda: len(boxes(d)) >= 4, "the pool is filled")
        d.destroy(other)
        wait_for(lambda: other not in boxes(d), "with its sandbox")
        d.kill()
        os.kill(supervisor(d, box), signal.SIGKILL)
        stray = d.state / "storage/boxes/sbx_0123456789abcdefghjk"
        for path in (stray, stray / "fs"):
            d.c.mkdir(path)
        d.start()
        wait_for(lambda: box not in boxes(d) and stray.name not in boxes(d), "at the start")
    with d:  # what the last life had no time for
        wait_for(lambda: not layers(d) and not unfinished(d), "nothing is left")


for DRIVER, KIND in PLACES:
    def story(c, driver=DRIVER, kind=KIND):
        with place(c, driver, kind) as d:
            everything_comes_back(d)
            a_pause_copies_nothing(d)
            what_nobody_uses_is_removed(d)
    story.__name__ = f"{DRIVER}_does_what_it_says"
    test(story)


# 100 GiB of which next to nothing is there, and what can be told of it without reading all that.
LONG = r"""
import json, os, sys
if sys.argv[1] == "make":
    with open("/root/long", "wb") as f:
        f.truncate(100 << 30); f.seek(50 << 30); f.write(b"middle")
fd = os.open("/root/long", os.O_RDONLY)
st, data = os.fstat(fd), os.lseek(fd, 0, os.SEEK_DATA)
print(json.dumps([st.st_size, st.st_blocks < 512, data <= 50 << 30 < os.lseek(fd, data, os.SEEK_HOLE),
                  os.pread(fd, 8, 50 << 30).hex(), os.pread(fd, 8, 0).hex()]))
"""


def long_files_are_captured(d):
    """A limit is one of bytes that are there."""
    def look_at(box, how="look"):
        return json.loads(run(d, box, ["python3", "-c", LONG, how]))
    with d:
        box = d.create()
        before = look_at(box, "make")
        equal(before, [100 << 30, True, True, b"middle\0\0".hex(), bytes(8).hex()], "what was made")
        snap = snapshot(d, box)
        check(snap["bytes"] < 1 << 20, f"{snap['bytes']} bytes")
        equal(look_at(d.create(snapshot=snap["snapshot_id"])), before, "what was restored")
        d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
        first = supervisor(d, box)
        d.kill()
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: first not in processes(), "its processes are gone")
        d.start()
        d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
        equal(look_at(box), before, "what was paused")
        for s in d.api.get("/v1/snapshots").json["snapshots"]:
            d.api.delete(f"/v1/snapshots/{s['snapshot_id']}").expect(204)


@test
def holes_do_not_count(c):
    for driver, kind in (("memory", None), *PLACES):
        if c.root or not kind:
            with place(c, driver, kind) as d:
                long_files_are_captured(d)


@test
def limits_hold_or_it_is_said(c):
    with Daemon(c, driver="plain") as d:
        equal(host(d)["storage_limited"], False, "limited")
        check("storage.driver" in d.log_path.read_text(), "the log does not say so")
        box = d.create()
        check("disk limit not enforced here" in d.get(box)["notes"], f"{d.get(box)}")
        found = json.loads(c.cli("doctor", "-o", "json", env={"SANDBOXER_SOCKET": str(d.socket),
                                                              "SANDBOXER_STATE": str(d.state)}).out)["checks"]
        row = next(r for r in found if r["check"] == "storage")
        check(row["state"] == "warn" and "plain" in row["found"] and "limits" in row["found"], f"{row}")
    with Daemon(c, name="memory", driver="memory") as d:
        equal(host(d)["storage_limited"], True, "limited")
        box = d.create()
        check(d.api.run(box, ["sh", "-c", "head -c 40000000 /dev/zero >/root/large"]).json["exit_code"] != 0, "no limit")
        equal(boxes(d), [], "boxes")


@test(only="root", because="only root can set btrfs quotas")
def btrfs_holds_to_limits(c):
    with place(c, "btrfs", "btrfs") as d, d:
        equal(host(d)["storage_limited"], True, "limited")
        box = d.create()
        answer = d.api.run(box, ["sh", "-c", "head -c 60000000 /dev/urandom >/root/large; sync /root/large; "
                                 "head -c 1000000 /dev/urandom >/root/more && sync /root/more"]).expect(200).json
        check(answer["exit_code"] != 0 and "quota" in answer["stderr"].lower(), f"{answer}")
        run(d, box, ["rm", "/root/large"])
        run(d, box, ["sh", "-c", "echo small >/root/small"])
    with volume(c, "btrfs", quota=False) as top, Daemon(c, name="unlimited", state=top / "state") as d:
        equal((host(d)["storage_driver"], host(d)["storage_limited"]), ("btrfs", False), "without quotas")
        check("quota" in host(d)["storage_why"], host(d)["storage_why"])


@test(only="root", because="only root can set btrfs quotas")
def a_sandbox_at_its_limit_is_captured(c):
    with place(c, "btrfs", "btrfs") as d, d:
        for pause in (False, True):
            box = d.create()
            for name in ("large", "more", "last"):  # what is refused gives some of it back
                d.api.run(box, ["sh", "-c", f"head -c 60000000 /dev/urandom >/root/{name}; sync /root/{name}"]).expect(200)
            d.api.run(box, ["sh", "-c", "i=0; while echo >/root/small-$i; do i=$((i+1)); done"]).expect(200)
            before = look(d, box, "/root")
            if pause:
                d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
                d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
                same(before, look(d, box, "/root"), "what was paused")
            else:
                snap = snapshot(d, box)["snapshot_id"]
                same(before, look(d, d.create(snapshot=snap), "/root"), "what was captured")


# To the last byte: what is refused gives some of it back when it was forced to disk.
FILL = """
import errno, os, sys
root = os.open("/root", os.O_RDONLY)
os.makedirs("/root/deep/" + "/".join("d" * 40 for _ in range(20)))
open("/etc/of-its-own", "w").write("x")
def data(i):
    with open(f"/root/data-{i}", "wb", 0) as f:
        for _ in range(64):
            f.write(os.urandom(1 << 16))
def files(i):
    for k in range(64):
        with open(f"/root/file-{i}-{k}", "wb", 0) as f:
            f.write(os.urandom(1500))
def attributes(i):
    with open(f"/root/attributes-{i}", "wb", 0) as f:
        for k in range(8):
            os.setxattr(f.fileno(), f"user.{k}", os.urandom(1400))
def directories(i):
    for k in range(64):
        os.mkdir(f"/root/directory-{i}-{k}")
fills = {f.__name__: f for f in (data, files, attributes, directories)}
for n, name in enumerate((sys.argv[1], "files", "directories")):
    refused = 0
    for i in range(1000000):
        try:
            fills[name](f"{n}-{i}")
            refused = 0
        except OSError as e:
            assert e.errno in (errno.EDQUOT, errno.ENOSPC), e
            refused += 1
            os.fsync(root)  # the kernel writes everything back before it refuses for good
            if refused == 3:
                break
print("full")
"""


TINY = """\
id: profile.tiny
version: 1
ttl: {default: 10m, max: 1h, idle_reap: 0}
resources: {cpu: 1, memory_mb: 128, pids: 64, disk_mb: 6}
pool: {min: 0, max: 0}
"""


def digest(d, box):
    """Of all that look() sees, which may be too long for an answer."""
    return run(d, box, ["sh", "-c", 'python3 -c "$1" /root | sha256sum', "-", trees.LOOK])


@test(only="root", because="only root sets quotas")
def whatever_fills_a_box_it_is_captured(c):
    with place(c, "btrfs", "btrfs") as d, d:
        c.write("daemon/profiles/tiny.yaml", TINY)
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: d.api.get("/v1/profiles/profile.tiny").status == 200, "the profile is read")
        for kind in ("data", "files", "attributes", "directories"):
            box = d.create(profile="profile.tiny")
            filled = d.api.run(box, ["python3", "-c", FILL, kind]).expect(200).json
            equal(filled["stdout"], "full\n", f"{kind}: {filled}")
            before = digest(d, box)
            snap = snapshot(d, box)
            check(snap["entries"] > 20, f"{kind}: {snap}")
            other = d.create(snapshot=snap["snapshot_id"])
            equal(digest(d, other), before, f"{kind}: what was captured")
            for one in (box, other):
                d.api.post(f"/v1/sandboxes/{one}/pause").expect(200)
                d.api.post(f"/v1/sandboxes/{one}/resume").expect(200)
                equal(digest(d, one), before, f"{kind}: what was paused")
                d.destroy(one)
            d.api.delete(f"/v1/snapshots/{snap['snapshot_id']}").expect(200, 204)


@test(only="root", because="only root sets quotas")
def a_full_sandbox_gets_room_again(c):
    """Also if its disk is full of a file that it cannot remove, because a layer below has it, too."""
    with place(c, "btrfs", "btrfs") as d, d:
        first = d.create()
        run(d, first, ["sh", "-c", "echo below >/root/large"])
        box = d.create(snapshot=snapshot(d, first)["snapshot_id"])
        run(d, box, ["sh", "-c", "head -c 2000000 /dev/urandom >/root/own"])

        def fill_up():
            for _ in range(3):  # what is refused gives some of it back
                d.api.run(box, ["sh", "-c", "head -c 60000000 /dev/urandom >>/root/large; sync /root/large"]).expect(200)

        fill_up()
        run(d, box, ["rm", "/root/own"])
        run(d, box, ["sh", "-c", "head -c 1000000 /dev/urandom >/root/own && rm /root/own"])
        fill_up()
        before = run(d, box, ["sh", "-c", "sha256sum </root/large"])
        for verb in ("stop", "resume"):
            d.api.post(f"/v1/sandboxes/{box}/{verb}").expect(200)
        equal(run(d, box, ["sh", "-c", "sha256sum </root/large"]), before, "what it had")
        run(d, box, ["rm", "/root/large"])
        run(d, box, ["sh", "-c", "head -c 20000000 /dev/urandom >/root/new; sync /root/new"])


@test(only="root", because="only root has subvolumes removed as a whole")
def subvolumes_in_a_box_go_with_it(c):
    """No program in a sandbox can make them; earlier versions allowed it, and read-only ones in others, too."""
    with volume(c, "btrfs") as top, Daemon(c, driver="btrfs", state=top / "state") as d:
        def subvolumes():
            return subprocess.run(["btrfs", "subvolume", "list", top], check=True, capture_output=True, text=True).stdout

        box, taken = d.create(), d.create()
        for each in (box, taken):
            run(d, each, ["mkdir", "-p", "/root/a/b"])
            below = d.state / "storage/boxes" / each / "fs/root/a/b"
            for name in ("one", "one/two", "one/two/three", "other"):
                subprocess.run(["btrfs", "subvolume", "create", below / name], check=True, capture_output=True)
                (below / name / "file").write_text("content\n")
            for name in ("one", "one/two/three", "other"):
                subprocess.run(["btrfs", "property", "set", below / name, "ro", "true"], check=True)
        snap = snapshot(d, taken)["snapshot_id"]
        equal(subvolumes().count("/fs/root/a/b/"), 8, "subvolumes in boxes")
        d.api.post(f"/v1/sandboxes/{taken}/stop").expect(200)
        d.destroy(box)
        d.destroy(taken)
        d.api.delete(f"/v1/snapshots/{snap}").expect(204)
        wait_for(lambda: "/fs/root/a/b/" not in subvolumes(), f"they go\n{d.tail()}")
        wait_for(lambda: not os.listdir(d.state / "storage/tmp"), f"nothing is left in tmp/\n{d.tail()}")


@test(only="root", because="only root sets quotas")
def a_box_that_is_empty_takes_little(c):
    """A thousand of them together no more than some half a gigabyte, of which metadata is half."""
    with place(c, "btrfs", "btrfs") as d, d:
        def taken():
            subprocess.run(["sync", "-f", d.state], check=True)
            return (s := os.statvfs(d.state)).f_frsize * (s.f_blocks - s.f_bfree)

        d.create()
        before = taken()
        for _ in range(8):
            d.create()
        each = (taken() - before) / 8
        check(each < 600 << 10, f"{each / 1024:.0f} KiB each")


def on_loop(image):
    """The loop devices of this file. Those of others come and go meanwhile."""
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        with contextlib.suppress(OSError), open(path) as f:
            found += [path] if f.read().strip() == str(image) else []
    return found


@test(only="root", because="a plain user has no file system in a file")
def a_btrfs_in_a_file(c):
    with volume(c, "ext4", megabytes=600) as top:
        d = Daemon(c, driver="btrfs", config=FILE, state=top / "state")
        image = d.state / "storage.btrfs"
        with d:
            equal((host(d)["storage_driver"], host(d)["storage_limited"]), ("btrfs", True), "driver")
            box = d.create()
            make(d, box, "/root/all")
            before = look(d, box, "/root")
            snap = snapshot(d, box)["snapshot_id"]
            second = Daemon(c, name="second", driver="btrfs", config=FILE, state=top / "state")
            check(not second.spawn() and "another daemon" in second.tail(), second.tail())
            for kill in (True, False):  # sandboxes live on, with the same file system
                if kill:
                    d.kill()
                else:
                    d.stop()
                d.start()
                equal(len(on_loop(image)), 1, "loop devices")
                same(before, look(d, box, "/root"), "its files")
            other = d.create(snapshot=snap)
            same(before, look(d, other, "/root"), "what was restored")
        check(not os.path.ismount(d.state / "storage"), "it is still mounted")
        wait_for(lambda: not on_loop(image), "the loop device goes")
        with d:
            same(before, look(d, d.create(snapshot=snap), "/root"), "after a restart")
    with volume(c, "ext4", megabytes=600) as top:  # layers that are there already would be hidden
        with Daemon(c, name="old", driver="plain", config=FULL, state=top / "state") as d:
            snapshot(d, d.create())
        d = Daemon(c, name="new", driver="btrfs", config=FILE, state=top / "state")
        check(not d.spawn() and "would hide" in d.tail(), d.tail())
        with Daemon(c, name="kept", driver="auto", config=SMALL.format(driver="auto"), state=top / "state") as d:
            equal(host(d)["storage_driver"], "memory", "what is stored stays in sight")
            check("would hide" in host(d)["storage_why"], host(d)["storage_why"])


def nothing_is_mounted(d):
    check(not os.path.ismount(d.state / "storage"), "it is still mounted")
    wait_for(lambda: not on_loop(d.state / "storage.btrfs"), "the loop device goes")


@test(only="root", because="a plain user has no file system in a file")
def a_file_system_once_made_is_used(c):
    """Whatever is configured later, what is stored is there."""
    with volume(c, "ext4", megabytes=600) as top:
        with Daemon(c, name="auto", driver="auto", config=SMALL.format(driver="auto"), state=top / "state") as d:
            equal((host(d)["storage_driver"], host(d)["storage_limited"]), ("btrfs", True), "driver")
            snap = snapshot(d, d.create())["snapshot_id"]
        nothing_is_mounted(d)
        for driver in ("memory", "plain", "reflink", "auto"):
            with Daemon(c, name=driver, driver=driver, config=SMALL.format(driver=driver), state=top / "state") as d:
                equal(host(d)["storage_driver"], "btrfs" if driver == "auto" else driver, "driver")
                d.works(d.create(snapshot=snap))
            nothing_is_mounted(d)


@test(only="root", because="a plain user has no file system in a file")
def without_room_or_programs_it_is_memory(c):
    with Daemon(c, name="full", driver="auto", config="images: {free_min: 1024T}") as d:
        equal(host(d)["storage_driver"], "memory", "driver")
        check("too full" in host(d)["storage_why"], host(d)["storage_why"])
        equal(sorted(p.name for p in d.state.glob("storage.btrfs*")), [], "files")
    hidden = ["unshare", "-m", "sh", "-c", "mount --bind /dev/null /usr/sbin/mkfs.btrfs && exec \"$@\"", "sh"]
    d = Daemon(c, name="missing", driver="auto").start(prefix=hidden)
    with d:
        equal(host(d)["storage_driver"], "memory", "driver")
        check("btrfs-progs" in host(d)["storage_why"], host(d)["storage_why"])
        found = json.loads(c.cli("doctor", "-o", "json", env={"SANDBOXER_SOCKET": str(d.socket),
                                                              "SANDBOXER_STATE": str(d.state)}).out)["checks"]
        row = next(r for r in found if r["check"] == "storage")
        check("memory" in row["found"] and "btrfs-progs" in row["found"], f"{row}")


def end_all(d):
    """As a machine ends that loses its power, but for what the kernel still writes: all processes at once.

    Each is stopped when it is found, so that none cleans up after another that was killed before it."""
    ours, more = set(), {d.process.pid}
    while more:
        for pid in more:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        ours |= more
        more = {pid for pid, (parent, _) in processes().items() if parent in ours} - ours
    for pid in ours - {d.process.pid}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    d.kill()
    wait_for(lambda: not ours & set(processes()), "all have gone")


def state_of(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0]
    return ""


@test(only="root", because="a plain user has no file system in a file")
def a_device_is_not_lost_as_it_is_found(c):
    """The last sandbox of an earlier life ends as the next daemon mounts the device that it has found: nobody else gets it meanwhile."""
    with volume(c, "ext4", megabytes=900) as top:
        d = Daemon(c, driver="btrfs", config=FILE, state=top / "state").start()
        box = d.create()
        run(d, box, ["sh", "-c", "echo kept >/root/f"])
        d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
        first, before = supervisor(d, box), d.process
        d.stop()

        def end_it():
            wait_for(lambda: d.process is not before and state_of(d.process.pid) == "T", "it has found the device", 50)
            os.kill(first, signal.SIGKILL)
            try:
                with contextlib.suppress(Failure):
                    wait_for(lambda: not on_loop(d.state / "storage.btrfs"), "its device is lost", 2)
            finally:
                os.kill(d.process.pid, signal.SIGCONT)
        end = threading.Thread(target=end_it)
        end.start()
        d.start(SANDBOXER_STOP_AT="volume.mount:1")
        end.join()
        with d:
            d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
            equal(run(d, box, ["cat", "/root/f"]), "kept\n", "what it had written")
        nothing_is_mounted(d)


@test(only="root", because="a plain user has no file system in a file")
def a_file_system_survives_unclean_ends(c):
    with volume(c, "ext4", megabytes=900) as top:
        d = Daemon(c, driver="btrfs", config=FILE, state=top / "state").start()
        image = d.state / "storage.btrfs"
        check(image.stat().st_blocks * 512 >= image.stat().st_size, "it is not allocated")
        box = d.create()
        make(d, box, "/root/all")
        before = look(d, box, "/root")
        snap = snapshot(d, box)["snapshot_id"]
        end_all(d)
        check(os.path.ismount(d.state / "storage"), "it was unmounted")
        d.start()  # on the mount that was left
        equal(len(on_loop(image)), 1, "loop devices")
        same(before, look(d, d.create(snapshot=snap), "/root"), "after a kill")
        end_all(d)
        copy = d.state / "copy"  # as it would be on disk after a cut of the power: mounted by nobody in good order
        subprocess.run(["umount", "-l", d.state / "storage"], check=True)
        subprocess.run(["cp", "--sparse=always", image, copy], check=True)
        wait_for(lambda: not on_loop(image), "the loop device goes")
        os.rename(copy, image)
        d.start()
        check(image.stat().st_blocks * 512 >= image.stat().st_size, "its holes are not filled")
        same(before, look(d, d.create(snapshot=snap), "/root"), "after a cut of the power")
        d.clear()
        nothing_is_mounted(d)
        with open(image, "r+b") as f:  # its superblocks
            for at in (64 << 10, 64 << 20):
                f.seek(at)
                f.write(bytes(4096))
        for driver in ("auto", "btrfs", "memory"):
            d = Daemon(c, name=f"damaged-{driver}", driver=driver, config=SMALL.format(driver=driver), state=top / "state")
            check(not d.spawn() and "btrfs check" in d.tail() and "storage.btrfs" in d.tail(), d.tail())
            nothing_is_mounted(d)


@test(only="root", because="a plain user has no file system in a file")
def snapshots_restores_and_forks_move_no_data(c):
    """On the storage that root has by default: what passes through its device does not depend on how much is captured."""
    d = Daemon(c, driver="auto", config="storage: {driver: auto, size: 1G, measure_after: 1d}")
    c.write(f"{d.dir.name}/profiles/profile.large.yaml", LARGE)
    with d:
        equal(host(d)["storage_driver"], "btrfs", "driver")
        (device,) = on_loop(d.state / "storage.btrfs")

        def moved():
            subprocess.run(["sync", "-f", d.state / "storage"], check=True)
            stat = open(device.removesuffix("loop/backing_file") + "stat").read().split()
            return (int(stat[2]) + int(stat[6])) * 512

        def cost(box, what, *request):
            before = moved()
            answer = d.api.post(*request).expect(201).json
            costs.setdefault(what, []).append(moved() - before)
            return answer

        costs = {}
        for megabytes in (1, 256):
            box = d.create(profile="profile.large")
            run(d, box, ["sh", "-c", f"head -c {megabytes}M /dev/urandom >/root/data; sync /root/data"])
            snap = cost(box, "snapshot", f"/v1/sandboxes/{box}/snapshot")["snapshot_id"]
            made = cost(box, "restore", "/v1/sandboxes", {"profile": "profile.large", "snapshot": snap})["sandbox_id"]
            equal(run(d, made, ["sh", "-c", "wc -c </root/data"]).strip(), str(megabytes << 20), "what was restored")
            cost(box, "fork", f"/v1/sandboxes/{box}/fork", {"count": 2})
        print(f"# bytes that were moved: {costs}")
        for what, (small, large) in costs.items():
            check(large < small + (8 << 20), f"{what}: {small} bytes of 1 MB, {large} of 256 MB")


def size_of(d):
    return (d.state / "storage.btrfs").stat().st_size >> 20


@test(only="root", because="a plain user has no file system in a file")
def it_grows_and_a_full_host_is_a_full_disk(c):
    """Never an I/O error: what was written can be read, and there is room again when something goes."""
    with volume(c, "ext4", megabytes=2900) as top:
        d = Daemon(c, driver="btrfs", config="storage: {driver: btrfs}\nimages: {free_min: 100M}", state=top / "state")
        # A program whose start cannot be recorded does not start.
        c.write(f"{d.dir.name}/profiles/profile.large.yaml", LARGE + "record_commands: none\n")
        with d:
            first = size_of(d)
            box = d.create(profile="profile.large")
            kill_companion(d, "sandboxer-grow")
            check("storage.grower_ended" in d.log_path.read_text(), "the end is not logged")
            write = "head -c {}M /dev/zero >/root/{} && sync /root/{}"
            run(d, box, ["sh", "-c", write.format(500, "one", "one")])
            wait_for(lambda: size_of(d) > first, "it grows")
            total = run(d, box, ["sh", "-c", "sha256sum </root/one"])
            left = os.statvfs(top)
            check(left.f_bavail * left.f_frsize >= 100 << 20, "more than free_min was taken")
            fill(top / "others")
            equal(os.statvfs(top).f_bavail, 0, "free blocks")
            answer = d.api.run(box, ["sh", "-c", write.format(4000, "two", "two")]).expect(200).json
            check(answer["exit_code"] != 0 and "No space" in answer["stderr"], f"{answer}")
            equal(run(d, box, ["sh", "-c", "sha256sum </root/one"]), total, "what was written")
            os.truncate(top / "others", os.stat(top / "others").st_size - (200 << 20))  # the store needs some; 145 are kept for root
            snap = snapshot(d, box)["snapshot_id"]
            check("No space" in d.api.run(box, ["sh", "-c", "head -c 50M /dev/zero >/root/three"]).json["stderr"], "three")
            d.api.delete(f"/v1/snapshots/{snap}").expect(204)
            run(d, box, ["rm", "-f", "/root/two", "/root/three"])
            # btrfs gives the room of a removed subvolume back after its next commit, which comes every 30 s.
            wait_for(lambda: d.api.run(box, ["sh", "-c", write.format(20, "four", "four")]).json["exit_code"] == 0, "there is room again", 100)
            other = d.create(snapshot=snapshot(d, box)["snapshot_id"])
            equal(run(d, other, ["sh", "-c", "sha256sum </root/one"]), total, "what was captured on a full host")
            (top / "others").unlink()
        nothing_is_mounted(d)


@test(only="root", because="a plain user has no file system in a file")
def it_grows_ahead_of_the_page_cache(c):
    """statfs() counts data that has no place on the disk yet as free: a burst would run into the end of the image."""
    with volume(c, "ext4", megabytes=2900) as top:
        d = Daemon(c, driver="btrfs", config="storage: {driver: btrfs}\nimages: {free_min: 100M}", state=top / "state")
        c.write(f"{d.dir.name}/profiles/profile.large.yaml", LARGE.replace("memory_mb: 128", "memory_mb: 16384"))
        with d:
            box, first = d.create(profile="profile.large"), size_of(d)
            run(d, box, ["sh", "-c", "head -c 600M /dev/zero >/root/burst"])
            wait_for(lambda: size_of(d) > first, "it grows", 10)  # the kernel writes the data after 30 s
            run(d, box, ["rm", "/root/burst"])
        nothing_is_mounted(d)


# All that it can see but what is not its own file system; hard links of one file count once.
NUMBERS = r"""
import os, stat, sys
seen = {}
for top, dirs, files in os.walk("/"):
    if top == "/":
        dirs[:] = [d for d in dirs if d not in ("proc", "sys", "dev", "run", "usr", "bin", "sbin", "lib", "lib64", "lib32", "libx32")]
    for path in (os.path.join(top, name) for name in dirs + files):
        st = os.lstat(path)
        if st.st_nlink == 1 or stat.S_ISDIR(st.st_mode):
            other = seen.setdefault((st.st_dev, st.st_ino), path)
            if other != path:
                sys.exit(f"{path} and {other} are both {st.st_dev}:{st.st_ino}")
print(len(seen))
"""


def numbers_differ(d, box, what):
    answer = d.api.run(box, ["python3", "-c", NUMBERS]).expect(200).json
    check(answer["exit_code"] == 0, f"{what}: {answer['stderr'][-300:]}")


def every_file_has_a_number_of_its_own(d):
    """Layers and the box are subvolumes, which number their files alike; cp, mv and cmp tell files apart by these numbers."""
    with d:
        box = d.create()
        for i in range(4):
            run(d, box, ["sh", "-c", f"mkdir -p /root/{i}; for n in $(seq 60); do echo {i} $n >/root/{i}/$n; done"])
            numbers_differ(d, box, f"on {i} layers")
            if i:  # files of all layers
                run(d, box, ["sh", "-c", f"for n in $(seq 60); do ! cmp -s /root/0/$n /root/{i}/$n || exit 1; done; "
                                         f"cp /root/0/7 /root/{i}/7 && cmp /root/0/7 /root/{i}/7"])
            if i == 2:  # a box that becomes a layer
                d.api.post(f"/v1/sandboxes/{box}/stop").expect(200)
                d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
            else:
                box = d.create(snapshot=snapshot(d, box)["snapshot_id"])
            numbers_differ(d, box, f"made again on {i} layers")
        run(d, box, ["sh", "-c", "for n in $(seq 3000); do echo >/root/many; rm /root/many; done"])  # more than a seed has ahead
        other = d.create(snapshot=snapshot(d, box)["snapshot_id"])
        run(d, other, ["sh", "-c", "for n in $(seq 200); do echo >/root/new$n; done"])
        numbers_differ(d, other, "after many")


@test(only="root", because="only root mounts file systems")
def numbers_of_files_do_not_collide(c):
    with place(c, "btrfs", "btrfs") as d:
        every_file_has_a_number_of_its_own(d)


@contextlib.contextmanager
def failing(d, fault):
    """The system calls of its keepers fail so, from now on."""
    with open(d.dir / "strace", "w") as log:
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"inject={fault}", "-p", str(d.process.pid)],
                                  stderr=log)
    try:
        wait_for(lambda: "TracerPid:\t0" not in open(f"/proc/{d.process.pid}/status").read(), "the tracer is there")
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()


def fails(d, box, what, code="system", verbs=("snapshot", "fork")):
    """No snapshot, no pause; the sandbox goes on, and nothing is left."""
    before, had = look(d, box, "/root"), layers(d)
    for verb in verbs:
        answer = d.api.post(f"/v1/sandboxes/{box}/{verb}", {})
        check(answer.code == code, f"{what}: {verb}: {answer}")
    equal(d.get(box)["state"] in ("ready", "active"), True, f"{what}: it goes on")
    same(before, look(d, box, "/root"), f"{what}: the sandbox")
    equal((layers(d), unfinished(d)), (had, []), f"{what}: what is on disk")


@test(only="root", because="only root mounts file systems and traces a daemon")
def what_fails_leaves_nothing(c):
    with volume(c, "ext4") as top, Daemon(c, driver="plain", config=FULL, state=top / "state") as d:
        box = d.create()
        make(d, box, "/root/all")
        for fault in ("syncfs:error=EIO", "renameat2:error=EIO", "mknodat:error=ENOSPC", "pwrite64:error=EIO"):
            with failing(d, fault):
                fails(d, box, fault)
        run(d, box, ["sh", "-c", "head -c 40000000 /dev/urandom >/root/large"])  # twice that is more than there is
        fails(d, box, "a full disk")
        run(d, box, ["rm", "/root/large"])
        snapshot(d, box)


@test
def what_is_copied_leaves_room(c):
    """And what adds no data needs none."""
    for driver, kind in (("memory", None), *PLACES):
        if not c.root and kind:
            continue
        with place(c, driver, kind, name=driver, config="images: {free_min: 1024T}") as d, d:
            box = d.create()
            make(d, box, "/root/all")
            before = look(d, box, "/root")
            if kind:
                other = d.create(snapshot=snapshot(d, box)["snapshot_id"])
                same(before, look(d, other, "/root"), f"{driver}: what was restored")
            else:
                fails(d, box, driver, "storage_full", ("snapshot", "fork", "pause") if driver == "memory" else ("snapshot", "fork"))
            if driver != "memory":
                d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
                d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)


@test
def auto_takes_the_best(c):
    for kind, driver in (("ext4", "btrfs" if c.root else "memory"), ("xfs", "reflink"), ("btrfs", "btrfs")):
        with volume(c, kind, megabytes=2600 if kind == "ext4" else 0) as top, Daemon(c, name=kind + "-daemon", state=top / "state", driver="auto") as d:
            equal(host(d)["storage_driver"], driver, f"on {kind}")


@test
def what_cannot_work_is_refused(c):
    with volume(c, "ext4") as top:
        for driver in ("reflink", "btrfs") if not c.root else ("reflink",):
            d = Daemon(c, name=driver, state=top / "state", driver=driver)
            check(not d.spawn(), f"{driver} on ext4")
            check(f"storage.driver: {driver} cannot be used" in d.tail(), d.tail())


@test(only="root", because="only root mounts file systems")
def overlayfs_on_overlayfs_is_refused(c):
    for part in ("lower", "upper", "work", "all"):
        c.mkdir(c.dir / part)
    subprocess.run(["mount", "-t", "overlay", "-o", f"lowerdir={c.dir}/lower,upperdir={c.dir}/upper,workdir={c.dir}/work",
                    "none", c.dir / "all"], check=True)
    try:
        d = Daemon(c, state=c.dir / "all/state", driver="plain")
        check(not d.spawn(), "plain on overlayfs")
        check("overlayfs" in d.tail() and "volume" in d.tail(), d.tail())
        with Daemon(c, name="auto", state=c.dir / "all/auto", driver="auto") as d:
            equal(host(d)["storage_driver"], "memory", "driver")
    finally:
        subprocess.run(["umount", c.dir / "all"], check=True)


if __name__ == "__main__":
    main()
