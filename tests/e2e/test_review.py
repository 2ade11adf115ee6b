#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""`sync --interactive`: the changes of a workspace, one by one on a terminal."""

import os

from client import Client
from harness import check, equal, main, test
from terminal import Terminal
from workspaces import daemon_for, mirrored, workspace


def review(c, cli, box, answers, end):
    """Answers each question by the path that it shows, in any order; `end` is printed at the end."""
    with Terminal(c, "--interactive", box, verb=("sync",), env=cli.env) as t:
        for _ in answers:
            t.expect(b"?]")
            (name,) = [n for n in answers if n + b"\r\n" in t.before or n + b"  (" in t.before]
            t.send(answers[name] + b"\n")
        t.expect(end)
        equal(t.end(), 0, "status")
        check(t.restored(), "the terminal is not as it was")


def make_changes(cli, box, script):
    cli.sh(box, f"cd /workspace && {script}").expect(0)


@test
def each_change_is_chosen_or_left(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        make_changes(cli, box, "echo inside >a.txt; echo inside >b.txt; rm dir/c.txt; mkdir new; echo n >new/f; mkdir other; echo o >other/f")
        review(c, cli, box, {b" a.txt": b"y", b" b.txt": b"n", b" dir/c.txt": b"y", b" new": b"y", b" new/f": b"y", b" other": b"n"},
               b"3 changes left in the sandbox")
        equal((host / "a.txt").read_text(), "inside\n", "what was chosen")
        equal((host / "b.txt").read_text(), "host b\n", "what was left")
        check(not (host / "dir/c.txt").exists() and (host / "new/f").exists() and not (host / "other").exists(), str(os.listdir(host)))
        left = {row["path"] for row in cli.json("sync", "--dry-run", box)["changes"]}
        equal(left, {"b.txt", "other", "other/f"}, "what is left inside")


@test
def a_chosen_conflict_overwrites_and_another_stays(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        make_changes(cli, box, "echo inside >a.txt; echo inside >b.txt; echo x >.envrc")
        (host / "a.txt").write_text("changed here\n")
        (host / "b.txt").write_text("changed here\n")
        review(c, cli, box, {b" .envrc": b"y", b" a.txt": b"y", b" b.txt": b"n"}, b"1 change left in the sandbox")
        equal([(host / n).read_text() for n in ("a.txt", "b.txt", ".envrc")], ["inside\n", "changed here\n", "x\n"], "the files here")
        cli("destroy", box).expect(4, says="was not brought back")
        cli("destroy", "--discard", box).expect(0)


@test
def differences_are_shown_and_cannot_act_on_the_terminal(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        make_changes(cli, box, "printf 'host a\\n\\033]0;title\\007inside\\n' >a.txt")
        with Terminal(c, "--interactive", box, verb=("sync",), env=cli.env) as t:
            t.expect(b"a.txt")
            t.expect(b"?]")
            t.send(b"d\n")
            t.expect(b"--- a.txt (here)")
            t.expect(b"+++ a.txt (sandbox)")
            t.expect(b"title")
            t.expect(b"?]")
            check(b"\x1b]0" not in t.before, "an escape sequence reached the terminal")
            t.send(b"?\n")
            t.expect(b"leave it inside")
            t.send(b"n\n")
            equal(t.end(), 0, "status")
        equal((host / "a.txt").read_text(), "host a\n", "the file here")


@test
def all_takes_the_rest_but_asks_about_conflicts(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        make_changes(cli, box, "i=0; while [ $i -lt 450 ]; do echo x >file-$i; i=$((i + 1)); done; echo inside >b.txt")
        (host / "b.txt").write_text("changed here\n")
        with Terminal(c, "--interactive", box, verb=("sync",), env=cli.env) as t:
            t.expect(b"?]")
            if b"conflict" in t.before:
                t.send(b"n\n")
                t.expect(b"?]")
                t.send(b"a\n")
            else:
                t.send(b"a\n")
                t.expect(b"conflict")
                t.expect(b"?]")
                t.send(b"n\n")
            equal(t.end(), 0, "status")
        equal(len(list(host.glob("file-*"))), 450, "files here")
        equal((host / "b.txt").read_text(), "changed here\n", "the conflict")
        cli("destroy", "--discard", box).expect(0)


@test
def an_end_leaves_the_rest_inside(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        make_changes(cli, box, "echo inside >a.txt; echo inside >b.txt")
        with Terminal(c, "--interactive", box, verb=("sync",), env=cli.env) as t:
            t.expect(b"?]")
            t.send(b"q\n")
            t.expect(b"2 changes left in the sandbox")
            equal(t.end(), 0, "status")
        equal((host / "a.txt").read_text(), "host a\n", "the file here")
        cli("sync", "--interactive", box).expect(2, says="asks on a terminal")
        cli("sync", "--interactive", "--force", box).expect(2, says="--interactive excludes")


@test
def only_accepted_paths_need_paths(c):
    with daemon_for(c) as d:
        cli, host = Client(d), workspace(c)
        box = mirrored(cli, host)
        for body in ({"only_accepted": True}, {"only_accepted": True, "accept_all": True}, {"only_accepted": True, "accept": ["a"], "accept_all": True}):
            d.api.post(f"/v1/sandboxes/{box}/sync", body).expect(400, "invalid")


main()
