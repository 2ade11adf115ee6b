#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Making, finding, showing and ending sandboxes with the command line."""

import contextlib
import json
import os
import re
import select
import signal
import socket
import threading

from client import Client, same
from daemon import Daemon
from harness import check, equal, main, test, wait_for
from terminal import Terminal
from tiny_yaml import read as read_yaml


# ---- create -------------------------------------------------------------------------------------------


@test
def a_bare_create_is_a_canary(c):
    with Daemon(c) as d:
        cli = Client(d)
        shown = cli("create").expect(0).text
        # where a limit cannot be enforced, a note says so
        check(re.fullmatch(r"ID: +(sbx_\w+)\nEXPIRES: +in \d+m.*\n(NOTES: .*\n)?NEXT: +sandboxer exec \1 -- COMMAND", shown), f"create shows\n{shown}")
        box = cli.json("create")
        equal((box["state"], box["profile"], box["owner"]), ("ready", "profile.sandbox-canary", f"uid:{c.uid}"), "the answer")


@test
def no_answer_about_a_sandbox_has_facts_of_the_host(c):
    """Those are in 'inspect host', current and for administrators."""
    with Daemon(c) as d:
        cli = Client(d)
        made = cli.json("create")
        box = made["sandbox_id"]
        answers = {"create": made, "get": cli.json("get", box), "list": cli.json("list")["sandboxes"][0],
                   "pause": cli.json("pause", box), "resume": cli.json("resume", box), "destroy": cli.json("destroy", box)}
        host = cli.json("inspect", "host")
        check(host["memory_bytes"] > 0 and host["kernel"] == os.uname().release, f"inspect host: {host}")
        told = [verb for verb, answer in answers.items() if "telemetry" in answer or host["kernel"] in json.dumps(answer)]
        equal(told, [], "answers with facts of the host")


@test
def a_change_shows_the_sandbox_and_the_next_command(c):
    with Daemon(c) as d:
        cli = Client(d)
        made = cli("create", "--name", "web").expect(0).text.splitlines()
        equal(re.split(r": +", made[-1]), ["NEXT", "sandboxer exec web -- COMMAND"], "the end of create")
        for verb, command in ((("pause",), "resume web"), (("resume",), "exec web -- COMMAND"), (("stop",), "resume web"),
                              (("resume",), "exec web -- COMMAND"), (("extend-ttl", "-d", "20m"), "exec web -- COMMAND")):
            lines = cli.lines(verb[0], "web", *verb[1:])
            equal(re.split(r": +", lines[-1]), ["NEXT", f"sandboxer {command}"], f"the end of {verb}")
            check(len(lines) <= 5, f"{verb} shows {lines}")
        equal(re.split(r": +", cli.lines("create", "--no-wait", "--name", "soon")[-1]), ["NEXT", "sandboxer wait --state ready soon"], "the end of a create that does not wait")
        cli("wait", "--state", "ready", "soon").expect(0)


@test
def get_shows_limits_and_use(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--name", "web", "--cpu", "0.5")
        cli.sh(box, "sleep 600 & head -c 3M /dev/zero > /tmp/file; sync /tmp/file", "-d").expect(0)
        used = wait_for(lambda: (u := cli.json("get", box)["usage"])["disk_bytes"] >= 3 << 20 and u["processes"] and u, "the file counts")
        check(used["processes"] >= 1 and used["memory_bytes"] > 0 and used["cpu_seconds"] >= 0, f"usage: {used}")
        equal(cli.json("get", box)["limits"], {"cpu": 0.5, "memory_bytes": 128 << 20, "disk_bytes": 32 << 20, "pids": 64}, "limits")
        shown = cli("get", box).expect(0).text
        for words in (r"^LIMITS: +cpu 0.5, memory 128M, disk 32M, pids 64$", r"^USED: +cpu [\d.]+, memory \S+, disk 3\.\d+M, processes \d+$",
                      r"^EXPIRES: +in ", r"^EGRESS: +none: it has no network$"):
            check(re.search(words, shown, re.M), f"get does not show {words!r}:\n{shown}")
        check("memory_free_bytes" not in shown, f"get shows facts of the host:\n{shown}")
        cli("pause", box).expect(0)
        paused = cli.json("get", box)
        check("usage" not in paused and paused["limits"]["pids"] == 64, "a paused one has limits, and uses nothing now")
        check("usage" not in d.get(box), "usage that was not asked for")


@test
def create_says_what_was_asked_for(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.json("create", "--profile", "profile.pooled@1", "--ttl", "20m", "--label", "team=web", "-l", "n=1",
                       "--scope", "agent", "--actor", "agt", "--harness", "h", "--session-id", "s1", "--run-id", "r1",
                       "--job-id", "j1")
        got = {k: box[k] for k in ("profile", "ttl", "labels", "scope")}
        equal(got, {"profile": "profile.pooled", "ttl": 1200, "labels": {"team": "web", "n": "1"}, "scope": "agent"}, "the answer")
        mine = cli.create("--env", "GREETING=good day", "-e", "GREETING=hello")
        equal(cli.sh(mine, "echo $GREETING").expect(0).text, "hello", "a variable of all its programs")
        equal(box["consumer"], {"actor": "agt", "harness": "h", "session_id": "s1", "run_id": "r1", "job_id": "j1"}, "consumer")


@test
def yaml_and_json_say_the_same(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("-l", "a=on", "-l", "b=1.0", "-l", "c=null", "-l", "d=- x: 'y' #")
        for verb in (("get", box), ("list",), ("profiles", "list"), ("profiles", "get", "profile.pooled")):
            same(read_yaml(cli(*verb, "-o", "yaml").expect(0).out.decode()), cli.json(*verb), f"{verb} as yaml")


@test
def what_cannot_be_created_is_said(c):
    with Daemon(c) as d:
        cli = Client(d)
        cli("create", "--profile", "profile.nope").expect(3, says="profile.nope")
        cli("create", "--ttl", "soon").expect(2, says="--ttl")
        cli("create", "--label", "novalue").expect(2, says="KEY=VALUE")
        cli("create", "--scope", "world").expect(2, says="session agent shared")
        cli("create", "extra").expect(2, says="unexpected argument 'extra'")
        cli("create", "--ttl", "100d").expect(2, says="ttl: 100d is more than the 1h that")
        equal(cli.lines("list", "-q"), [], "sandboxes")


@test
def a_repeated_key_makes_nothing_new(c):
    with Daemon(c) as d:
        cli = Client(d)
        first = cli.create("--idempotency-key", "k1", "--label", "a=b")
        equal(cli.create("--idempotency-key", "k1", "--label", "a=b"), first, "the second answer")
        cli("create", "--idempotency-key", "k1", "--label", "a=c").expect(4)


@test
def no_wait_answers_before_it_is_ready(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.json("create", "--no-wait")
        wait_for(lambda: cli.state(box["sandbox_id"]) == "ready", "it gets ready by itself")


# ---- get, list ----------------------------------------------------------------------------------------


@test
def a_unique_start_of_an_id_is_enough(c):
    with Daemon(c) as d:
        cli = Client(d)
        one, two = cli.create(), cli.create()
        at = next(i for i in range(len(one)) if one[i] != two[i])
        equal(cli.json("get", one[:at + 1])["sandbox_id"], one, "by its start")
        cli("get", one[:at]).expect(4, says="prefix of several")
        cli("get", "sbx_nothing").expect(3, says="sbx_nothing")
        cli.sh(one[:at + 1], "true").expect(0)
        # A live one comes before those that are finished.
        cli("destroy", two).expect(0)
        equal(cli.json("get", one[:at])["sandbox_id"], one, "the only live one")
        equal(cli.json("get", two[:at + 1])["state"], "destroyed", "one that is finished")
        # Programs name an id or none.
        for short in (one[:at + 1], one[:-1], one[4:10]):
            d.api.get(f"/v1/sandboxes/{short}").expect(404)
            d.api.delete(f"/v1/sandboxes/{short}").expect(404)
        check(cli.state(one) in ("ready", "active"), "the one that was not named lives")


@test
def lists_are_filtered(c):
    with Daemon(c) as d:
        cli = Client(d)
        a, b, p = cli.create("-l", "k=1", "-l", "x=y"), cli.create("-l", "k=2"), cli.create("-p", "profile.pooled")
        gone = cli.create("-l", "k=1")
        cli("destroy", gone).expect(0)

        def ids(*options):
            return set(cli.lines("list", "-q", *options))
        equal(ids(), {a, b, p}, "list")
        equal(ids("--label", "k=1"), {a}, "label")
        equal(ids("--label", "k=1", "--label", "x=y"), {a}, "two labels")
        equal(ids("--label", "k=1", "--label", "x=z"), set(), "labels that none has")
        equal(ids("--profile", "profile.pooled"), {p}, "profile")
        equal(ids("--state", "destroyed"), {gone}, "state")
        equal(ids("--state", "all"), {a, b, p, gone}, "all")
        equal(ids("--state", "ready", "--state", "destroyed", "--label", "k=1"), {a, gone}, "two states")
        cli("list", "--state", "asleep").expect(2, says="asleep")


@test
def lists_come_in_pages(c):
    with Daemon(c) as d:
        cli = Client(d)
        made = {cli.create() for _ in range(5)}
        seen, cursor = [], ""
        while cursor is not None:
            page = d.api.get(f"/v1/sandboxes?limit=2{cursor and '&cursor=' + cursor}").expect(200).json
            check(len(page["sandboxes"]) <= 2, "a page has at most two")
            seen += [s["sandbox_id"] for s in page["sandboxes"]]
            cursor = page["next"]
        equal((len(seen), set(seen)), (5, made), "all pages together")
        d.api.get("/v1/sandboxes?cursor=%00nonsense").expect(400, code="invalid")


@test
def a_watch_shows_every_change(c):
    with Daemon(c) as d:
        cli = Client(d)
        watching = cli.start("list", "--watch", "-o", "json")
        first = b""
        while not first.rstrip().endswith(b"}"):
            first += watching.stdout.readline()
        box = cli.create()
        cli("destroy", box).expect(0)
        seen = []
        while "destroyed" not in seen:
            seen.append(json.loads(watching.stdout.readline())["to"])
        equal(seen, ["requested", "provisioning", "ready", "destroying", "destroyed"], "the changes")


# ---- the end ------------------------------------------------------------------------------------------


@test
def destroy_takes_several_and_does_it_again(c):
    with Daemon(c) as d:
        cli = Client(d)
        one, two, three = (cli.create() for _ in range(3))
        cli("destroy", one, two).expect(0, out=f"{one} destroyed\n{two} destroyed\n".encode())
        cli("destroy", one, "-q").expect(0)
        cli("destroy", "sbx_unknown", three).expect(3, says="sbx_unknown")
        equal(cli.state(three), "destroyed", "the one behind an unknown one")
        box = cli.json("get", one)
        check(box["actuals"]["wall_seconds"] >= 0, "no actuals")
        cli.sh(one, "true").expect(125, says="destroyed")
        equal(cli.lines("list", "-q"), [], "sandboxes")


@test
def recreate_makes_another_of_the_same_request(c):
    with Daemon(c) as d:
        cli = Client(d)
        old = cli.create("--label", "a=b", "--ttl", "17m")
        cli.sh(old, "echo old > /tmp/file").expect(0)
        new = cli.json("recreate", old)
        check(new["sandbox_id"] != old, "it has the same id")
        equal((new["labels"], new["ttl"], new["recreated_from"]), ({"a": "b"}, 1020, old), "the new one")
        equal(cli.state(old), "destroyed", "the old one's state")
        cli.sh(new["sandbox_id"], "test ! -e /tmp/file").expect(0)


@test
def time_is_added_up_to_the_most(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--ttl", "1m")
        before = cli.json("get", box)["expires_at"]
        later = cli.json("extend-ttl", box, "--duration", "30m")
        check(later["expires_at"] > before, "it does not live longer")
        equal(cli.json("extend-ttl", box, "-d", "1m")["expires_at"], later["expires_at"], "asking for less")
        most = cli.json("extend-ttl", box, "-d", "40d")
        check(most["ttl"] <= most["ttl_max"], f"ttl is {most['ttl']}, past {most['ttl_max']}")
        cli("extend-ttl", box).expect(2)
        cli("extend-ttl", "sbx_nothing", "-d", "1m").expect(3)


@test
def a_terminal_shows_what_is_waited_for(c):
    """And nothing else does: stderr is for what went wrong."""
    with Daemon(c, config="pool: {enabled: false}") as d:
        cli = Client(d)
        while len(d.launchers) < 2:  # the second is started when the first one is busy
            for making in [cli.start("create", "-q") for _ in range(4)]:
                equal(making.wait(60), 0, "exit status")
        for pid in d.launchers:
            os.kill(pid, signal.SIGSTOP)
        try:
            quiet = cli.start("create", "-q")
            with Terminal(c, verb=("create", "-q"), env=cli.env) as t:
                t.expect("creating a sandbox: provision… ".encode())
                making = [b["sandbox_id"] for b in d.list() if b["state"] == "provisioning"]
                equal({d.get(box)["step"] for box in making}, {"provision"}, "the step of what is being made")
                for pid in d.launchers:
                    os.kill(pid, signal.SIGCONT)
                t.expect(b"\r\x1b[Ksbx_")
                equal(t.end(), 0, "exit status")
            out, err = quiet.communicate(timeout=60)
            equal((quiet.returncode, err), (0, b""), "create without a terminal")
        finally:
            for pid in d.launchers:
                os.kill(pid, signal.SIGCONT)


@test
def nothing_is_due_and_nothing_stale(c):
    with Daemon(c) as d:
        cli = Client(d)
        cli.create()
        equal(cli.json("expire"), {"due": [], "applied": False}, "expire")
        equal(cli.json("expire", "--apply")["due"], [], "expire --apply")
        equal(cli.json("inspect", "stale")["stale"], [], "inspect stale")
        equal(cli.json("reap-stale", "--apply"), {"stale": [], "applied": True}, "reap-stale")
        host = cli.json("inspect", "host")
        check(host["cpus"] >= 1 and host["sandboxes"] == 1, f"inspect host: {host}")
        shown = cli("inspect", "host").expect(0).text
        for words in (r"^CPUS: +\d+$", r"^LOAD: +[\d.]+, [\d.]+, [\d.]+$", r"^MEMORY: +[\d.]+ GiB free of [\d.]+ GiB$"):
            check(re.search(words, shown, re.M), f"inspect host does not show {words!r}:\n{shown}")


# ---- events -------------------------------------------------------------------------------------------


@test
def events_are_followed(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        following = cli.start("events", "-f", "--after", "0", "-o", "json", box)
        types = [json.loads(following.stdout.readline())["type"] for _ in range(3)]
        equal(types, ["sandbox.requested", "sandbox.provisioning", "sandbox.ready"], "what was")
        cli.sh(box, "true").expect(0)
        cli("destroy", box).expect(0)
        while types[-1] != "sandbox.destroyed":
            types.append(json.loads(following.stdout.readline())["type"])
        following.send_signal(signal.SIGINT)
        following.wait(20)
        listed = [json.loads(line) for line in cli.lines("events", box, "-o", "json")]
        equal([e["type"] for e in listed], types, "listed and followed")
        check(all(e["reason"] and e["actor"]["id"] for e in listed), f"an event without actor or reason: {listed}")
        seq = listed[2]["seq"]
        equal([json.loads(x)["seq"] > seq for x in cli.lines("events", box, "--after", str(seq), "-o", "json")],
              [True] * (len(listed) - 3), "--after")


@test
def a_follower_begins_now_unless_it_is_told_otherwise(c):
    with Daemon(c) as d:
        cli = Client(d)
        boxes = [cli.create() for _ in range(3)]
        everything = [json.loads(line)["seq"] for line in cli.lines("events", "-o", "json")]

        def shown(*options):
            return [json.loads(line)["seq"] for line in cli.lines("events", "-o", "json", *options)]

        def first(*options):
            following = cli.start("events", "-f", "-o", "json", *options)
            with following.stdout:
                wait_for(lambda: select.select([following.stdout], [], [], 0.1)[0] or cli("extend-ttl", boxes[0], "-d", "30m").expect(0).code, "an event")
                event = json.loads(following.stdout.readline())
            following.send_signal(signal.SIGINT)
            following.wait(20)
            return event["seq"]

        for n in (1, 2, 5, len(everything), 1000):
            equal(shown("-n", str(n)), everything[-n:], f"the last {n}")
        equal(shown("--since", "1h"), everything, "of the last hour")
        equal(shown("--since", "1h", "-n", "2"), everything[-2:], "the last 2 of the last hour")
        equal(shown("--since", "2200-01-01T00:00:00Z"), [], "of the future")
        equal(shown("--since", "2200-01-01T00:00:00Z", "-n", "2"), [], "the last 2 of the future")
        mine = [json.loads(line) for line in cli.lines("events", "-o", "json", boxes[1])]
        equal(shown(boxes[1], "-n", "2"), [e["seq"] for e in mine[-2:]], "the last 2 of a sandbox")
        equal(shown("--since", mine[0]["time"]), [s for s in everything if s >= mine[0]["seq"]], "from a moment on")
        equal(first("-n", "3"), everything[-3], "what a follower with -n begins with")
        check(first() > everything[-1], "a follower begins with what is over")
        ready = [e["seq"] for e in (json.loads(x) for x in cli.lines("events", "-o", "json")) if e["type"] == "sandbox.ready"]
        equal(shown("--type", "sandbox.ready"), ready, "of a type")
        equal(shown("--type", "sandbox.ready", "-n", "2"), ready[-2:], "the last of a type")
        equal(shown("--type", "sandbox.ready", "--sandbox", boxes[0]), ready[:1], "of a type, of a sandbox")
        equal(shown("--type", "no.such", "-n", "3"), [], "of a type that is not there")
        equal(shown("--until", mine[0]["time"]), [s for s in everything if s < mine[0]["seq"]], "until a moment")
        equal(shown("--until", mine[0]["time"], "-n", "1")[:1], [max(s for s in everything if s < mine[0]["seq"])], "the last until a moment")
        equal(first("--since", "1h"), everything[0], "what a follower with --since begins with")
        extended = [json.loads(x)["seq"] for x in cli.lines("events", "-o", "json", "--type", "sandbox.ttl_extended")]
        equal(first("--since", "1h", "--type", "sandbox.ttl_extended"), extended[0], "what a follower of a type begins with")
        table = cli.lines("events", "-n", "2")
        equal(table[0].split(), ["SEQ", "TIME", "TYPE", "SANDBOX", "FROM", "TO", "ACTOR", "REASON"], "titles")
        check(all(line.find("sandbox.") == table[0].find("TYPE") for line in table[1:]), f"columns in a line: {table}")
        for options, words in ((("-n", "0"), "from 1 to 1000"), (("-n", "x"), "from 1 to 1000"), (("--since", "soon"), "since: must be a time"),
                               (("--until", "soon"), "until: must be a time"), (("-f", "--until", "1m"), "exclude each other"),
                               (("--sandbox", boxes[0], boxes[1]), "name the sandbox once"),
                               (("-n", "1", "--after", "2"), "--after excludes"), (("--kind", "denied"), "needs --follow")):
            cli("events", *options).expect(2, out=b"", says=words)


@test
def a_create_that_fails_leaves_nothing_to_destroy(c):
    with Daemon(c) as d:
        cli = Client(d)
        c.write("daemon/profiles/broken.yaml", "id: profile.broken\nversion: 1\nimage: /nowhere/at/all\n")
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "profile.broken" in cli.lines("profiles", "list", "-q"), "the profile is read")
        failed = cli("create", "-p", "profile.broken")
        check(failed.code != 0, f"it was created\n{failed}")
        equal(cli.lines("list", "-q"), [], f"sandboxes\n{failed}")
        box, = cli.lines("list", "-q", "--state", "all")
        check(box in failed.notes, f"the id is not said\n{failed}")
        shown = cli.json("get", box)
        equal((shown["state"], shown["step"]), ("destroyed", "plan"), "the record")
        check("/nowhere/at/all" in shown["reason"], f"the reason is lost: {shown}")


# ---- hostile names ------------------------------------------------------------------------------------


EVIL = "a\x1b]0;owned\x07\x1b[2Jb\x9b1m\u202ec"


def clean(result):
    """Nothing of what it prints makes a terminal do something, or what is for people read backwards."""
    for_people = "-o" not in result.argv
    for what, data in (("stdout", result.out), ("stderr", result.err)):
        bad = [ch for ch in data.decode(errors="replace")
               if ch != "\n" and (ord(ch) < 32 or 127 <= ord(ch) < 160 or (for_people and ch == "\u202e"))]
        equal(bad, [], f"control characters on {what}\n{result}\nthem")


@test
def escapes_never_reach_the_terminal(c):
    with Daemon(c) as d:
        cli = Client(d)
        cli("create", "--label", f"x={EVIL}").expect(2, says="control character")
        box = cli.create("--label", "x=\u202e")
        cli("exec", "-d", box, "--", "sleep", "100", EVIL).expect(0)
        for verb in (("ps", box), ("ps", box, "-o", "yaml"), ("ps", box, "-o", "json"), ("events",), ("list",),
                     ("get", box), ("destroy", f"sbx_{EVIL}"), ("create", "-p", EVIL), (EVIL,), ("get", f"--{EVIL}"),
                     ("exec", box, "--", EVIL), ("cp", EVIL, f"{box}:/tmp")):
            clean(cli(*verb))


@test
def not_even_from_a_daemon_that_lies(c):
    box = {"sandbox_id": f"sbx_{EVIL}", "state": EVIL, "profile": EVIL, "labels": {EVIL: EVIL}, "reason": EVIL,
           "telemetry": {EVIL: [EVIL, {EVIL: EVIL}]}}
    answers = [({"sandboxes": [box], "next": None}, ["list"]), (box, ["get", "x"]), (box, ["get", "x", "-o", "yaml"]),
               (box, ["get", "x", "-q"]),
               ({"type": "about:blank", "title": EVIL, "status": 404, "code": EVIL, "detail": EVIL}, ["get", "x"])]
    for answer, argv in answers:
        with liar(c.dir / "liar", answer) as path:
            clean(c.cli(*argv, "--server", f"unix:{path}"))


@contextlib.contextmanager
def liar(path, answer):
    """A server that gives one answer to whatever it is asked."""
    body = json.dumps(answer).encode()
    status = answer.get("status", 200)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.bind(str(path))
        os.chmod(path, 0o777)
        s.listen()
        thread = threading.Thread(target=lie, args=(s, status, body), daemon=True)
        thread.start()
        yield path
        s.shutdown(socket.SHUT_RDWR)
        thread.join()
    os.unlink(path)


def lie(s, status, body):
    with contextlib.suppress(OSError):
        while True:
            peer = s.accept()[0]
            with peer:
                peer.recv(65536)
                kind = "application/problem+json" if status >= 400 else "application/json"
                peer.sendall(f"HTTP/1.1 {status} OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                             "Connection: close\r\n\r\n".encode() + body)


main()
