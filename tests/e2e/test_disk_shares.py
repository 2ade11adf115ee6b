#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The disk that sandboxes write to: each owner has a share of it, which its sandboxes and their snapshots have together. An owner at its
share has full disks; the others write, take snapshots and start processes as before."""

import contextlib
import os
import signal
import subprocess
import threading

from client import Client
from daemon import ApiAs, Daemon
from harness import PLAIN, check, equal, main, test, wait_for
from volumes import kill_companion, volume

OTHER = PLAIN + 1
MB = 1 << 20
ROOT = {"only": "root", "because": "only root sets quotas, and other users reach only root's daemon"}
SHARE = 64
CONFIG = 'socket: {{mode: "0666"}}\nimages: {{free_min: 0}}\nlimits: {{owner: {{disk: {share}M}}}}'
POOLED = "profile.pooled"


def daemon_on(c, top, name="daemon", share=SHARE):
    d = Daemon(c, name=name, driver="btrfs", state=top / "state", config=CONFIG.format(share=share))
    os.chmod(d.dir, 0o755)
    return d


def quotas(top):
    """The directory of the file system's quota groups in sysfs."""
    uuid = subprocess.run(["findmnt", "-n", "-o", "UUID", top], capture_output=True, text=True, check=True).stdout.split()[0]
    return f"/sys/fs/btrfs/{uuid}/qgroups"


def counts_are_right(top):
    """The kernel still counts what each sandbox has: without, it would enforce no limit."""
    with open(f"{quotas(top)}/inconsistent", encoding="ascii") as f:
        equal(f.read().strip(), "0", "quotas are inconsistent")


def full_owners(d):
    with contextlib.suppress(FileNotFoundError):
        return os.listdir(d.state / "storage/full")
    return []


# What btrfs does for a program without capabilities, as "NAME ERROR" lines. A subvolume has no disk limit.
NEST = """
import errno, fcntl, os, sys
requests = {"SUBVOL_CREATE": 0x5000940e, "SUBVOL_CREATE_V2": 0x50009418, "SNAP_CREATE": 0x50009401, "SYNC": 0x9408,
            "START_SYNC": 0x80089418, "WAIT_SYNC": 0x40089416, "SPACE_INFO": 0xc0109414, "FS_INFO": 0x8400941f}
place = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
for name, request in requests.items():
    args = bytearray(4096)
    args[0:8] = place.to_bytes(8, "little") if name == "SNAP_CREATE" else bytes(8)
    at = 56 if name.endswith("V2") else 8
    if "CREATE" in name:
        args[at:at + 6] = b"nested"
    try:
        fcntl.ioctl(place, request, args)
        print(name, "worked")
    except OSError as e:
        print(name, errno.errorcode[e.errno])
"""


def try_to_nest(d, api, box):
    """As each user inside, below a directory of its own on the disk."""
    for uid in (1000, 0):
        place = f"/var/tmp/of-{uid}"
        api.run(box, ["mkdir", place], user=str(uid)).expect(200)
        equal(os.stat(f"{d.state}/storage/boxes/{box}/fs{place}").st_uid, uid, "the owner of the directory, on the disk")
        answer = api.run(box, ["python3", "-c", NEST, place], user=str(uid)).expect(200).json
        equal([line for line in answer["stdout"].splitlines() if not line.endswith(" ENOTTY")], [], f"requests of uid {uid} that btrfs got")
        equal((answer["stderr"], len(answer["stdout"].splitlines())), ("", 8), "requests")


def fill(api, box, size=30, name="fill"):
    """Writes so much, to the disk: whether that worked."""
    answer = api.run(box, ["sh", "-c", f"head -c {size * MB} /dev/urandom >/root/{name} && sync /root/{name}"]).expect(200).json
    check(answer["exit_code"] == 0 or "quota" in answer["stderr"].lower(), f"{answer}")
    return answer["exit_code"] == 0


def fill_share(d, api, boxes):
    """Until nothing more fits: in how many sandboxes it did."""
    fitted = sum(fill(api, box) for box in boxes)
    wait_for(lambda: full_owners(d), "its share is used up")
    return fitted


def others_work(d, other, box):
    check(fill(other, box, 20), "another owner cannot write")
    other.post(f"/v1/sandboxes/{box}/snapshot", {}).expect(201)
    other.background(box, "sleep 1000").expect(201)
    other.works(other.create())
    check(fill(d.api, d.create(), 20), "an administrator cannot write")


@test(**ROOT, seconds=120)
def an_owner_fills_its_share_and_no_others(c):
    with volume(c, "btrfs", 320) as top, daemon_on(c, top) as d:
        one, other = ApiAs(d, PLAIN), ApiAs(d, OTHER)
        theirs = other.create()
        boxes = [one.create() for _ in range(9)]  # of 32 MiB each: together they would fill the disk
        try_to_nest(d, one, boxes[0])
        check(2 <= fill_share(d, one, boxes) <= 5, "it has more than its share, or less")
        one.request("PUT", f"/v1/sandboxes/{boxes[-1]}/files?path=/root/more", os.urandom(8 * MB)).expect(507, code="storage_full")
        refused = one.post("/v1/sandboxes", {}).expect(507, code="storage_full")
        check("limits.owner.disk" in refused.json["detail"], f"{refused}")
        others_work(d, other, theirs)
        counts_are_right(top)
        for box in boxes[1:]:  # its share comes back
            one.delete(f"/v1/sandboxes/{box}").expect(200)
        again = wait_for(lambda: (made := one.post("/v1/sandboxes", {})).status == 201 and made.json["sandbox_id"], "there is room again", 60)
        check(fill(one, again, 20), "it cannot write, although it has room")
        check(not fill(one, again, 20, "more"), "the limit of the sandbox itself holds no longer")


@test(**ROOT, seconds=120)
def what_is_captured_stays_in_the_share(c):
    """Forks of a sandbox that is then destroyed have its files, which nothing else names."""
    with volume(c, "btrfs", 512) as top, daemon_on(c, top) as d:
        one, other = ApiAs(d, PLAIN), ApiAs(d, OTHER)
        theirs, box = other.create(), one.create()
        for n in range(9):
            if not fill(one, box, 20, f"fill-{n}"):
                break
            copies = one.post(f"/v1/sandboxes/{box}/fork", {})
            if copies.status == 507:
                break
            one.delete(f"/v1/sandboxes/{box}").expect(200)
            box = copies.expect(201).json["sandboxes"][0]["sandbox_id"]
        check(n <= 6, f"it has written {n} times 20 MiB")
        wait_for(lambda: full_owners(d), "its share is used up")
        others_work(d, other, theirs)
        one.post(f"/v1/sandboxes/{box}/stop").expect(200)
        one.post(f"/v1/sandboxes/{box}/resume").expect(200)  # what it has it keeps
        one.works(box)
        counts_are_right(top)


@test(**ROOT, seconds=120)
def what_the_kernel_no_longer_counts_is_counted_again(c):
    with volume(c, "btrfs", 320) as top, daemon_on(c, top) as d:
        one = ApiAs(d, PLAIN)
        boxes = [one.create() for _ in range(6)]
        for args in (["create", "1/7"], ["assign", "--no-rescan", "0/5", "1/7"]):
            subprocess.run(["btrfs", "qgroup", *args, top], check=True, capture_output=True)
        subprocess.run(["btrfs", "subvolume", "snapshot", top, top / "copy"], check=True, capture_output=True)

        def counts():
            with open(f"{quotas(top)}/inconsistent", encoding="ascii") as f:
                return f.read().strip() == "0"
        check(not counts() or "storage.not_shared" in d.log_path.read_text(), "the kernel still counts: this test shows nothing")
        wait_for(counts, "the kernel counts again", 60)
        check(2 <= fill_share(d, one, boxes) <= 5, "it has more than its share, or less")
        subprocess.run(["btrfs", "subvolume", "delete", top / "copy"], check=True, capture_output=True)


@test(**ROOT, seconds=120)
def the_share_holds_although_its_keeper_dies(c):
    with volume(c, "btrfs", 320) as top, daemon_on(c, top) as d:
        one = ApiAs(d, PLAIN)
        boxes = [one.create() for _ in range(6)]
        check(fill(one, boxes[0]), "it cannot write")
        for _ in range(3):  # the first pause is none
            kill_companion(d, "sandboxer-share")
        check(d.log_path.read_text().count("storage.share_keeper_ended") == 3, "ends are not logged")
        check(1 <= fill_share(d, one, boxes[1:]) <= 4, "it has more than its share, or less")
        one.post("/v1/sandboxes", {}).expect(507, code="storage_full")
        kill_companion(d, "sandboxer-share")  # while the share is used up
        check(not fill(one, boxes[-1], 20, "more"), "it writes beyond its share")
        counts_are_right(top)


def filled(d):
    wait_for(lambda: d.api.get("/v1/inspect/host").expect(200).json["pool_ready"] == 2, "the pool is filled")


def check_hand_overs(d, top):
    """Sandboxes of the pool are charged to their owner, and its limit holds in them."""
    one, other = ApiAs(d, PLAIN), ApiAs(d, OTHER)
    boxes = []
    for _ in range(8):  # the first without an owner before, later ones may be assigned ahead
        filled(d)
        boxes.append(one.create(profile=POOLED))
    for box in boxes:
        check((d.state / "storage/boxes" / box / "owner").exists(), f"{box} is charged to no owner")
    check(2 <= fill_share(d, one, boxes) <= 5, "it has more than its share, or less")
    theirs = other.create(profile=POOLED)
    check(fill(other, theirs, 20), "another owner cannot write")
    counts_are_right(top)


@test(**ROOT, seconds=120)
def a_prepared_sandbox_is_charged_when_it_has_an_owner(c):
    with volume(c, "btrfs", 512) as top, daemon_on(c, top) as d:
        filled(d)
        check_hand_overs(d, top)


def held_launcher(d):
    """The pid of a launcher that stopped at its step."""
    def stopped():
        for pid in d.launchers:
            with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                if f.read().rpartition(")")[2].split()[0] == "T":
                    return pid
        return None
    return wait_for(stopped, "a launcher stopped at its step")


def try_create(d):
    """A create whose daemon dies."""
    subprocess.run([d.c.program(), "create", "-q", "-p", POOLED], user=PLAIN, group=PLAIN, extra_groups=[], cwd="/",
                   env={**d.c.environment, **Client(d).env}, capture_output=True, check=False)


@test(**ROOT, seconds=180)
def a_death_at_the_hand_over_loses_no_limit(c):
    for step in ("share.noted", "assign.charged"):
        with volume(c, "btrfs", 512) as top:
            d = daemon_on(c, top, step)
            d.start()
            d.stop()
            d.start(SANDBOXER_STOP_AT=f"{step}:1")
            filled(d)
            creating = threading.Thread(target=try_create, args=(d,), daemon=True)
            creating.start()
            launcher = held_launcher(d)
            os.kill(d.process.pid, signal.SIGKILL)
            os.kill(launcher, signal.SIGKILL)
            d.wait()
            creating.join()
            with d:
                wait_for(lambda: len(d.leftovers()) == 2, "the sandbox that was not handed over is removed", 60)
                check_hand_overs(d, top)
                d.kill()  # the next life finds who has what, and who is full
                d.start()
                ApiAs(d, PLAIN).post("/v1/sandboxes", {}).expect(507, code="storage_full")


@test(only="root", because="other users reach only root's daemon")
def snapshots_have_a_share_with_every_driver(c):
    config = 'socket: {mode: "0666"}\nlimits: {owner: {disk: 3M}}'
    with Daemon(c, driver="memory", config=config) as d:
        os.chmod(d.dir, 0o755)
        for owner, statuses in ((ApiAs(d, PLAIN), (201, 429)), (d.api, (201, 201))):
            box = owner.post("/v1/sandboxes", {}).expect(201).json["sandbox_id"]
            check(fill(owner, box, 2), "it cannot write")
            for status in statuses:
                made = owner.post(f"/v1/sandboxes/{box}/snapshot", {}).expect(status)
                check(status == 201 or "limits.owner.disk" in made.json["detail"], f"{made}")


@test(only="root", because="other users reach only root's daemon")
def an_import_writes_no_more_than_the_share_has_room_for(c):
    """Also a file that claims to be small: with 1 MiB taken, it may have 2 MiB, and has 4."""
    config = 'socket: {mode: "0666"}\nlimits: {owner: {disk: 3M}}'
    with Daemon(c, driver="memory", config=config) as d:
        os.chmod(d.dir, 0o755)
        one, box = ApiAs(d, PLAIN), d.create()
        check(fill(d.api, box, 4), "it cannot write")
        snap = d.api.post(f"/v1/sandboxes/{box}/snapshot", {}).expect(201).json["snapshot_id"]
        data = d.api.get(f"/v1/snapshots/{snap}/export").expect(200).data
        own = one.create()
        check(fill(one, own, 1), "it cannot write")
        one.post(f"/v1/sandboxes/{own}/snapshot", {}).expect(201)
        refused = one.request("POST", "/v1/snapshots/import", data, {"Content-Type": "application/zstd"}).expect(413, code="too_big")
        check("the snapshot has more than" in refused.json["detail"] or "larger than the limit" in refused.json["detail"], f"{refused}")


@test(**ROOT)
def an_owner_has_a_quarter_of_what_the_disk_can_be(c):
    with volume(c, "btrfs") as top, Daemon(c, driver="btrfs", state=top / "state") as d:
        said = d.api.get("/v1/inspect/host").expect(200).json["storage_owner_bytes"]
        size = os.statvfs(top)
        equal(said, size.f_blocks * size.f_frsize // 4, "of a file system")
    with volume(c, "ext4", megabytes=1400) as top:  # the file begins with less, and grows
        config = "storage: {driver: btrfs, size: 1G}\nimages: {free_min: 0}"
        with Daemon(c, name="file", config=config, state=top / "state") as d:
            equal(d.api.get("/v1/inspect/host").expect(200).json["storage_owner_bytes"], 256 * MB, "of a file that grows")


main()
