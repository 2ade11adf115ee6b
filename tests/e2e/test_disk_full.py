#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Disk has shares per owner, and a full disk keeps nobody from looking, ending and removing."""

import contextlib
import os
import subprocess

from daemon import Daemon
from harness import check, equal, main, test, wait_for
from tcp import OTHERS, serving, users_token
from volumes import fill, volume


def start(api, box, script):
    return api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sh", "-c", script], "background": True})


def ended(api, box, n):
    return api.get(f"/v1/sandboxes/{box}/processes/{n}").expect(200).json["state"] != "running"


def output_bytes(d, box=""):
    out = subprocess.run(["du", "-sb", str(d.state / "daemon" / "output" / box)], capture_output=True, check=False).stdout
    return int(out.split()[0]) if out else 0


def small_disk(c, mebibytes):
    """A file system of its own for the state, in the mount namespace of the test alone."""
    place = c.mkdir(c.dir / "small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}M,mode=0755", "none", str(place)], check=True)
    return place


@test(only="root", because="another user is needed")
def output_has_a_share_by_sandbox_and_owner(c):
    limits = "limits: {output_per_sandbox: 1M, output_per_owner: 1500K}"
    with serving(c, OTHERS + limits) as (d, port, token):
        a, b = users_token(c, d, port), token()[0]
        boxes = [a.post("/v1/sandboxes").expect(201).json["sandbox_id"] for _ in range(2)]
        for i in range(6):
            made = start(a, boxes[0], f"head -c 500000 /dev/zero; echo end of {i}").expect(201).json["process"]
            wait_for(lambda n=made: ended(a, boxes[0], n), "it ends")
        check(output_bytes(d, boxes[0]) <= 1 << 20, f"{output_bytes(d, boxes[0])} bytes of one sandbox")
        logs = a.get(f"/v1/sandboxes/{boxes[0]}/logs?process={made}").data
        check(b"end of 5" in logs, f"the newest output is kept: {logs[-200:]}")
        for i in range(40):  # many that run, and write
            answer = start(a, boxes[1], "head -c 300000 /dev/zero; exec sleep 1000")
            if answer.status != 201:
                break
        answer.expect(429, code="quota")
        check("limits.output_per_" in answer.json["detail"], f"{answer}")
        check(output_bytes(d) <= 1500 << 10, f"{output_bytes(d)} bytes of one owner")
        theirs = b.post("/v1/sandboxes").expect(201).json["sandbox_id"]
        made = start(b, theirs, "echo mine").expect(201).json["process"]
        wait_for(lambda: ended(b, theirs, made), "another owner's process ends")
        check(b"mine" in b.get(f"/v1/sandboxes/{theirs}/logs?process={made}").data, "another owner's output is kept")
        for box in boxes:
            a.delete(f"/v1/sandboxes/{box}").expect(200, 202, 204)
        wait_for(lambda: output_bytes(d) < 100_000, "it is gone with the sandboxes")
        again = a.post("/v1/sandboxes").expect(201).json["sandbox_id"]
        start(a, again, "true").expect(201)
        b.delete(f"/v1/sandboxes/{theirs}")
        a.delete(f"/v1/sandboxes/{again}")


@test(only="root", because="a file system is mounted")
def output_leaves_a_part_of_the_disk_free(c):
    place = small_disk(c, 64)
    kept = (64 << 20) // 20  # of a disk that small
    try:
        with Daemon(c, state=place / "state", driver="memory") as d:
            box = d.create()
            many = [start(d.api, box, f"until [ -e /tmp/go ]; do sleep 0.1; done; head -c 300000 /dev/zero | tr '\\0' x; echo end of {i}").expect(201).json["process"]
                    for i in range(12)]  # three processes each: well below the profile's limit
            before = start(d.api, box, "head -c 40000 /dev/zero | tr '\\0' x; until [ -e /tmp/go ]; do sleep 0.1; done; "
                           "head -c 300000 /dev/zero | tr '\\0' y; echo the end").expect(201).json["process"]
            wait_for(lambda: output_bytes(d, box) > 40000, "it has written something")
            fill(place / "filler", kept)
            start(d.api, box, "true").expect(507, code="storage_full")
            had = output_bytes(d, box)
            d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["touch", "/tmp/go"]}).expect(200)
            for n in (*many, before):
                wait_for(lambda n=n: ended(d.api, box, n), "it ends")
            check(output_bytes(d, box) < had + (64 << 10), f"{had} bytes of output became {output_bytes(d, box)}")
            logs = d.api.get(f"/v1/sandboxes/{box}/logs?process={before}").data
            check(b"the end" in logs, f"the newest of what has a place is kept: {logs[:200]} … {logs[-200:]}")
            os.unlink(place / "filler")
            made = start(d.api, box, "echo again").expect(201).json["process"]
            wait_for(lambda: ended(d.api, box, made), "it ends")
            check(b"again" in d.api.get(f"/v1/sandboxes/{box}/logs?process={made}").data, "there is room again")
    finally:
        subprocess.run(["umount", str(place)], check=False)


@test(only="root", because="a file system is mounted")
def a_full_disk_keeps_nobody_from_ending_things(c):
    place = small_disk(c, 64)
    try:
        with Daemon(c, state=place / "state", driver="memory") as d:
            boxes = [d.create() for _ in range(6)]
            fill(place / "filler")
            for i, box in enumerate(boxes[:4]):
                equal(d.api.get(f"/v1/sandboxes/{box}").status, 200, "get on a full disk")
                check(d.api.delete(f"/v1/sandboxes/{box}").status in (200, 202, 204), "destroy on a full disk")
                equal(d.api.get("/v1/sandboxes").status, 200, "list on a full disk")
            refused = wait_for(lambda: (x := d.api.post("/v1/sandboxes", {})).status == 507 and x, "nothing new is begun")
            equal(refused.code, "storage_full", "why")
            refused = d.api.post(f"/v1/sandboxes/{boxes[4]}/processes", {"argv": ["true"], "background": True})
            refused.expect(507, code="storage_full")
            wait_for(lambda: d.get(boxes[0])["state"] == "destroyed", "it is destroyed")
            os.unlink(place / "filler")
            wait_for(lambda: d.api.post("/v1/sandboxes", {}).status == 201, "everything works again")
            d.works(boxes[4])
            d.kill()
            d.start()
            equal(d.get(boxes[0])["state"], "destroyed", "what was recorded then")
            d.works(boxes[4])
    finally:
        subprocess.run(["umount", str(place)], check=False)


@test(only="root", because="a file system is mounted")
def a_btrfs_without_a_free_block_does_not_kill_the_daemon(c):
    """There the kernel ends who writes to a page that is mapped from a file: the page needs another block each time."""
    with volume(c, "btrfs", megabytes=512) as top:
        with Daemon(c, state=top / "state", driver="memory") as d:
            box = d.create()
            for turn in range(4):
                os.sync()
                fill(top / "filler")
                os.sync()
                alive = d.plane
                for _ in range(4):
                    check(d.api.post(f"/v1/sandboxes/{box}/extend-ttl", {"duration": "20m"}).status in (200, 507), "a longer life on a full disk")
                    check(d.api.post("/v1/sandboxes", {}).status in (201, 507), "a create on a full disk")
                d.get(box)
                equal(d.plane, alive, "the control plane")
                if turn % 2:
                    d.kill()
                    if not d.spawn():  # it may need a block, and says so
                        d.wait()
                        check("No space left" in d.tail(2), f"why it does not serve\n{d.tail()}")
                        os.unlink(top / "filler")
                        d.start()
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(top / "filler")
                wait_for(lambda: d.api.post("/v1/sandboxes", {}).status == 201, "everything works again")
                d.works(box)


main()
