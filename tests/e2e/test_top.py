#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""`stats` and `top`: limits and use of sandboxes, once, again and again, and on a terminal."""

import json
import os
import re
import signal

from pathlib import Path

from client import Client
from daemon import Daemon
from harness import check, equal, main, test, wait_for
from peer import Peer, master_token
from screen import Screen

HELD = """\
version: 1
approvals: {expiry: 1h}
tools:
  sandbox_list: {tier: 4, effect: none}
  sandbox_create: {tier: 2, effect: write, creates: true}
"""


def titles(line):
    return line.split()


@test
def stats_show_limits_and_use(c):
    with Daemon(c) as d:
        cli = Client(d)
        equal(titles(cli("stats").expect(0).text), ["SANDBOX", "STATE", "CPU", "MEMORY", "DISK", "PIDS", "SENT", "RECEIVED", "DENIED", "UP"], "titles")
        one, two = cli.create("--name", "one"), cli.create("--name", "two")
        cli.spawn(one, "exec sleep 1000")
        shown = cli.json("stats")["sandboxes"]
        equal({s["sandbox_id"] for s in shown}, {one, two}, "all of them")
        for s in shown:
            check(s["limits"]["memory_bytes"] and s["usage"]["measured_at"], f"limits and use of {s}")
        busy = cli.json("stats", "one")["sandboxes"]
        equal([s["name"] for s in busy], ["one"], "by its name")
        equal([s["sandbox_id"] for s in cli.json("stats", two, one)["sandboxes"]], [two, one], "several, as they are named")
        lines = cli.lines("stats", "one")
        row = lines[1].split()
        check(row[0] == "one" and row[2].endswith("%") and row[4] == "/", lines)
        equal(len(cli.lines("stats", "--limit", "1")), 2, "--limit")
        equal(cli.lines("stats", "-q", "one"), [one], "-q")
        cli("stats", "nothing").expect(3)
        cli("pause", "two").expect(0)
        paused = {s["name"]: s for s in cli.json("stats")["sandboxes"]}["two"]
        check(paused["state"] == "paused" and "usage" not in paused and paused["limits"], f"a paused one: {paused}")


@test
def stats_are_watched(c):
    with Daemon(c) as d:
        cli = Client(d)
        cli.create("--name", "one")
        watching = cli.start("stats", "-w", "--interval", "10ms", "-o", "json")
        for _ in range(3):
            equal([s["name"] for s in json.loads(watching.stdout.readline())["sandboxes"]], ["one"], "a document a line")
        watching.send_signal(signal.SIGINT)
        watching.wait(20)
        with Screen(cli, "stats", "-w", "--interval", "50ms") as s:
            s.expect("one")
            cli.create("--name", "two")
            s.expect("one", "two")
            equal(sum("SANDBOX" in line for line in s.lines), 1, "tables on the screen")
            s.keys("C-c")
            wait_for(lambda: s.field("pane_dead") == "1", "the end")


@test
def a_page_of_samples_is_bounded(c):
    with Daemon(c) as d:
        boxes = {d.create() for _ in range(3)}
        d.api.get("/v1/sandboxes?usage=true&limit=101").expect(400, code="invalid")
        d.api.get("/v1/sandboxes?usage=perhaps").expect(400, code="invalid")
        first = d.api.get("/v1/sandboxes?usage=true&limit=2").expect(200).json
        rest = d.api.get(f"/v1/sandboxes?usage=true&cursor={first['next']}").expect(200).json
        equal({s["sandbox_id"] for s in first["sandboxes"] + rest["sandboxes"]}, boxes, "pages")
        check(all("usage" in s for s in first["sandboxes"]), "samples")
        check("usage" not in d.api.get("/v1/sandboxes").expect(200).json["sandboxes"][0], "unasked")


@test
def top_prints_once_without_a_terminal(c):
    with Daemon(c) as d:
        cli = Client(d)
        cli.create("--name", "one")
        check("one" in cli("top").expect(0).text, "the table")
        shown = cli.json("top")
        equal(([s["name"] for s in shown["sandboxes"]], shown["approvals"]), (["one"], []), "the data")
        for term in ("dumb", ""):
            with Screen(cli, "top", before=f"exec env TERM='{term}'") as s:
                wait_for(lambda: s.field("pane_dead") == "1", "the end")
                check(any(line.startswith("one") for line in s.lines), s.lines)


@test
def top_lives_on_a_terminal(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--name", "one", "--allow", "one.example.com")
        cli.create("--name", "two")
        for columns in (80, 200):
            with Screen(cli, "top", "--interval", "100ms", columns=columns) as s:
                lines = s.expect("2 sandboxes by cpu", "one", "two", "q quit")
                check("SANDBOX" in lines[1] and ("DENIED" in lines[1]) == (columns == 200), lines)
                check(all(len(line) <= columns for line in lines), lines)
                cli.sh(box, "curl -sS -m 20 https://evil.example/").expect(56)
                s.expect("evil.example", "HOST")
                s.keys("n")
                s.expect("by name")
                s.keys("j", "Enter")
                s.expect("NAME:", "two", "any key: back")
                s.keys("Enter", "?")
                s.expect("sort sandboxes by")
                s.keys("q")
                s.expect("by name")
                s.keys("q")
                equal(s.end(), 0, "status")


@test
def top_acts_on_sandboxes(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--name", "one")
        with Screen(cli, "top", "--interval", "100ms", "--sort", "name", columns=120) as s:
            s.expect("one", "ready")
            s.keys("p")
            s.expect("pause", "done", "paused")
            equal(cli.state(box), "paused", "state")
            s.keys("p")
            s.expect("resume", "done", "ready")
            s.keys("x")
            s.expect(f"destroy {box}? y or n")
            s.keys("n")
            s.gone("y or n")
            equal(cli.state(box), "ready", "state after a no")
            s.keys("x", "y")
            s.expect("No sandbox runs")
            equal(cli.state(box), "destroyed", "state after a yes")
            s.keys("C-c")
            equal(s.end(), 0, "status")


@test
def top_decides(c):
    bundle = c.write("bundle.yaml", HELD)
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'}}") as d:
        cli, secret = Client(d), master_token(d)
        first, second = Peer(d.api).held(), None
        with Screen(cli, "top", "--interval", "100ms", columns=120, SANDBOXER_MASTER=secret) as s:
            s.expect(first, "1 approval waiting")
            s.keys("y")
            s.expect("select an approval first")
            equal(cli.json("approvals", "show", first)["state"], "pending", "without a selection")
            s.keys("Tab", "Enter")
            s.expect("args:", "any key: back")
            s.keys("q", "y")
            s.expect(f"approve {first}: done", "0 approvals waiting")
            check(cli.json("approvals", "show", first)["decided_by"].startswith("tok_"), "who decided")
            second = Peer(d.api).held()
            s.expect(second)
            s.keys("Tab", "n")
            s.expect(f"reject {second}: done")
            equal(cli.json("approvals", "show", second)["state"], "rejected", "the second")
        if c.uid != os.getuid(): # the peer is of another user, who may be approved
            return
        with Screen(cli, "top", "--interval", "100ms", columns=120) as s:
            third = Peer(d.api).held()
            s.expect(third)
            s.keys("Tab", "y")
            s.expect("you cannot approve your own request")


@test
def top_gives_the_terminal_back(c):
    with Daemon(c) as d:
        cli = Client(d)
        cli.create("--name", "one")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with Screen(cli, "top") as s:
                s.expect("q quit")
                equal(s.field("alternate_on"), "1", "alternate screen")
                os.kill(s.pid, number)
                equal(s.end(), 128 + number, "status")
        with Screen(cli, "top", "--interval", "100ms") as s:
            s.expect("q quit")
            pid = s.pid
            for stop in (lambda: s.keys("C-z"), lambda: os.kill(pid, signal.SIGTSTP)):
                stop()
                wait_for(lambda: s.field("alternate_on") == "0", "the screen of before")
                wait_for(lambda: " T " in Path(f"/proc/{pid}/stat").read_text(), "a stopped program")
                os.kill(pid, signal.SIGCONT)
                s.expect("q quit")
                wait_for(lambda: s.field("alternate_on") == "1", "the alternate screen")
            for columns, rows in ((30, 5), (10, 2), (1, 1), (200, 50), (80, 24)):
                s.resize(columns, rows)
                s.when(lambda shown, n=columns: all(len(line) <= n for line in shown.splitlines()), "lines that fit")
            s.expect("q quit", "one")
            s.keys("q")
            equal(s.end(), 0, "status")


@test
def top_has_no_colours_where_none_are_wanted(c):
    with Daemon(c) as d:
        cli = Client(d)
        cli.create("--name", "one")
        with Screen(cli, "top", NO_COLOR="1") as s:
            s.expect("one")
            shown = s.tmux("capture-pane", "-p", "-e")
            check(not re.search(r"\033\[[34][0-7]m", shown), shown)


main()
