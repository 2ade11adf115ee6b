#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Checkpoints of a sandbox, and the way back to them: nothing that was there is lost, whoever is killed meanwhile."""

import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor

from agents import Agents
from client import Client
from daemon import Api, Cut, Daemon
from harness import check, equal, main, test, wait_for
from mcp import ACCEPT, VERSION, Lines
from tcp import Tcp, free_port
from trees import boxes, layers, look, make, run, same, unfinished
from volumes import volume
from workspaces import daemon_for, mirrored, workspace

POINTS = ("pause.told", "undo.compare", "undo.stop", "stop.remove", "checkpoint.store", "snapshot.record", "snapshot.told", "undo.record",
          "undo.recorded", "resume.record", "resume.told")


def checkpoints(d, box):
    return d.api.get(f"/v1/sandboxes/{box}/checkpoints").expect(200).json["checkpoints"]


def take(d, box, cause="test"):
    return d.api.post(f"/v1/sandboxes/{box}/checkpoints", {"cause": cause}).expect(200).json


def undo(d, box, **request):
    return d.api.post(f"/v1/sandboxes/{box}/undo", request).expect(200).json


def write(d, box, text, path="/root/f"):
    run(d, box, ["sh", "-c", f"echo {text} >{path}"])


def read(d, box, path="/root/f"):
    return run(d, box, ["sh", "-c", f"cat {path} 2>/dev/null || echo none"]).strip()


def ended(d, box, number):
    return d.api.get(f"/v1/sandboxes/{box}/processes/{number}").expect(200).json["state"] != "running"


def solid(lines):
    """Without holes: xfs fills what is about to be written."""
    return [line[:7] + line[8:] if len(line) > 9 else line for line in lines]


def goes_back_and_forth(d):
    with d:
        box = d.create(labels={"team": "web"})
        run(d, box, ["mkdir", "/root/all"])
        equal(checkpoints(d, box), [], "the checkpoints of a new one")
        make(d, box, "/root/all/x")
        first = take(d, box, "turn 1")
        equal((first["checkpoint"], first["parent"], first["taken"], first["cause"]), (1, 0, True, "turn 1"), "the first")
        equal((take(d, box)["checkpoint"], take(d, box)["taken"]), (1, False), "one without changes")
        before = look(d, box, "/root/all")
        run(d, box, ["sh", "-c", "rm -rf /root/all/x/deep; echo two >/root/f; echo 2 >/root/g"])
        equal(take(d, box, "turn 2")["changed"], 3, "the number of changed paths")
        run(d, box, ["sh", "-c", "rm /root/g; echo three >/root/f"])

        # The files that it has are stored first, so that every step can be taken back.
        back = undo(d, box)
        equal((back["checkpoint"], back["kept"], back["cause"], back["changed"], back["state"]), (2, 3, "turn 2", 2, "ready"), "an undo")
        equal((read(d, box), read(d, box, "/root/g")), ("two", "2"), "the files after it")
        back = undo(d, box)
        equal((back["checkpoint"], back["kept"], back["changed"]), (1, 2, 0), "another one")
        same(solid(before), solid(look(d, box, "/root/all")), "the files of the first checkpoint")
        d.api.post(f"/v1/sandboxes/{box}/undo", {}).expect(404)
        equal(undo(d, box, to=3)["kept"], 1, "forth")
        equal((read(d, box), read(d, box, "/root/g")), ("three", "none"), "the files that were undone")
        d.api.post(f"/v1/sandboxes/{box}/undo", {"to": 3}).expect(409)
        d.api.post(f"/v1/sandboxes/{box}/undo", {"to": 77}).expect(404)
        equal([(x["checkpoint"], x["parent"], x["current"]) for x in checkpoints(d, box)], [(1, 0, False), (2, 1, False), (3, 2, True)],
              "the list")

        # A paused one stays stopped; it keeps its id and everything else.
        write(d, box, "four")
        d.api.post(f"/v1/sandboxes/{box}/pause").expect(200)
        back = undo(d, box, to=2)
        equal((back["state"], back["kept"]), ("paused", 4), "a paused one")
        d.stop()
        d.start()
        equal((d.get(box)["state"], d.get(box)["labels"]), ("paused", {"team": "web"}), "after a restart")
        d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
        equal(read(d, box), "two", "its files")
        equal(undo(d, box, to=4)["checkpoint"], 4, "to what it had when it was paused")
        equal(read(d, box), "four", "its files")

        # They are no snapshots of the list, but a sandbox can be made of each; and they end with theirs.
        equal(d.api.get("/v1/snapshots").json["snapshots"], [], "snapshots")
        other = d.create(snapshot=checkpoints(d, box)[1]["snapshot_id"])
        equal((read(d, other), checkpoints(d, other)), ("two", []), "one of a checkpoint")
        for b in (box, other):
            d.destroy(b)
        wait_for(lambda: layers(d) == [] and unfinished(d) == [] and box not in boxes(d), "the layers are gone")
        d.stop()
        with contextlib.closing(sqlite3.connect(d.state / "daemon/sandboxer.db")) as db:
            equal(db.execute("SELECT count(*) FROM snapshots").fetchone(), (0,), "rows")
        d.start()


@test
def an_undo_can_be_undone_in_memory(c):
    goes_back_and_forth(Daemon(c, driver="memory"))


@test
def an_undo_can_be_undone_on_disk(c):
    goes_back_and_forth(Daemon(c, driver="plain"))


@test(only="root", because="only root mounts file systems")
def an_undo_can_be_undone_on_btrfs(c):
    with volume(c, "btrfs") as top:
        goes_back_and_forth(Daemon(c, driver="btrfs", state=top / "state"))


@test(only="root", because="only root mounts file systems")
def an_undo_can_be_undone_with_reflinks(c):
    with volume(c, "xfs") as top:
        goes_back_and_forth(Daemon(c, driver="reflink", state=top / "state"))


@test
def programs_end_with_an_undo_and_only_with_one_that_succeeds(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli("undo", box, "--yes").expect((1, 3), says="no checkpoints")
        cli("undo", box, "--checkpoint", "--cause", "the start").expect(0, out=f"{box}: checkpoint 1\n".encode())
        cli("undo", box, "--checkpoint").expect(0, out=f"{box}: nothing has changed since checkpoint 1\n".encode())
        number = cli.spawn(box, "echo more >/root/f; exec sleep 600")
        wait_for(lambda: read(d, box) == "more", "it writes")
        cli("undo", box).expect(2, says="confirm with --yes")
        cli("undo", box, "--to", "9", "--yes").expect((1, 3), says="undo --list")
        check(not ended(d, box, number), "an undo that failed has ended it")
        done = cli("undo", "--yes").expect(0, says=f"sandboxer undo {box} --to 2")
        check(done.text.startswith(f"{box} is back at checkpoint 1 (the start, "), f"{done}")
        equal((read(d, box), ended(d, box, number)), ("none", True), "after an undo")
        rows = cli.lines("undo", "--list", box)
        check(len(rows) == 3 and rows[2].split()[0] == "2" and "undo" in rows[2] and "the start" in rows[1], f"{rows}")
        equal([x["current"] for x in cli.json("undo", "-l", box)["checkpoints"]], [True, False], "the list")
        events = [e["type"] for e in d.api.get(f"/v1/sandboxes/{box}/events?limit=100").json["events"]]
        check(events.count("sandbox.checkpoint") == 2 and events.count("sandbox.undone") == 1, f"{events}")
        cli.create()
        cli("undo").expect(2, says="name one of them")


@test
def a_workspace_conflicts_as_ever(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        cli("undo", box, "--checkpoint").expect(0)
        cli.sh(box, "cd /workspace && echo inside >a.txt && rm b.txt && echo new >new.txt && echo other >dir/c.txt").expect(0)
        cli("sync", box).expect(0)
        equal(((host / "a.txt").read_text(), (host / "b.txt").exists()), ("inside\n", False), "the host after a sync")
        cli.sh(box, "echo later >/workspace/a.txt").expect(0)
        (host / "dir/c.txt").write_text("changed here\n")
        cli("undo", box).expect(0)
        equal(((host / "a.txt").read_text(), (host / "new.txt").read_text(), (host / "b.txt").exists()), ("inside\n", "new\n", False),
              "the host after an undo")
        # While a conflict keeps a file inside, nothing is deleted: it could be half of a move.
        report = cli.json("sync", box, code=4)
        equal({x["path"]: x["action"] for x in report["changes"]},
              {"a.txt": "replaced", "b.txt": "created", "new.txt": "sensitive", "dir/c.txt": "conflict"}, "the way back")
        equal(((host / "a.txt").read_text(), (host / "b.txt").read_text(), (host / "new.txt").exists(), (host / "dir/c.txt").read_text()),
              ("host a\n", "host b\n", True, "changed here\n"), "the host after another sync")
        equal(cli.sh(box, "cat /workspace/dir/c.txt").text, "host c", "the side that is inside")
        cli("destroy", box).expect(4, says="not destroyed")
        equal(cli("undo", box, "--to", "2").expect(0).code, 0, "the undo of it")
        equal(cli.sh(box, "cat /workspace/a.txt /workspace/dir/c.txt").text.split(), ["later", "other"], "what was undone")
        cli("destroy", box, "--discard").expect(0)


@test
def a_sandbox_takes_them_by_itself(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--checkpoint", "5s")
        equal(len(checkpoints(d, box)), 1, "the first one")
        write(d, box, "one")
        wait_for(lambda: len(checkpoints(d, box)) == 2, "another one after a change")
        equal([x["cause"] for x in checkpoints(d, box)], ["created", "interval"], "causes")
        d.stop()
        d.start()
        write(d, box, "two")
        wait_for(lambda: len(checkpoints(d, box)) == 3, "another one after a restart")
        equal(undo(d, box)["checkpoint"], 2, "an undo")
        equal(read(d, box), "one", "its files")
        cli("create", "--checkpoint", "1s").expect(2, says="checkpoint_every")


@test
def those_at_an_interval_count_for_the_events_of_their_token(c):
    d, port = Daemon(c, config="limits: {events_keep: 1000, events_per_owner: 40}\n"), free_port()
    d.start(args=("--listen", f"127.0.0.1:{port}"))
    with d:
        api = Tcp(port, Client(d).json("token", "create", "bot")["token"])
        box = api.post("/v1/sandboxes", {"checkpoint_every": "5s"}).expect(201).json["sandbox_id"]
        wait_for(lambda: api.post(f"/v1/sandboxes/{box}/extend-ttl", {"duration": "5m"}).expect(200, 429).status == 429, "the budget of its family ends")
        before = len(checkpoints(d, box))
        write(d, box, "one")
        refused = lambda: [x for x in d.log_path.read_text().splitlines() if "checkpoint.not_taken" in x and "limits.events_per_owner" in x]
        wait_for(refused, "one is refused", 60)
        equal(len(checkpoints(d, box)), before, "checkpoints")
        take(d, box)  # by the administrator
        equal(len(checkpoints(d, box)), before + 1, "checkpoints")


@test
def an_agent_can_be_undone(c):
    with Agents(c) as a:
        d = a.daemon
        a.script("helper", "#!/bin/sh\necho edited >a.txt\necho up\nexec sleep 600\n")
        a.recipe("helper", "program: helper\n")
        agent = a.cli.start("agent", "helper", "--sync", "auto", cwd=a.host)
        equal(agent.stdout.readline(), b"up\n", "what the agent prints")
        box = list(a.boxes())[0]
        equal([x["cause"] for x in checkpoints(d, box)], ["agent started"], "causes")
        equal(a.cli("undo", "--yes", cwd=a.host).expect(0).code, 0, "an undo for this directory")
        # The sandbox is kept although --sync would bring all back and end it.
        notes = agent.communicate(timeout=60)[1].decode()
        check("is kept" in notes, notes)
        equal((a.read("a.txt"), list(a.boxes())), ("host a\n", [box]), "the host, and the sandbox")
        a.script("helper", "#!/bin/sh\nexit 1\n")
        wait_for(lambda: a.boxes()[box] in ("paused", "ready"), "the undo and the agent are over")
        a.cli("resume", box).expect(0)
        equal(a.cli.sh(box, "cat /workspace/a.txt").text, "host a", "the file inside")
        a.cli("undo", box, "--to", "2").expect(0)
        equal(a.cli.sh(box, "cat /workspace/a.txt").text, "edited", "what the agent did")
        a("--checkpoint", "0", "--keep", "--", "true").expect(0)
        other = [b for b in a.boxes() if b != box][0]
        equal(checkpoints(d, other), [], "without checkpoints")


@test
def calls_of_a_model_can_be_undone(c):
    with Daemon(c) as d:
        cli = Client(d)
        with Lines(c, d, ("--checkpoint",)) as m:
            m.begin()
            box = m.tool("sandbox_create")["sandbox_id"]
            m.tool("sandbox_write", sandbox_id=box, path="/root/f", content="one\n")
            equal(m.tool("sandbox_exec", sandbox_id=box, command="cat /root/f; echo two >/root/f")["stdout"], "one\n", "a call")
            m.tool("sandbox_exec", sandbox_id=box, command="true")
            m.tool("sandbox_exec", sandbox_id=box, command="rm /root/f")
            equal([x["cause"] for x in checkpoints(d, box)], ["before sandbox_write", "before sandbox_exec", "before sandbox_exec"], "causes")
            cli("undo", box).expect(0)
            equal(m.tool("sandbox_read", sandbox_id=box, path="/root/f")["content"], "two\n", "the file that the last call removed")
        with Lines(c, d) as m:
            m.begin()
            box = m.tool("sandbox_create")["sandbox_id"]
            m.tool("sandbox_write", sandbox_id=box, path="/root/f", content="one\n")
            equal(checkpoints(d, box), [], "without the option")


@test
def a_token_cannot_ask_for_checkpoints_of_calls(c):
    d, port = Daemon(c), free_port()
    d.start(args=("--listen", f"127.0.0.1:{port}"))
    with d:
        api = Tcp(port, Client(d).json("token", "create", "bot")["token"])
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
                 "params": {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
        for more, status in (({}, 200), ({"Sandboxer_Checkpoint": "calls"}, 403)):
            api.request("POST", "/mcp", hello, **ACCEPT, **more).expect(status)


def killed_at(c, driver):
    for point in POINTS:
        d = Daemon(c, f"{driver}-{point}", driver=driver)
        with d:
            box = d.create()
            write(d, box, "one")
            take(d, box)
            write(d, box, "two")
            d.stop()
            d.start(SANDBOXER_DIE_AT=f"{point}:1")
            with contextlib.suppress(Cut, OSError):
                d.api.post(f"/v1/sandboxes/{box}/undo", {})
            equal(d.wait(), 137, f"{point}: the daemon's end")
            d.start()
            if d.get(box)["state"] == "paused":
                d.api.post(f"/v1/sandboxes/{box}/resume").expect(200)
            has = read(d, box)
            check(has in ("one", "two"), f"{point}: it has {has!r}")
            # Nothing of what it had is lost: it is here, or in a checkpoint.
            if has == "one":
                equal(undo(d, box, to=2)["checkpoint"], 2, f"{point}: the undo of it")
                equal(read(d, box), "two", f"{point}: what was undone")
            equal(undo(d, box, to=1)["checkpoint"], 1, f"{point}: again")
            equal(read(d, box), "one", f"{point}: what it goes back to")
            d.destroy(box)
            wait_for(lambda: layers(d) == [] and unfinished(d) == [] and box not in boxes(d), f"{point}: the layers are gone")


@test
def requests_meet_an_undo(c):
    """A destroy in the midst of it wins, and so does the first of two; nothing is left behind."""
    with Daemon(c) as d, ThreadPoolExecutor() as pool:
        for i in range(12):
            box = d.create()
            write(d, box, "one")
            take(d, box)
            write(d, box, "two")
            api = [Api(d.socket) for _ in range(4)]
            first = pool.submit(api[0].post, f"/v1/sandboxes/{box}/undo", {})
            others = [pool.submit(api[1].post, f"/v1/sandboxes/{box}/undo", {}),
                      pool.submit(api[2].post, f"/v1/sandboxes/{box}/{('checkpoints', 'snapshot', 'fork')[i % 3]}", {})]
            if i % 2:
                others.append(pool.submit(api[3].delete, f"/v1/sandboxes/{box}"))
            for answer in (first, *others):
                answer.result().expect(200, 201, 404, 409, 503)
            if not i % 2:
                check(d.get(box)["state"] in ("ready", "active"), f"{d.get(box)}")
                check(read(d, box) in ("one", "two"), "its files")
        for b in d.list():
            d.destroy(b["sandbox_id"])
        for s in d.api.get("/v1/snapshots").json["snapshots"]:
            d.api.delete(f"/v1/snapshots/{s['snapshot_id']}").expect(204)
        wait_for(lambda: layers(d) == [] and unfinished(d) == [], "the layers are gone")


@test
def a_kill_leaves_either_state_in_memory(c):
    killed_at(c, "memory")


@test
def a_kill_leaves_either_state_on_disk(c):
    killed_at(c, "plain")


@test
def a_destroy_that_was_killed_leaves_no_checkpoints(c):
    d = Daemon(c)
    with d:
        box = d.create()
        write(d, box, "one")
        take(d, box)
        d.stop()
        with contextlib.closing(sqlite3.connect(d.state / "daemon/sandboxer.db")) as db:
            db.execute("UPDATE snapshots SET sandbox = 'sbx_gone00000000000'")
            db.commit()
        d.start()
        d.destroy(box)
        wait_for(lambda: layers(d) == [], "the layers are gone")


@test
def old_checkpoints_make_room(c):
    budget = 4 << 20
    with Daemon(c, config=f"limits: {{snapshot_bytes_per_owner: {budget}}}") as d:
        box = d.create()
        for i in range(7):
            run(d, box, ["sh", "-c", f"head -c 1M /dev/urandom >/root/f; echo {i} >/root/n"])
            take(d, box, f"turn {i}")
        left = [x["checkpoint"] for x in checkpoints(d, box)]
        check(left[-1] == 7 and 1 < len(left) < 5 and left == list(range(8 - len(left), 8)), f"{left}")
        run(d, box, ["sh", "-c", "head -c 1M /dev/urandom >>/root/f; echo 8 >/root/n"])
        equal(undo(d, box)["checkpoint"], 7, "an undo that needs room")
        equal(read(d, box, "/root/n"), "6", "its files")
        # What fits into no budget is refused before anything ends.
        run(d, box, ["sh", "-c", f"head -c {budget} /dev/urandom >/root/big"])
        job = d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sleep", "600"], "background": True}).expect(201).json
        d.api.post(f"/v1/sandboxes/{box}/checkpoints", {}).expect(429, 507)
        d.api.post(f"/v1/sandboxes/{box}/undo", {}).expect(429, 507)
        equal(ended(d, box, job["process"]), False, "its program")
        check(any(x["checkpoint"] == 7 for x in checkpoints(d, box)), "a refusal has removed one that is in use")
        # The number is bounded, too.
        run(d, box, ["rm", "/root/f", "/root/big"])
    with Daemon(c, "many") as d:
        box = d.create()
        for i in range(53):
            write(d, box, str(i))
            take(d, box)
        wait_for(lambda: [x["checkpoint"] for x in checkpoints(d, box)] == list(range(4, 54)), "50 are left")


if __name__ == "__main__":
    main()
