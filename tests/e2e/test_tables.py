#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Tables on terminals of two widths, without a terminal, and without colours; and the ones that keep changing."""

import contextlib
import os
import re
import signal

from client import Client
from daemon import Daemon
from harness import check, equal, main, test, wait_for
from peer import Peer
from screen import Screen
from terminal import Terminal

NAME = "n" + "a" * 61 + "e"
HOST = ".".join(["long-label-of-a-host" * 3] * 3 + ["example.com"])
HELD = """\
version: 1
approvals: {expiry: 1h}
tools:
  sandbox_list: {tier: 4, effect: none}
  sandbox_create: {tier: 2, effect: write, creates: true}
"""
ESCAPES = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
COLOURS = re.compile(rb"\x1b\[[0-9;]*m")


@contextlib.contextmanager
def crowded(c):
    """A daemon with long names, hosts, arguments and labels, and the words of each table."""
    bundle = c.write("bundle.yaml", HELD)
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'}}") as d:
        cli = Client(d)
        box = cli.create("--name", NAME, "--allow", "a.example.com", "--label", f"{'k' * 60}={'v' * 200}")
        cli.create("--name", "two")
        cli.spawn(box, f"exec sleep 1000 # {'x' * 300}")
        for host in (HOST, "b.example"):
            cli.sh(box, f"curl -sS -m 20 https://{host}/").expect((6, 28, 35, 56))
        cli("snapshot", box, "--name", "s" * 60).expect(0)
        cli("token", "create", "t" * 60).expect(0)
        Peer(d.api).held()
        yield d, cli, box, (("list",), ("list", "--state", "all"), ("stats",), ("events", "-n", "40"), ("egress", "log", box),
                            ("egress", "denials", box), ("approvals", "list"), ("snapshots", "list"), ("token", "list"), ("ps", box),
                            ("profiles", "list"), ("peers", "list"), ("top",))


def on_terminal(c, cli, argv, columns, **env):
    """What it writes onto a terminal, byte by byte."""
    with Terminal(c, size=(50, columns), verb=argv, env={**cli.env, **env}) as t:
        equal(t.end(), 0, f"status of {argv}")
        while True:
            before = t.seen
            t.read(0.05)
            if t.seen == before:
                return t.seen


@test(seconds=200)
def no_line_is_wider_than_the_terminal(c):
    with crowded(c) as (d, cli, box, tables):
        for columns in (80, 200):
            for argv in tables:
                if argv == ("top",):  # draws on the whole terminal: test_top.py
                    continue
                lines = COLOURS.sub(b"", on_terminal(c, cli, argv, columns)).decode().split("\r\n")
                check(len(lines) > 1, f"{argv}: {lines}")
                wide = [line for line in lines if len(line) > columns]
                check(not wide, f"{' '.join(argv)} at {columns} columns: {wide}")


@test(seconds=200)
def nothing_acts_on_a_terminal_where_there_is_none(c):
    with crowded(c) as (d, cli, box, tables):
        for argv in tables:
            for env in ({"TERM": "xterm-256color"}, {"TERM": "xterm", "COLUMNS": "20"}):
                shown = cli(*argv, env=env).expect(0).out
                check(not ESCAPES.search(shown), f"{argv}: {shown!r}")
            check(b"\xe2\x80\xa6\n" not in shown, f"{argv}: values are cut: {shown!r}")


@test(seconds=200)
def colours_can_be_refused(c):
    with crowded(c) as (d, cli, box, tables):
        check(COLOURS.search(on_terminal(c, cli, ("list",), 80, TERM="xterm")), "no colours at all")
        for env in ({"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}):
            for argv in tables:
                if argv == ("top",) and "NO_COLOR" in env:
                    continue
                shown = on_terminal(c, cli, argv, 80, **env)
                check(not ESCAPES.search(shown), f"{argv} with {env}: {shown!r}")


@test
def lists_that_are_watched_follow_the_terminal(c):
    with Daemon(c) as d:
        cli = Client(d)
        for more in ([], [], ["--name", NAME]):
            cli.create(*more)
        for argv, title, more in ((("list", "-w"), "PROFILE", "LABELS"), (("stats", "-w", "--interval", "50ms"), "CPU", "DENIED")):
            with Screen(cli, *argv, columns=200) as s:
                for columns in (200, 80, 200):
                    s.resize(columns, 24)
                    s.when(lambda shown, n=columns: sum(title in x for x in shown.splitlines()) == 1 and (more in shown) == (n == 200)
                           and "naaa" in shown and all(len(x) <= n for x in shown.splitlines()), f"one table at {columns} columns")
                s.resize(200, 4)
                s.when(lambda shown, t=title: t in shown and "… and 2 more" in shown, "the titles, and a count of what has no room")
                s.keys("C-c")
                equal(s.end(), 128 + signal.SIGINT, "status")
            with Screen(cli, *argv, columns=80) as s:
                s.expect("naaa")
                os.kill(s.pid, signal.SIGTERM)
                equal(s.end(), 128 + signal.SIGTERM, "status")


@test
def a_list_that_is_watched_draws_only_where_it_can(c):
    with Daemon(c) as d:
        cli = Client(d)
        cli.create("--name", "one")
        with Terminal(c, verb=("list", "-w"), env={**cli.env, "TERM": "dumb"}) as t:
            t.expect(b"one")
            two = cli.create("--name", "two")
            t.expect(two.encode())
            check(b"\x1b" not in t.before, t.before)
        watching = cli.start("list", "-w", "-o", "json", env={"TERM": "xterm"})
        check(b"\x1b" not in watching.stdout.readline(), "an escape")
        watching.send_signal(signal.SIGTERM)
        equal(watching.wait(20), -signal.SIGTERM, "status")


@test
def followed_rows_keep_to_the_terminal(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--name", "one", "--allow", "a.example.com")
        for argv in (("events", "-f"), ("egress", "log", "-f", box)):
            for columns in (80, 200):
                with Screen(cli, *argv, columns=columns) as s:
                    s.expect("TIME")
                    for _ in range(2):
                        cli.sh(box, f"curl -sS -m 20 https://{HOST}/").expect((6, 28, 35, 56))
                    if argv[0] == "events":
                        cli.create("--label", f"a={'b' * 200}")
                    wait_for(lambda: len([x for x in s.lines if x.strip()]) > 1, "a row")
                    joined = s.tmux("capture-pane", "-p", "-J").splitlines()
                    check(all(len(x.rstrip()) <= columns for x in joined), joined)
                    s.keys("C-c")
                    equal(s.end(), 128 + signal.SIGINT, "status")


main()
