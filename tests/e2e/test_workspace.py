#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""A host directory as a workspace: copied in, brought back, and what stays where it is."""

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from client import Client
from daemon import Cut, Daemon
from harness import PLAIN, check, equal, main, processes, test, wait_for
from mcp import Lines
from peer import Peer
from tcp import Tcp, free_port
from trees import supervisor
from volumes import fill, volume
from workspaces import ROOM, SALVAGE_POINTS, conflicting, daemon_for, mirrored, read_kept, workspace


def changes(report):
    return {line["path"]: line["action"] for line in report["changes"]}


@test(only="root", because="only root's daemon copies what may only be read")
def what_is_declared_is_what_it_has(c):
    c.write("daemon/profiles/look.yaml", "id: profile.look\nversion: 1\nworkspace: {mode: mirror, access: ro}\n")
    with daemon_for(c) as d:
        host = workspace(c)

        def create(profile, **more):
            return d.api.post("/v1/sandboxes", {"profile": profile, "inputs": {"repo": str(host)}, **more})
        read = create("profile.work", capabilities={"filesystem": "ro"}).expect(201).json
        equal(read["workspace"]["access"], "ro", "no more than is declared")
        equal(create("profile.work", capabilities={"filesystem": "rw"}).expect(201).json["workspace"]["access"], "rw", "as declared")
        equal(create("profile.work", capabilities={"filesystem": "rw"}, workspace={"access": "ro"}).expect(201).json["workspace"]["access"], "ro", "the less of both")
        d.api.run(read["sandbox_id"], ["sh", "-c", "echo inside > /workspace/a.txt"])
        d.destroy(read["sandbox_id"])
        equal((host / "a.txt").read_text(), "host a\n", "what is not written to")
        create("profile.look", capabilities={"filesystem": "rw"}).expect(403, "denied")
        lives = d.api.post("/v1/sandboxes", {"ttl": "1h", "capabilities": {"duration_s": 60}}).expect(201).json
        equal(lives["ttl"], 60, f"the less of both: {lives}")


@test
def a_workspace_is_a_copy_until_it_is_brought_back(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        cli.sh(box, "cat a.txt dir/c.txt && test -x run.sh", "--workdir", "/workspace").expect(0, out=b"host a\nhost c\n")
        cli.sh(box, "cd /workspace && echo inside > a.txt && rm b.txt && mkdir new && echo n > new/file && chmod 755 dir/c.txt").expect(0)
        equal((host / "a.txt").read_text(), "host a\n", "the host's file before")
        wanted = {"a.txt": "replaced", "b.txt": "deleted", "new": "created", "new/file": "created", "dir/c.txt": "replaced"}
        dry = cli.json("sync", box, "--dry-run")
        equal((changes(dry), dry["dry_run"]), (wanted, True), "what would be done")
        equal((host / "a.txt").read_text(), "host a\n", "the host's file after a dry run")
        equal(changes(cli.json("sync", box)), wanted, "what was done")
        equal(((host / "a.txt").read_text(), (host / "b.txt").exists(), (host / "new/file").read_text()), ("inside\n", False, "n\n"), "the host")
        check((host / "dir/c.txt").stat().st_mode & 0o100, "the mode was not brought back")
        equal({(host / p).stat().st_uid for p in ("a.txt", "new", "new/file")}, {c.uid}, "owners")
        equal(changes(cli.json("sync", box)), {}, "a second time")
        check("synced" in cli("events", box).text, "no event")


@test
def conflicts_leave_the_host_alone(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        cli.sh(box, "cd /workspace && echo inside > a.txt && echo inside > b.txt").expect(0)
        (host / "a.txt").write_text("changed here\n")
        report = cli.json("sync", box, code=4)
        equal(changes(report), {"a.txt": "conflict", "b.txt": "replaced"}, "the report")
        equal((host / "a.txt").read_text(), "changed here\n", "the host's file")
        check("conflict" in cli("sync", box).expect(4).text, "the conflict is not shown again")
        cli("pause", box).expect(0)
        cli("sync", box).expect(4, says="resume it first")
        cli("resume", box).expect(0)
        equal(changes(cli.json("sync", box, "--force")), {"a.txt": "overwritten"}, "with --force")
        equal((host / "a.txt").read_text(), "inside\n", "the host's file after --force")


@test
def destroy_brings_it_back(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        cli.sh(box, "echo kept > /workspace/a.txt").expect(0)
        cli("destroy", box).expect(0)
        equal((host / "a.txt").read_text(), "kept\n", "after destroy")
        box = mirrored(cli, host)
        cli.sh(box, "echo lost > /workspace/a.txt").expect(0)
        cli("destroy", box, "--no-sync").expect(0)
        equal((host / "a.txt").read_text(), "kept\n", "after destroy --no-sync")
        box = mirrored(cli, host)
        cli.sh(box, "echo inside > /workspace/a.txt").expect(0)
        (host / "a.txt").write_text("changed here\n")
        cli("destroy", box).expect(4, says="not destroyed")
        equal((cli.sh(box, "cat /workspace/a.txt").text, (host / "a.txt").read_text()), ("inside", "changed here\n"), "after a conflict")
        cli("destroy", box, "--discard").expect(0)
        equal((host / "a.txt").read_text(), "changed here\n", "after destroy --discard")
        wait_for(lambda: not any((d.state / "daemon/mirror").iterdir()), "no manifest is left")


@test
def destroy_refuses_to_lose_changes(c):
    with daemon_for(c, ROOM) as d:
        cli, host = Client(d), workspace(c)
        box = conflicting(d, cli, host)
        for verb in ("destroy", "recreate"):
            refused = cli(verb, box).expect(4, says="conflict: 1")
            check("a.txt" in refused.text and "--keep" in refused.notes and "--discard" in refused.notes, f"{refused}")
            equal((cli.sh(box, "cat /workspace/a.txt").text, (host / "a.txt").read_text()), ("inside 1", "changed here 1\n"), "both sides")
        equal((host / "b.txt").read_text(), "more 1\n", "a file without a conflict")
        problem = d.api.delete(f"/v1/sandboxes/{box}?unsynced=refuse").expect(409, code="conflict").json
        equal((problem["counts"], [x["path"] for x in problem["changes"]]), ({"conflict": 1}, ["a.txt"]), "what is left")
        cli("stop", box).expect(0)
        cli("destroy", box).expect(4, says="conflict: 1")
        equal(cli.state(box), "paused", "one that was stopped, after a refusal")
        check("overwritten" in cli("destroy", box, "--force-sync").expect(0).text, "the list")
        equal((host / "a.txt").read_text(), "inside 1\n", "with --force-sync")


@test
def destroy_lists_what_it_did_here(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        cli.sh(box, "cd /workspace && echo new > new && rm b.txt && echo inside > a.txt").expect(0)
        said = cli("destroy", box).expect(0).text.splitlines()
        equal(sorted(line.split()[:2] for line in said[1:-1]), [["created", "new"], ["deleted", "b.txt"], ["replaced", "a.txt"]], f"{said}")
        check(said[-1] == f"{box} destroyed", f"{said}")
        box = mirrored(cli, host)
        equal(cli("destroy", box).expect(0).text, f"{box} destroyed", "without a change")
        box = mirrored(cli, host)
        cli.sh(box, "echo again > /workspace/a.txt").expect(0)
        equal(changes(cli.json("destroy", box)["synced"]), {"a.txt": "replaced"}, "as JSON")


@test
def every_other_end_keeps_a_snapshot(c):
    c.write("daemon/profiles/idle.yaml", "id: profile.idle\nversion: 1\nworkspace: {mode: mirror, access: rw}\nttl: {idle_reap: 2s}\n")
    with daemon_for(c, ROOM) as d:
        cli, host = Client(d), workspace(c)

        def await_end(box):
            """Looks at the list: a look at the sandbox would be use."""
            wait_for(lambda: box in [b["sandbox_id"] for b in d.list("?state=destroyed&limit=1000")], f"{box} ends", seconds=60)
            return d.get(box)

        def check_kept(box, what, n):
            record = await_end(box)
            kept = record.get("kept")
            check(kept and "conflict: 1" in kept["reason"] and kept["expires_at"], f"{what}: {record}")
            equal((host / "a.txt").read_text(), f"changed here {n}\n", f"{what}: the host")
            equal(read_kept(d, cli, kept["snapshot_id"]), f"inside {n}", f"{what}: the snapshot")
            equal(cli.json("snapshots", "get", kept["snapshot_id"])["expires_at"], kept["expires_at"], "its end")
            events = [json.loads(line) for line in cli.lines("events", "-o", "json", box)]
            told = [e["detail"]["kept_snapshot"] for e in events if e["type"] == "sandbox.destroying"]
            equal(told, [kept["snapshot_id"]], f"{what}: the event")
            return kept["snapshot_id"]

        box = conflicting(d, cli, host, n=1)
        answer = d.api.delete(f"/v1/sandboxes/{box}").expect(200)
        snapshot = check_kept(box, "the API", 1)
        equal((answer.json["kept"]["snapshot_id"], answer.headers["Sandboxer-Kept-Snapshot"]), (snapshot, snapshot), "the answer")
        equal(changes(answer.json["synced"]), {"a.txt": "conflict", "b.txt": "replaced"}, "what it brought back")
        box = conflicting(d, cli, host, n=2)
        kept = cli("destroy", "--keep", box).expect(0)
        check(check_kept(box, "--keep", 2) in kept.notes, f"{kept}")
        box = conflicting(d, cli, host, n=3)
        d.api.post(f"/v1/sandboxes/{box}/stop").expect(200)
        d.api.delete(f"/v1/sandboxes/{box}").expect(200)
        check_kept(box, "one that was stopped", 3)
        check_kept(conflicting(d, cli, host, "--ttl", "4s", n=4), "its time is over", 4)
        box = cli.create("-p", "profile.idle", "--input", f"repo={host}")
        cli.sh(box, "echo inside 5 > /workspace/a.txt").expect(0)
        (host / "a.txt").write_text("changed here 5\n")
        check_kept(box, "it was idle", 5)
        box = conflicting(d, cli, host, n=6)
        d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
        d.stop()
        d.start()
        d.api.delete(f"/v1/sandboxes/{box}").expect(200)
        check_kept(box, "one that an earlier daemon paused", 6)


@test
def changes_may_be_left_to_their_user(c):
    with daemon_for(c, ROOM) as d:
        cli, host = Client(d), workspace(c)
        create = lambda **more: d.api.post("/v1/sandboxes", {"profile": "profile.work", "inputs": {"repo": str(host)}, **more})
        create(workspace={"at_end": "never"}).expect(400)

        def changed(**more):
            box = create(workspace={"at_end": "keep"}, **more).expect(201).json["sandbox_id"]
            cli.sh(box, "cd /workspace && echo inside > a.txt && rm b.txt && echo new > new").expect(0)
            return box

        def unchanged(what):
            equal([(host / "a.txt").read_text(), (host / "b.txt").exists(), (host / "new").exists()], ["host a\n", True, False], what)

        def kept(box, what):
            unchanged(what)
            record = d.get(box)["kept"]
            for words in ("3 changes", "created: 1", "replaced: 1", "deleted: 1"):
                check(words in record["reason"], f"{what}: no {words!r} in {record}")
            equal([read_kept(d, cli, record["snapshot_id"], f"/workspace/{name}") for name in ("a.txt", "new")], ["inside", "new"], what)

        box = changed()
        answer = d.api.delete(f"/v1/sandboxes/{box}").expect(200).json
        check("synced" not in answer, f"the answer of a destroy without a sync: {answer}")
        kept(box, "a destroy")
        box = changed()
        d.api.post(f"/v1/sandboxes/{box}/stop").expect(200)
        d.stop()
        d.start()
        d.api.delete(f"/v1/sandboxes/{box}").expect(200)
        kept(box, "one that was stopped")
        box = changed(ttl="4s")
        wait_for(lambda: box in [b["sandbox_id"] for b in d.list("?state=destroyed&limit=1000")], "its time is over", seconds=60)
        kept(box, "its time is over")
        box = changed()
        problem = d.api.delete(f"/v1/sandboxes/{box}?unsynced=refuse").expect(409, code="conflict").json
        equal(changes(problem), {"a.txt": "replaced", "b.txt": "deleted", "new": "created"}, "what prevents it")
        unchanged("a refused destroy")
        equal(changes(d.api.delete(f"/v1/sandboxes/{box}?sync=yes").expect(200).json["synced"]),
              {"a.txt": "replaced", "b.txt": "deleted", "new": "created"}, "a destroy that asks for a sync")
        equal((host / "a.txt").read_text(), "inside\n", "the host after it")
        box = create(workspace={"at_end": "keep"}).expect(201).json["sandbox_id"]
        check("kept" not in d.api.delete(f"/v1/sandboxes/{box}").expect(200).json, "without a change")
        box = create(workspace={"at_end": "keep"}).expect(201).json["sandbox_id"]
        cli.sh(box, "echo last > /workspace/a.txt").expect(0)
        cli("destroy", box).expect(0)
        equal((host / "a.txt").read_text(), "last\n", "the host after `sandboxer destroy`")


def continue_all(d):
    for pid in d.stopped:
        os.kill(pid, signal.SIGCONT)


@test
def a_sync_asked_for_meanwhile_is_not_lost(c):
    """An end that only compares is under way; another one asks for a sync. What conflicts is kept, or overwritten by force."""
    d, host = daemon_for(c, ROOM), workspace(c)
    before = (host / "a.txt").read_text()
    with ThreadPoolExecutor(2) as pool, d:
        cli = Client(d)
        for first, second, there, point in (
                ("unsynced=refuse", "sync=yes", "more", "ask.open"),
                ("unsynced=keep", "sync=yes", "more", "ask.open"),
                ("unsynced=refuse", "sync=force", "all", "ask.open"),
                ("sync=yes", "sync=force", "all", "ask.open"),
                ("unsynced=keep", "sync=yes", "more", "capture.freeze"),
                ("unsynced=refuse", "sync=no", "none", "ask.open")):
            what = f"{first}, then {second}, at {point}"
            for name, text in (("a.txt", before), ("b.txt", "host b\n")):
                (host / name).write_text(text)
            box = d.api.post("/v1/sandboxes", {"profile": "profile.work", "inputs": {"repo": str(host)}, "workspace": {"at_end": "keep"}}).expect(201).json["sandbox_id"]
            cli.sh(box, "cd /workspace && echo inside > a.txt && echo more > b.txt").expect(0)
            (host / "a.txt").write_text("changed here\n")
            d.stop()
            d.start(SANDBOXER_STOP_AT=f"{point}:1")
            ends = [pool.submit(d.api.delete, f"/v1/sandboxes/{box}?{first}")]
            wait_for(lambda: d.stopped, f"{what}: the first is under way")
            ends.append(pool.submit(d.api.delete, f"/v1/sandboxes/{box}?{second}"))
            wait_for(lambda: Path("/proc/net/unix").read_text().count(f"{d.socket}\n") == 3, f"{what}: the listener, and both")
            if point == "ask.open":
                d.get(box)  # the second was read before this
            wait_for(lambda: continue_all(d) or all(end.done() for end in ends), f"{what}: both are answered", seconds=60)
            answers = [end.result().expect(200).json for end in ends]
            equal([(host / name).read_text() for name in ("a.txt", "b.txt")],
                  {"more": ["changed here\n", "more\n"], "all": ["inside\n", "more\n"], "none": ["changed here\n", "host b\n"]}[there], f"{what}: the host")
            equal(["kept" in a for a in answers], [there == "more"] * 2, f"{what}: what is kept: {answers}")
            if there == "more":
                check("conflict: 1" in answers[1]["kept"]["reason"] and "replaced" not in answers[1]["kept"]["reason"], f"{what}: {answers}")
            if there != "none":
                check(answers[1].get("synced"), f"{what}: no list of what was brought back: {answers}")
            d.stop()
            d.start()


def check_kept(d, cli, host, box, n, what):
    """The end is on record with the id of a snapshot, which has what the host has not; looks at the list, since a look at the sandbox would be use."""
    wait_for(lambda: box in [b["sandbox_id"] for b in d.list("?state=destroyed&limit=1000")], f"{what}: {box} ends", seconds=60)
    kept = d.get(box).get("kept")
    check(kept and "conflict: 1" in kept["reason"], f"{what}: {d.get(box)}")
    told = [e["detail"]["kept_snapshot"] for e in map(json.loads, cli.lines("events", "-o", "json", box)) if e["type"] == "sandbox.destroying"]
    equal(told, [kept["snapshot_id"]], f"{what}: the event")
    equal((host / "a.txt").read_text(), f"changed here {n}\n", f"{what}: the host")
    equal(read_kept(d, cli, kept["snapshot_id"]), f"inside {n}", f"{what}: the snapshot")
    return kept["snapshot_id"]


def clients_key(c, cli, kind, name):
    """What `token create` prints for clients of others."""
    lines = cli("token", "create", kind).expect(0).text.splitlines()
    return next(line.split("=", 1)[1].strip("'") for line in lines if line.startswith(f"export {name}="))


@test
def ends_by_e2bs_clients_keep_a_snapshot(c):
    d, port = daemon_for(c, ROOM), free_port()
    d.start(args=("--listen", f"127.0.0.1:{port}"))
    with d:
        cli, host = Client(d), workspace(c)
        key, api = clients_key(c, cli, "--e2b", "E2B_API_KEY"), Tcp(port)
        box = conflicting(d, cli, host, n=1)
        answer = api.request("DELETE", f"/sandboxes/{box}", X_API_KEY=key).expect(204)
        equal(answer.headers["Sandboxer-Kept-Snapshot"], check_kept(d, cli, host, box, 1, "kill"), "kill: the answer")
        box = conflicting(d, cli, host, n=2)
        api.request("POST", f"/sandboxes/{box}/timeout", {"timeout": 0}, X_API_KEY=key).expect(204)
        check_kept(d, cli, host, box, 2, "timeout")
        gone = api.request("DELETE", f"/sandboxes/{box}", X_API_KEY=key).expect(404)
        check("was destroyed" in gone.json["message"], f"{gone}")


@test
def ends_by_daytonas_clients_keep_a_snapshot(c):
    d, port = daemon_for(c, ROOM), free_port()
    d.start(args=("--listen", f"127.0.0.1:{port}"))
    with d:
        cli, host = Client(d), workspace(c)
        api = Tcp(port, clients_key(c, cli, "--daytona", "DAYTONA_API_KEY"))
        box = conflicting(d, cli, host, n=1)
        answer = api.request("DELETE", f"/daytona/sandbox/{box}").expect(200)
        equal(answer.headers["Sandboxer-Kept-Snapshot"], check_kept(d, cli, host, box, 1, "delete"), "delete: the answer")


def hand_over(d, box, peer):
    """No interface lets a peer name a directory of this machine, so a sandbox of the user's becomes the peer's in the store."""
    d.stop()
    with contextlib.closing(sqlite3.connect(d.state / "daemon/sandboxer.db")) as db:
        db.execute("UPDATE sandboxes SET labels = json_object('peer', ?) WHERE id = ?", (peer, box))
        db.execute("INSERT INTO tags (key, value, owner, live, created_ns, id) SELECT 'peer', ?, owner, live, created_ns, id FROM sandboxes WHERE id = ?", (peer, box))
        db.commit()
    d.start()


@test
def ends_by_peers_and_mcps_clients_keep_a_snapshot(c):
    with daemon_for(c, ROOM) as d:
        cli, host, key = Client(d), workspace(c), c.dir / "session"
        peers = lambda: d.api.get("/v1/peers").expect(200).json["peers"]
        with Lines(c, d, argv=("--session", str(key))) as m:
            m.begin()
            [session] = peers()
            m.process.kill()
        boxes = [conflicting(d, cli, host, n=1)]
        hand_over(d, boxes[0], session["id"])
        with Lines(c, d, argv=("--session", str(key))) as m:
            m.begin()
            told = m.tool("sandbox_destroy", sandbox_id=boxes[0])
            equal((told["state"], told["kept_snapshot"]), ("destroyed", check_kept(d, cli, host, boxes[0], 1, "the tool")), "the tool's answer")
        wait_for(lambda: not peers() or peers()[0]["state"] != "alive", "its client has left")
        for n, ends in ((2, session["id"]), (3, Peer(d.api).id)):
            if n == 3 and not c.root:
                d.api.delete(f"/v1/peers/{ends}").expect(204)  # of this test's user, who is not the sandboxes' owner
                continue
            box = conflicting(d, cli, host, n=n)
            hand_over(d, box, ends)
            d.api.delete(f"/v1/peers/{ends}").expect(204)
            check_kept(d, cli, host, box, n, f"the end of a {'session' if n == 2 else 'peer'}")
        wait_for(lambda: not peers(), "the peers are gone")


def is_refused(d, cli, box, what):
    """It stays, with the reason, until there is room for a snapshot of its changes; nothing is half done."""
    answer = d.api.delete(f"/v1/sandboxes/{box}").expect(409, code="conflict")
    record = d.get(box)
    check(f"stays {record['state']}" in answer.json["detail"] and "discard" in answer.json["detail"], f"{what}: {answer}")
    check("not brought back" in record["unsynced"]["reason"] and record["unsynced"].get("error"), f"{what}: {record['unsynced']}")
    cli("destroy", "--keep", box).expect(4)
    d.api.delete(f"/v1/sandboxes/{box}?sync=no").expect(409, code="conflict")
    equal(cli.json("snapshots", "list")["snapshots"], [], f"{what}: half a snapshot")
    return record["state"]


@test(only="root", because="a file system is mounted")
def on_a_full_disk_nothing_is_lost(c):
    """On disk it can be paused and not copied; in memory it can only be frozen. A clone, or a snapshot in a file on the disk, may need no
    room at all."""
    for driver, kind, size, stays in (("plain", "ext4", 96, True), ("memory", "ext4", 96, True), ("reflink", "xfs", 0, False), ("auto", "ext4", 1400, False)):
        with volume(c, kind, megabytes=size, kept=False) as top:
            with daemon_for(c, ROOM, driver=driver, state=top / "state") as d:
                cli, host = Client(d), workspace(c)
                box = conflicting(d, cli, host)
                cli.sh(box, "head -c 4000000 /dev/urandom > /root/much").expect(0)
                fill(top / "filler")
                if stays:
                    equal(is_refused(d, cli, box, driver), "paused", f"{driver}: its state")
                if stays or d.api.delete(f"/v1/sandboxes/{box}").expect(200, 409).status == 409:
                    (top / "filler").unlink(missing_ok=True)
                    d.api.delete(f"/v1/sandboxes/{box}").expect(200)
                (top / "filler").unlink(missing_ok=True)
                equal(read_kept(d, cli, d.get(box)["kept"]["snapshot_id"]), "inside 1", f"{driver}: what was kept")
                box = conflicting(d, cli, host, n=2)
                cli.sh(box, "head -c 4000000 /dev/urandom > /root/much").expect(0)
                fill(top / "filler")
                if stays:
                    d.api.delete(f"/v1/sandboxes/{box}").expect(409)
                cli("destroy", "--discard", box).expect(0)
                wait_for(lambda: d.get(box)["state"] == "destroyed", f"{driver}: with --discard")
                os.unlink(top / "filler")
                for snapshot in cli.lines("snapshots", "list", "-q"):
                    cli("snapshots", "delete", snapshot).expect(0)


@test
def what_cannot_be_stored_stays_paused(c):
    for driver in ("memory", "plain", "auto"):
        stays_paused_over_quota(c, driver)


def stays_paused_over_quota(c, driver):
    with daemon_for(c, ROOM + "limits: {snapshot_bytes_per_owner: 1M}\n", driver=driver, name=driver) as d:
        cli, host = Client(d), workspace(c)
        box = conflicting(d, cli, host)
        cli.sh(box, "head -c 1500000 /dev/urandom > /root/much").expect(0)
        answer = d.api.delete(f"/v1/sandboxes/{box}").expect(409, code="conflict")
        check("stays paused" in answer.json["detail"] and "discard" in answer.json["detail"], f"{answer}")
        record = d.get(box)
        equal(record["state"], "paused", "the state")
        check("not brought back" in record["unsynced"]["reason"] and "snapshot" in record["unsynced"]["error"], f"{record}")
        d.api.delete(f"/v1/sandboxes/{box}?sync=no").expect(409, code="conflict")
        cli("destroy", box).expect(4, says="conflict: 1")
        cli("destroy", "--no-sync", box).expect(4)
        d.stop()
        d.start()
        d.api.delete(f"/v1/sandboxes/{box}").expect(409, code="conflict")
        equal(d.get(box)["state"], "paused", "the state after a restart")
        cli("resume", box).expect(0)
        equal(cli.sh(box, "cat /workspace/a.txt; rm /root/much").text, "inside 1", "what is inside")
        d.api.delete(f"/v1/sandboxes/{box}").expect(200)
        equal(read_kept(d, cli, d.get(box)["kept"]["snapshot_id"]), "inside 1", "with room for it")
        box = conflicting(d, cli, host, n=2)
        cli.sh(box, "head -c 1500000 /dev/urandom > /root/much").expect(0)
        d.api.delete(f"/v1/sandboxes/{box}").expect(409)
        cli("destroy", "--discard", box).expect(0)
        equal(d.get(box)["state"], "destroyed", "with --discard")


NO_ROOM = "images: {free_min: 1024T}\n"


@contextlib.contextmanager
def held_in_memory(c, name):
    """A sandbox in memory with changes, on a disk without room for any file of a pause."""
    with daemon_for(c, NO_ROOM, driver="memory", name=name) as d:
        cli, host = Client(d), workspace(c)
        box = conflicting(d, cli, host)
        cli("exec", "-d", box, "--", "sleep", "1000").expect(0)
        equal(is_refused(d, cli, box, name), "paused", "its state")
        yield d, cli, box


def restart_with_room(d):
    d.stop()
    d.config.write_text(d.config.read_text().replace(NO_ROOM, ROOM))
    d.start()


@test
def what_cannot_be_paused_on_disk_is_paused_in_memory(c):
    with held_in_memory(c, "kept") as (d, cli, box):
        d.api.post(f"/v1/sandboxes/{box}/snapshot", {}).expect(409, code="conflict")
        said = d.api.post(f"/v1/sandboxes/{box}/stop").expect(409, code="conflict").json["detail"]
        check("paused in memory" in said and "make room" in said, f"a stop would lose its files: {said}")
        for ends in (d.stop, d.kill):
            ends()
            d.start()
            equal(is_refused(d, cli, box, "after a restart"), "paused", "its state after a restart")
        cli("destroy", box).expect(4, says="conflict: 1")
        cli("resume", box).expect(0)
        equal(cli.sh(box, "cat /workspace/a.txt; pidof sleep > /dev/null && echo runs").text, "inside 1\nruns", "its file and its process")
        equal(is_refused(d, cli, box, "again"), "paused", "its state after the resume")
        restart_with_room(d)
        equal(d.get(box)["state"], "paused", "nothing is tried without a request")
        d.api.delete(f"/v1/sandboxes/{box}").expect(200)
        equal(read_kept(d, cli, d.get(box)["kept"]["snapshot_id"]), "inside 1", "what was kept, with room for it")


@test
def what_is_paused_in_memory_ends_by_a_discard_or_its_death(c):
    with held_in_memory(c, "discarded") as (d, cli, box):
        cli("destroy", "--discard", box).expect(0)
        equal(d.get(box)["state"], "destroyed", "with --discard")
    for n, dies in enumerate((end_without_daemon, restart_machine)):
        with held_in_memory(c, f"dead{n}") as (d, cli, box):
            dies(d, box)
            if dies is end_without_daemon:
                said = d.api.post(f"/v1/sandboxes/{box}/resume").expect(409).json["detail"]
                check("before its files were stored" in said, f"the resume: {said}")
            wait_for(lambda: d.get(box)["state"] == "failed", "nothing of it is left")
            d.api.delete(f"/v1/sandboxes/{box}").expect(200)


@test
def kept_snapshots_are_deleted_after_a_while(c):
    with daemon_for(c, ROOM + "retention: {unsynced: 1s}\n") as d:
        cli, host = Client(d), workspace(c)
        box = conflicting(d, cli, host)
        own = cli.json("snapshot", box)["snapshot_id"]
        kept = d.api.delete(f"/v1/sandboxes/{box}").expect(200).json["kept"]["snapshot_id"]
        equal(set(cli.lines("snapshots", "list", "-q")), {own, kept}, "before")

        def start_again():
            d.stop()
            d.start()
            return kept not in cli.lines("snapshots", "list", "-q")
        wait_for(start_again, "the snapshot is deleted", seconds=60)
        equal(cli.lines("snapshots", "list", "-q"), [own], "afterwards")


@test
def a_destroy_that_was_cut_loses_nothing(c):
    """Wherever the daemon was killed: its next start finds the sandbox with its changes, or stores them."""
    host = workspace(c)
    for i, point in enumerate(SALVAGE_POINTS):
        d = daemon_for(c, ROOM)
        d.start()
        with d:
            cli = Client(d)
            box = conflicting(d, cli, host, n=i)
            d.stop()
            d.start(SANDBOXER_DIE_AT=f"{point}:1")
            with contextlib.suppress(Cut):
                d.api.delete(f"/v1/sandboxes/{box}")
            equal(d.wait(), 137, f"{point}: the daemon died as it was told to")
            d.start()
            settled = wait_for(lambda: (r := d.get(box))["state"] not in ("destroying", "paused") and r, f"{point}: it is settled")
            if settled["state"] != "destroyed":
                equal(cli.sh(box, "cat /workspace/a.txt").text, f"inside {i}", f"{point}: inside")
                d.api.delete(f"/v1/sandboxes/{box}").expect(200)
            equal(read_kept(d, cli, d.get(box)["kept"]["snapshot_id"]), f"inside {i}", f"{point}: what was kept")
            equal((host / "a.txt").read_text(), f"changed here {i}\n", f"{point}: the host")


def end_supervisor(d, box):
    first = supervisor(d, box)
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: first not in processes(), "its processes are gone")


def restart_machine(d, box):
    """Nothing runs, and it is another boot."""
    d.kill()
    end_supervisor(d, box)
    with contextlib.closing(sqlite3.connect(d.state / "daemon/sandboxer.db")) as store, store:
        store.execute("UPDATE sandboxes SET boot = 'another'")
    d.start()


def end_without_daemon(d, box):
    d.kill()
    end_supervisor(d, box)
    d.start()


@test
def changes_on_disk_outlive_the_death_of_a_sandbox(c):
    with daemon_for(c, ROOM, driver="plain") as d:
        cli, host = Client(d), workspace(c)
        for n, dies in enumerate((end_supervisor, end_without_daemon, restart_machine)):
            box = conflicting(d, cli, host, n=n)
            dies(d, box)
            record = wait_for(lambda: (r := d.get(box))["state"] == "paused" and r, f"{n}: it is paused")
            check("its files are kept" in record["reason"], f"{n}: {record}")
            if n != 1:
                cli("destroy", box).expect(4, says="conflict: 1")
                equal(cli.state(box), "paused", f"{n}: after a refusal")
                cli("resume", box).expect(0)
                equal(cli.sh(box, "cat /workspace/a.txt").text, f"inside {n}", f"{n}: inside")
            d.api.delete(f"/v1/sandboxes/{box}").expect(200)
            equal(read_kept(d, cli, d.get(box)["kept"]["snapshot_id"]), f"inside {n}", f"{n}: what was kept")
            equal(((host / "a.txt").read_text(), (host / "b.txt").read_text()), (f"changed here {n}\n", f"more {n}\n"), f"{n}: the host")
        box = cli.create()
        end_supervisor(d, box)
        wait_for(lambda: d.get(box)["state"] == "failed", "one without a workspace fails")


@test
def changes_in_memory_end_with_the_sandbox(c):
    with daemon_for(c, ROOM, driver="memory") as d:
        cli, host = Client(d), workspace(c)
        box = conflicting(d, cli, host)
        end_supervisor(d, box)
        wait_for(lambda: d.get(box)["state"] == "failed", "it fails")
        d.destroy(box)
        equal((host / "a.txt").read_text(), "changed here 1\n", "the host")


@test
def a_sandbox_that_dies_as_it_is_destroyed_loses_nothing(c):
    host = workspace(c)
    for n, point in enumerate(("salvage.synced", "capture.freeze", "rescue.record")):
        d = daemon_for(c, ROOM, driver="plain")
        d.start(SANDBOXER_STOP_AT=f"{point}:1")
        with d, ThreadPoolExecutor(1) as pool:
            cli = Client(d)
            box = conflicting(d, cli, host, n=n)
            if point == "rescue.record":
                end_supervisor(d, box)
            else:
                asked = pool.submit(d.api.delete, f"/v1/sandboxes/{box}")
            wait_for(lambda: d.stopped, f"{point} is reached")
            if point == "rescue.record":
                asked = pool.submit(d.api.delete, f"/v1/sandboxes/{box}")
            else:
                end_supervisor(d, box)
            os.kill(d.stopped[0], signal.SIGCONT)
            if asked.result().expect(200, 409).status == 409:  # a plain user cannot freeze it, and its end was not known yet
                wait_for(lambda: d.api.delete(f"/v1/sandboxes/{box}").status == 200, "it can be destroyed when it is known to be dead")
            equal(read_kept(d, cli, d.get(box)["kept"]["snapshot_id"]), f"inside {n}", f"{point}: what was kept")
            equal((host / "b.txt").read_text(), f"more {n}\n", f"{point}: what was brought back")


@test
def a_destroy_during_a_pause_loses_nothing(c):
    """The pause is the caller's: nothing was brought back before it."""
    d, host = daemon_for(c, ROOM), workspace(c)
    d.start(SANDBOXER_STOP_AT="capture.freeze:1")
    with d:
        cli = Client(d)
        box = conflicting(d, cli, host)
        with ThreadPoolExecutor(2) as pool:
            paused = pool.submit(d.api.post, f"/v1/sandboxes/{box}/pause")
            wait_for(lambda: d.stopped, "the pause is under way")
            asked = pool.submit(d.api.delete, f"/v1/sandboxes/{box}")
            wait_for(lambda: Path("/proc/net/unix").read_text().count(f"{d.socket}\n") == 3, "the listener, the pause and the destroy")
            os.kill(d.stopped[0], signal.SIGCONT)
            paused.result().expect(200)
            asked.result().expect(200)
        equal((host / "b.txt").read_text(), "more 1\n", "what was brought back")
        equal(read_kept(d, cli, d.get(box)["kept"]["snapshot_id"]), "inside 1", "what was kept")


@test
def what_the_host_would_run_stays_inside(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        c.write("work/repo/.git/config", "[core]\n")
        box = mirrored(cli, host)
        cli.sh(box, "cd /workspace && mkdir -p .git/hooks .git/objects/ab && echo evil > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit"
               " && echo '[core] fsmonitor = evil' > .git/config && echo blob > .git/objects/ab/cd && echo evil > .envrc && echo x > ok").expect(0)
        done = changes(cli.json("sync", box, code=4))
        for path in (".git/hooks/pre-commit", ".git/config", ".envrc"):
            equal(done.get(path), "sensitive", f"what became of {path}: {done}")
        cli("sync", box, "--force").expect(4)
        equal(((host / ".git/config").read_text(), (host / ".git/hooks/pre-commit").exists(), (host / ".envrc").exists()),
              ("[core]\n", False, False), "what the host has")
        equal(((host / ".git/objects/ab/cd").exists(), (host / "ok").exists()), (True, True), "what is harmless")


@test
def held_names_are_accepted_by_their_user(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        cli.sh(box, "cd /workspace && mkdir .cargo && echo a > .cargo/config.toml && echo a > .envrc && echo a > .unheard-of && echo all: > Makefile").expect(0)
        first = cli("sync", box)
        first.expect(4, says="--accept PATH")
        equal(((host / "Makefile").exists(), (host / ".cargo/config.toml").exists(), (host / ".unheard-of").exists()), (True, False, False), "the host after a sync")
        equal(changes(cli.json("sync", box, "--accept", ".cargo", code=4)), {".cargo/config.toml": "created", ".envrc": "sensitive", ".unheard-of": "sensitive"}, "with --accept")
        equal(changes(cli.json("sync", box, "--accept-all")), {".envrc": "created", ".unheard-of": "created"}, "with --accept-all")
        cli.sh(box, "echo b > /workspace/.envrc").expect(0)
        peer = d.api.post("/v1/peers", {"client": "agent"}).expect(201).json["token"]
        for headers in ({"Sandboxer-Peer": peer},):
            refused = d.api.request("POST", f"/v1/sandboxes/{box}/sync", {"accept_all": True}, headers)
            check(refused.status in (403, 404), f"an agent accepts: {refused}")
        equal((host / ".envrc").read_text(), "a\n", "the host's file")


@test
def nothing_comes_out_into_places_that_programs_obey(c):
    with daemon_for(c) as d:
        cli = Client(d)
        c.write("work/home/.bashrc", "")
        for place, names in {".ssh": ("authorized_keys", "config", "rc"), ".config": ("autostart/x.desktop", "systemd/user/x.service", "nvim/init.lua"),
                             ".local": ("bin/ls",), "bin": ("ls",)}.items():
            c.write(f"work/home/{place}/old", "old\n")
            host = c.dir / "work/home" / place
            box = mirrored(cli, host)
            for name in names:
                cli.sh(box, f"cd /workspace && mkdir -p $(dirname {name}) && echo evil > {name}").expect(0)
            done = changes(cli.json("sync", box, "--force", code=4))
            check(set(done.values()) == {"sensitive"} and set(names) <= set(done), f"{place}: {done}")
            equal([p.name for p in host.iterdir()], ["old"], f"what is in {place}")
            cli("sync", box, "--accept", names[0]).expect((0, 4))
            check((host / names[0]).exists(), f"{place}/{names[0]} was accepted")
            cli("destroy", box, "--no-sync").expect(0)
        c.write("work/home/project/a.txt", "a\n")
        box = mirrored(cli, c.dir / "work/home/project")
        cli.sh(box, "cd /workspace && mkdir bin && echo x > bin/ls").expect(0)
        equal(changes(cli.json("sync", box)), {"bin": "created", "bin/ls": "created"}, "a project in a home")


@test
def settings_of_a_bare_repository_do_not_come_out(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        for name, text in {"HEAD": "ref: refs/heads/main\n", "config": "[core]\n", "objects/keep": "", "refs/keep": ""}.items():
            c.write(f"work/repo/fixture.git/{name}", text)
        c.write("work/repo/.git/HEAD", "ref: refs/heads/main\n")
        box = mirrored(cli, host)
        cli.sh(box, "cd /workspace && mkdir -p fixture.git/hooks .git/objects/evil && echo evil > fixture.git/hooks/post-checkout && echo blob > fixture.git/objects/x"
               " && printf '[core]\n bare = false\n worktree = ..\n fsmonitor = evil\n' > fixture.git/config"
               " && echo evil > .git/objects/evil/HEAD && echo evil > .git/objects/evil/config && echo evil > CLAUDE.md. && echo evil > GIT~1").expect(0)
        done = changes(cli.json("sync", box, code=4))
        for path in ("fixture.git/config", "fixture.git/hooks/post-checkout", ".git/objects/evil/HEAD", "CLAUDE.md.", "GIT~1"):
            equal(done.get(path), "sensitive", f"what became of {path}: {done}")
        equal(((host / "fixture.git/config").read_text(), (host / "fixture.git/hooks/post-checkout").exists(), (host / "fixture.git/objects/x").exists()),
              ("[core]\n", False, True), "the repository of the host")


@test
def a_move_to_a_held_name_loses_nothing(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        cli.sh(box, "cd /workspace && mv dir .newdot && mv a.txt moved.txt").expect(0)
        cli("sync", box).expect(4, says="half of a move").expect(4, says="--accept PATH")
        wanted = {".newdot/c.txt": "sensitive", "dir/c.txt": "sensitive", "dir": "sensitive"}
        equal(changes(cli.json("sync", box, code=4)), wanted, "what is held the second time")
        equal(((host / "dir/c.txt").read_text(), (host / "moved.txt").read_text(), (host / "a.txt").exists()), ("host c\n", "host a\n", False), "the host")
        equal(changes(cli.json("sync", box, "--accept", ".newdot")), {".newdot/c.txt": "created", "dir/c.txt": "deleted", "dir": "deleted"}, "with --accept")
        cli.sh(box, "cd /workspace && mv b.txt .b && rm run.sh").expect(0)
        equal(changes(cli.json("sync", box, "--accept", "run.sh", code=4)), {".b": "sensitive", "b.txt": "sensitive", "run.sh": "deleted"}, "an accepted deletion")
        cli("destroy", box).expect(4, says="sensitive: 2")
        cli("destroy", box, "--keep").expect(0)
        equal((host / "b.txt").read_text(), "host b\n", "the host after a destroy")


@test
def many_changes_do_not_crowd_out_what_is_held(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        cli.sh(box, "cd /workspace && for i in $(seq 1100); do echo $i > f$i; done && mv b.txt .b").expect(0)
        report = cli.json("sync", box, code=4)
        done = changes(report)
        equal((done.get("b.txt"), done.get(".b")), ("sensitive", "sensitive"), "what is held")
        equal((report["counts"]["created"], sum(action == "created" for action in done.values())), (1100, 1000), "what was made, and how much of it is listed")


@test
def links_and_devices_do_not_come_out(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        c.write("work/outside", "outside\n")
        box = mirrored(cli, host)
        cli.sh(box, "cd /workspace && ln -s ../outside out && ln -s /etc/passwd abs && ln -s a.txt fine && mkfifo pipe && rm -r dir && ln -s .. dir").expect(0)
        done = changes(cli.json("sync", box, code=4))
        equal({p: done.get(p) for p in ("out", "abs", "fine")}, {"out": "refused", "abs": "refused", "fine": "created"}, f"links ({done})")
        check(not os.path.lexists(host / "out") and not os.path.lexists(host / "abs") and not os.path.lexists(host / "pipe"), "something came out")
        equal((c.dir / "work/outside").read_text(), "outside\n", "the file beside the workspace")


@test(only="plain", because="root's daemon shows no directory of the host, it copies")
def a_read_only_workspace_is_the_directory_itself(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = cli.create("-p", "profile.work", "--input", f"repo={host}", "--access", "ro")
        (host / "a.txt").write_text("later\n")
        cli.sh(box, "cat /workspace/a.txt").expect(0, out=b"later\n")
        cli.sh(box, "echo x > /workspace/a.txt").expect((1, 2), says="Read-only")
        cli("sync", box).expect(4, says="no workspace that mirrors a directory")


@test(only="root", because="a plain user's daemon shows the directory itself")
def a_read_only_workspace_of_root_is_a_copy(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        before = (host / "a.txt").read_bytes()
        box = cli.create("-p", "profile.work", "--input", f"repo={host}", "--access", "ro")
        cli.sh(box, "cat /workspace/a.txt; echo x > /workspace/a.txt").expect(0, out=before)
        cli("sync", box).expect(4, says="no workspace that mirrors a directory")
        cli("destroy", box).expect(0)
        check((host / "a.txt").read_bytes() == before, "what was written inside came back")


@test
def what_is_no_directory_is_refused(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        c.own_link(c.dir / "work/link", str(host))
        c.own_link(c.dir / "work/up", "/etc")
        before = set(cli.lines("list", "-q", "--state", "all"))
        for path, codes in (("/nowhere/at/all", (2, 3, 5)), (f"{c.dir}/work/none", (2, 3, 5)), (f"{host}/a.txt", (1, 2, 5))):
            cli("create", "-p", "profile.work", "--input", f"repo={path}").expect(codes)
        cli("create", "-p", "profile.work", "--input", "repo=none/../..", "--access", "rw").expect((1, 2, 3, 5))
        after = {box: cli.state(box) for box in set(cli.lines("list", "-q", "--state", "all")) - before}
        equal(set(after.values()) - {"destroyed"}, set(), f"states: {after}")


@test
def inputs_that_would_be_ignored_are_errors(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        cli("create", "--input", f"repo={host}").expect(2, says="has no workspace")
        cli("create", "-p", "profile.work", "--input", f"reop={host}").expect(2, says="the only one is repo")
        cli("create", "-p", "profile.work", "--input", f"repo={host}", "--access", "none").expect(2, says="workspace.access none")
        cli("create", "--input", f"repo={host}/none").expect(3, says=f"{host}/none")
        asked = {"profile": "profile.work", "inputs": {"repo": str(host)}, "capabilities": {"filesystem": "none"}}
        check("capabilities.filesystem none" in d.api.post("/v1/sandboxes", asked).expect(400, "invalid").json["detail"], "it is not said why")
        equal(cli.lines("list", "-q", "--state", "all"), [], "what was made")


@test
def programs_start_in_the_workspace(c):
    c.write("daemon/profiles/mine.yaml", "id: profile.mine\nversion: 1\nworkdir: /workspace\nworkspace: {access: rw}\n")
    c.write("daemon/profiles/agent-dev.yaml", (Path(__file__).parents[2] / "profiles/agent-dev.yaml").read_text())
    c.write("daemon/profiles/deep.yaml", "id: profile.deep\nversion: 1\nworkdir: /srv/a/b\npool: {min: 1, max: 1}\n")
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = cli.create("-p", "profile.mine", "--input", f"repo={host}")
        cli.sh(box, "pwd; cat a.txt; echo inside > a.txt").expect(0, out=b"/workspace\nhost a\n")
        cli("destroy", box).expect(0)
        equal((host / "a.txt").read_text(), "inside\n", "after destroy")
        for profile, path in (("mine", "/workspace"), ("agent-dev", "/workspace"), ("deep", "/srv/a/b")):
            cli.sh(cli.create("-p", f"profile.{profile}"), "pwd; ls").expect(0, out=f"{path}\n".encode())


@test
def a_create_that_fails_is_destroyed_by_the_daemon(c):
    with daemon_for(c) as d:
        d.create()  # nothing is shared with the one that fails
        asked = {"profile": "profile.work", "inputs": {"repo": f"{c.dir}/work/none"}}
        failed = d.api.post("/v1/sandboxes", asked)
        check(failed.status >= 400, f"it was created: {failed}")
        record = d.get(failed.json["sandbox_id"])
        equal((record["state"], record["step"]), ("destroyed", "workspace"), f"when it is answered: {record}")
        check("workspace none is not a directory" in record["reason"], f"the reason is lost: {record}")
        equal(len(d.list()), 1, "sandboxes that are left")


@test(only="root", because="a plain user's daemon has the user's own rights")
def roots_daemon_keeps_to_its_roots(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        c.own_link(c.dir / "work/link", str(host))
        c.own_link(c.dir / "work/up", "/etc")
        outside = c.mkdir(c.dir / "elsewhere")
        for path in ("/etc", "/root", str(outside), f"{c.dir}/work/../elsewhere", f"{c.dir}/work/link", f"{c.dir}/work/up", f"{c.dir}/work/up/ssl", "/"):
            for access in ("ro", "rw"):
                answer = d.api.post("/v1/sandboxes", {"profile": "profile.work", "inputs": {"repo": path}, "workspace": {"mode": "mirror", "access": access}})
                inside = path.startswith(f"{c.dir}/work")
                check(answer.status >= 400 if inside else answer.status == 403, f"{path} ({access}): {answer}")
        box = mirrored(cli, host)
        os.rename(host, c.dir / "work/moved")
        os.symlink("/etc", host)
        cli.sh(box, "echo evil > /workspace/passwd").expect(0)
        check(cli("sync", box).code != 0, "a workspace that became a link is followed")
        check("evil" not in open("/etc/passwd").read(), "/etc was written to")
        os.unlink(host)
        cli("destroy", box, "--no-sync").expect(0)


def plain_client(c, d, *argv):
    return subprocess.run([c.program(), *argv], user=PLAIN, group=PLAIN, extra_groups=[], env={**c.environment, **Client(d).env},
                          capture_output=True, check=False, cwd="/", text=True)


@test(only="root", because="other users reach only root's daemon")
def another_user_has_its_own_directories_and_no_others(c):
    d = daemon_for(c, 'socket: {mode: "0666"}')
    own, roots = c.dir / "work/own", c.dir / "work/roots"
    for path, owner in ((own, PLAIN), (roots, 0)):
        c.write(f"work/{path.name}/a.txt", "a\n")
        os.chown(path, owner, owner)
        os.chown(path / "a.txt", owner, owner)
    for path in (c.dir, c.dir / "work", own, roots):
        os.chmod(path, 0o755)
    with d:
        os.chmod(d.dir, 0o755)
        done = plain_client(c, d, "create", "-q", "-p", "profile.work", "--input", f"repo={own}")
        equal(done.returncode, 0, f"uid {PLAIN} names its own directory: {done}")
        box = done.stdout.strip()
        equal(plain_client(c, d, "exec", box, "--", "sh", "-c", "echo inside > /workspace/a.txt; echo x > /workspace/new").returncode, 0, "exec")
        equal(plain_client(c, d, "sync", box).returncode, 0, "sync")
        equal(((own / "a.txt").read_text(), (own / "new").stat().st_uid), ("inside\n", PLAIN), "what was brought back")
        done = plain_client(c, d, "create", "-q", "-p", "profile.work", "--input", f"repo={roots}")
        check(done.returncode == 5 and str(roots) in done.stderr, f"root's directory, which anybody may read: {done}")


@test(only="root", because="a plain user's daemon has the user's own rights")
def no_directory_is_a_root_unless_the_operator_says_so(c):
    c.write("daemon/profiles/work.yaml", "id: profile.work\nversion: 1\nworkspace: {mode: mirror, access: rw}\n")
    with Daemon(c) as d:
        for path in ("/home/no-such-user/x", "/root/no-such-directory", str(c.mkdir(c.dir / "elsewhere"))):
            got = d.api.post("/v1/sandboxes", {"profile": "profile.work", "inputs": {"repo": path}})
            check(got.status == 403 and "workspaces.roots" in got.json["detail"], f"{path} in a request: {got}")


@test(only="root", because="a plain user's daemon has the user's own rights")
def the_command_line_opens_what_no_root_has(c):
    with daemon_for(c) as d:
        cli, outside = Client(d), c.mkdir(c.dir / "elsewhere")
        (outside / "a.txt").write_text("a\n")
        box = mirrored(cli, outside)
        cli.sh(box, "echo inside > /workspace/a.txt").expect(0)
        d.kill()  # what was granted outlives the daemon
        d.start()
        equal(changes(cli.json("sync", box)), {"a.txt": "replaced"}, "after a restart")
        box = cli("recreate", "-q", box).expect(0).text.strip()
        cli.sh(box, "cat /workspace/a.txt").expect(0, out=b"inside\n")
        answer = d.api.post(f"/v1/sandboxes/{box}/recreate")
        check(answer.status == 403 and "workspaces.roots" in answer.json["detail"], f"a path of a request: {answer}")
        check(f"{box} is unchanged" in answer.json["detail"], f"what became of the old one is said: {answer}")
        cli.sh(box, "cat /workspace/a.txt").expect(0, out=b"inside\n")


@test
def the_workspace_of_a_sandbox_that_is_gone_is_forgotten_at_the_next_start(c):
    """As a daemon leaves it that is killed between the record of a destroy and the removal of manifest and grant."""
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box, gone = mirrored(cli, host), "sbx_" + 20 * "a"
        own = [d.state / "daemon/mirror" / box, d.state / "grants" / box]
        left = [file.with_name(gone) for file in own] + [d.state / f"daemon/mirror/{gone}.new"]
        d.stop()
        for file in left:
            shutil.copyfile(own[left.index(file) % 2], file)
        d.start()
        wait_for(lambda: not any(file.exists() for file in left), "manifest and grant of a sandbox that is gone are removed")
        check(all(file.exists() for file in own), "those of a sandbox that lives stay")
        cli.sh(box, "echo inside > /workspace/a.txt").expect(0)
        cli.json("sync", box)
        equal((host / "a.txt").read_text(), "inside\n", "what was brought back")


@test
def a_recreate_without_its_directory_destroys_nothing(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        cli.sh(box, "echo inside > /workspace/a.txt").expect(0)
        moved, records = c.dir / "work/moved", len(os.listdir(d.state / "grants"))
        host.rename(moved)
        for way in ("gone", "a file", "a link"):
            if way == "a file":
                c.write(str(host.relative_to(c.dir)), "no directory")
            elif way == "a link":
                host.unlink()
                host.symlink_to(c.dir / "nowhere")
            answer = d.api.post(f"/v1/sandboxes/{box}/recreate")
            check(answer.status in (400, 403) and f"{box} is unchanged" in answer.json["detail"] and host.name in answer.json["detail"], f"{way}: {answer}")
            equal([b["sandbox_id"] for b in d.list()], [box], f"sandboxes with a directory that is {way}")
            cli.sh(box, "cat /workspace/a.txt").expect(0, out=b"inside\n")
        equal(len(os.listdir(d.state / "grants")), records, "what was granted")
        host.unlink()
        moved.rename(host)
        new = d.api.post(f"/v1/sandboxes/{box}/recreate").expect(201).json["sandbox_id"]
        equal((host / "a.txt").read_text(), "inside\n", "what the old one brought back")
        cli.sh(new, "cat /workspace/a.txt").expect(0, out=b"inside\n")
        again = cli("recreate", "-q", new).expect(0).text.strip()  # the command line hands it over
        cli.sh(again, "cat /workspace/a.txt").expect(0, out=b"inside\n")


@test
def a_recreate_with_a_key_that_was_used_destroys_nothing(c):
    with daemon_for(c) as d:
        first, second = d.create(), d.create()
        key = {"Idempotency-Key": "k"}
        new = d.api.post(f"/v1/sandboxes/{first}/recreate", headers=key).expect(201).json["sandbox_id"]
        equal(d.api.post(f"/v1/sandboxes/{first}/recreate", headers=key).expect(200).json["sandbox_id"], new, "the same request again")
        answer = d.api.post(f"/v1/sandboxes/{second}/recreate", headers=key).expect(409, code="conflict")
        check(f"{second} is unchanged" in answer.json["detail"], f"{answer}")
        d.works(second)
        d.works(new)


@test
def a_remote_daemon_takes_no_directories(c):
    d, port = daemon_for(c), free_port()
    d.start(args=("--listen", f"127.0.0.1:{port}"))
    with d:
        host = workspace(c)
        token = d.api.post("/v1/tokens", {"name": "t", "verbs": ["create", "read", "destroy"]}).expect(201).json["token"]
        env = {"SANDBOXER_URL": f"http://127.0.0.1:{port}", "SANDBOXER_TOKEN": token}
        done = c.execute([c.program(), "create", "-p", "profile.work", "--input", f"repo={host}"], env=env)
        check(done.code == 2 and b"remote" in done.err, f"the command line: {done}")
        answer = Tcp(port, token).post("/v1/sandboxes", {"profile": "profile.work", "inputs": {"repo": str(host)}})
        check(answer.status == 403 and "unix socket" in answer.json["detail"], f"the API: {answer}")


@test
def resume_opens_the_directory_again_or_names_it(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        cli.sh(box, "echo inside > /workspace/a.txt").expect(0)
        cli("pause", box).expect(0)
        host.rename(c.dir / "work/moved")
        answer = d.api.post(f"/v1/sandboxes/{box}/resume")
        check(answer.status >= 400 and "repo" in answer.json["detail"] and "paused" in answer.json["detail"], f"{answer}")
        (c.dir / "work/moved").rename(host)
        cli("resume", box).expect(0)
        cli("destroy", box).expect(0)
        equal((host / "a.txt").read_text(), "inside\n", "after destroy")


@test
def a_directory_that_hangs_fails_its_create_and_nothing_else(c):
    d, host = daemon_for(c), workspace(c)
    d.start(SANDBOXER_STOP_AT="grant.open:1", SANDBOXER_TEST_DEADLINE="2")
    with d, ThreadPoolExecutor(1) as thread:
        box = d.create()
        asked = {"profile": "profile.work", "inputs": {"repo": str(host)}}
        answer = thread.submit(d.api.post, "/v1/sandboxes", asked, {"Prefer": "respond-async"})
        wait_for(lambda: d.stopped, "the workspace is being opened")
        d.works(box)
        stuck = answer.result().expect(202).json["sandbox_id"]
        wait_for(lambda: d.get(stuck)["state"] == "destroyed", "the create fails, and is destroyed")
        check(str(host) in json.dumps(d.get(stuck)), f"the path is not named: {d.get(stuck)}")
        d.works(box)


@test
def who_does_not_wait_is_answered_when_the_directory_is_granted(c):
    d, host = daemon_for(c), workspace(c)
    d.start(SANDBOXER_STOP_AT="grant.open:1")
    with d, ThreadPoolExecutor(1) as thread:
        asked = {"profile": "profile.work", "inputs": {"repo": str(host)}}
        answer = thread.submit(d.api.post, "/v1/sandboxes", asked, {"Prefer": "respond-async"})
        wait_for(lambda: d.stopped, "the workspace is being opened")
        d.works(d.create())
        check(not answer.done(), "answered, so that the client may close the connection that shows who it is")
        os.kill(d.stopped[0], signal.SIGCONT)
        box = answer.result().expect(202).json["sandbox_id"]
        wait_for(lambda: d.get(box)["state"] == "ready", "the workspace is there")


@test(only="root", because="other users reach only root's daemon")
def nobody_reads_through_roots_daemon_what_is_not_theirs(c):
    d = daemon_for(c, 'socket: {mode: "0666"}')
    secret = c.write("work/private/secret", "root's\n", 0o600)
    os.chmod(secret.parent, 0o700)
    with d:
        os.chmod(d.dir, 0o755)
        for access in ("ro", "rw"):
            result = subprocess.run([c.program(), "create", "-q", "-p", "profile.work", "--input", f"repo={secret.parent}", "--access", access], user=PLAIN, group=PLAIN,
                                    extra_groups=[], env={**c.environment, **Client(d).env}, capture_output=True, check=False, cwd="/")
            equal(result.returncode, 5, f"uid {PLAIN} names root's directory ({access}): {result}")


def news_of(d, method, path, body):
    """What is told before the answer to who prefers to know, and the answer's status."""
    data, got = json.dumps(body).encode(), b""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(str(d.socket))
        s.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nPrefer: x, Progress\r\n"
                  f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        while piece := s.recv(65536):
            got += piece
    heads = [head.splitlines() for head in got.decode().split("\r\n\r\n")[:-1]]
    news = [dict(line.split(": ") for line in head[1:]) for head in heads if " 102 " in head[0]]
    return news, int(heads[-1][0].split()[1]), json.loads(got.split(b"\r\n\r\n")[-1])


@test
def how_far_a_copy_is_can_be_heard(c):
    with daemon_for(c) as d:
        host = workspace(c)
        c.write("work/repo/big", b"x" * (8 << 20))
        request = {"profile": "profile.work", "inputs": {"repo": str(host)}}
        news, status, box = news_of(d, "POST", "/v1/sandboxes", request)
        equal(status, 201, "status")
        steps = [n["Progress-Step"] for n in news]
        equal(list(dict.fromkeys(steps)), ["provision", "probe", "workspace"], "the steps, in their order")
        check(any(int(n.get("Progress-Bytes", 0)) > 0 for n in news), f"no bytes in {news}")
        news, status, report = news_of(d, "POST", f"/v1/sandboxes/{box['sandbox_id']}/sync", {})
        equal((status, {n["Progress-Step"] for n in news}), (200, {"workspace"}), "the news of a sync")
        check(any(int(n["Progress-Bytes"]) > 0 for n in news), f"no bytes in {news}")
        answer = d.api.post("/v1/sandboxes", request)
        equal(answer.expect(201).json["state"], "ready", "who did not ask is only answered")


@test
def a_file_system_that_hangs_holds_up_nobody_else(c):
    d, host = daemon_for(c), workspace(c)
    d.start(SANDBOXER_STOP_AT="ask.open:1")
    asked = {"profile": "profile.work", "inputs": {"repo": str(host)}}
    with d:
        def create_stuck():
            known = d.stopped
            box = d.api.post("/v1/sandboxes", asked, {"Prefer": "respond-async"}).expect(202).json["sandbox_id"]
            wait_for(lambda: len(d.stopped) > len(known), "the workspace is being opened")
            return box, next(pid for pid in d.stopped if pid not in known)
        stuck, opens = create_stuck()
        d.kill_launchers()  # the warden is asked again
        for _ in range(2):
            box = d.create()
            d.works(box)
            d.destroy(box)
        equal(d.get(stuck)["state"], "provisioning", "the state of what waits")
        other, opens_too = create_stuck()
        d.destroy(other)  # nobody needs what hangs
        os.kill(opens_too, signal.SIGCONT)
        wait_for(lambda: opens_too not in processes(), "a copy for nobody ends")
        os.kill(opens, signal.SIGCONT)
        wait_for(lambda: d.get(stuck)["state"] == "ready", "the workspace is there")
        equal(d.api.run(stuck, ["cat", "/workspace/a.txt"]).expect(200).json["stdout"], "host a\n", "a file of the workspace")
        equal(d.api.delete(f"/v1/sandboxes/{stuck}?sync=no").expect(200).json["state"], "destroyed", "state")


@test
def a_file_system_that_hangs_holds_up_no_destroy_for_ever(c):
    d, host = daemon_for(c, patience="4s"), workspace(c)
    with d:
        box = mirrored(Client(d), host)
        d.stop()
        d.start(SANDBOXER_STOP_AT="ask.open:1")
        answer = d.api.post(f"/v1/sandboxes/{box}/sync").expect(504, code="timeout")
        check("no progress" in answer.json["detail"], f"{answer}")
        d.destroy(box)
        wait_for(lambda: "workspace.unsynced" in d.log_path.read_text(), "the log says that it was not brought back")
        for pid in d.stopped:
            os.kill(pid, signal.SIGCONT)
        wait_for(lambda: not d.stopped and len(d.parts("sandboxerd")) == 1, "copies for nobody end")


@test
def a_copy_that_hangs_keeps_its_slot_and_no_destroy_waits_for_it_for_ever(c):
    d, host = daemon_for(c, ROOM + "limits: {workspace_copies: 1}", patience="4s"), workspace(c)
    with d:
        cli = Client(d)
        stuck, other = mirrored(cli, host), mirrored(cli, host)
        cli.sh(other, "echo inside > /workspace/a.txt")
        d.stop()
        d.start(SANDBOXER_STOP_AT="ask.open:1")
        d.api.post(f"/v1/sandboxes/{stuck}/sync").expect(504, code="timeout")
        answer = d.api.post(f"/v1/sandboxes/{other}/sync").expect(504, code="timeout")
        check("cannot begin" in answer.json["detail"], f"{answer}")
        equal(len(d.stopped), 1, "processes that copy")
        d.destroy(other)
        equal(read_kept(d, cli, d.get(other)["kept"]["snapshot_id"]), "inside", "what was kept")
        hung = d.stopped
        os.kill(hung[0], signal.SIGCONT)
        wait_for(lambda: hung[0] not in processes(), "the copy for nobody ends")
        with ThreadPoolExecutor(1) as thread:
            again = thread.submit(d.api.post, f"/v1/sandboxes/{stuck}/sync")
            wait_for(lambda: d.stopped, "its slot is free")
            os.kill(d.stopped[0], signal.SIGCONT)
            again.result().expect(200)


@test
def a_failure_of_ours_is_not_the_callers(c):
    with daemon_for(c) as d:
        box, kept = mirrored(Client(d), workspace(c)), d.state / "daemon/mirror"
        kept.rename(d.dir / "away")
        kept.write_text("a file where our directory should be\n")
        d.api.post(f"/v1/sandboxes/{box}/sync").expect(500, code="system")
        kept.unlink()
        (d.dir / "away").rename(kept)
        d.api.post(f"/v1/sandboxes/{box}/sync").expect(200)


main()
