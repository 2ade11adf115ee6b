#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Familiar words: aliases, suggestions, topics of the help, throw-away shells, destroy --all, list --limit, wait."""

import json
import re

from client import Client
from daemon import Daemon
from harness import check, equal, main, test
from terminal import Terminal


def listed(c):
    """All verbs, as the help has them: name and aliases."""
    rows = re.findall(r"^  (\S+(?: \S+)?)  .*?(?:\(also: ([^)]*)\))?$", c.cli("help", "--all").expect(0).text, re.M)
    return {name: [a.strip() for a in also.split(",") if a] for name, also in rows}


@test
def aliases_are_verbs(c):
    verbs = listed(c)
    for name, aliases in (("list", ["ls"]), ("destroy", ["rm", "delete"]), ("image list", ["images", "image ls"])):
        equal(verbs[name], aliases, f"aliases of {name}")
    for name, aliases in verbs.items():
        for alias in aliases:
            equal(c.cli(*alias.split(), "--help").expect(0).text, c.cli(*name.split(), "--help").expect(0).text, f"help of {alias}")
            check(alias in c.cli("help", "--man").expect(0).text, f"the manual does not know {alias}")
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        equal(cli.lines("ls", "-q"), [box], "ls")
        cli("images").expect(0)
        cli("rm", box).expect(0, out=f"{box} destroyed\n".encode())
        equal(cli.lines("list", "-q"), [], "sandboxes")


@test
def unknown_words_are_answered_with_similar_ones(c):
    for words, meant in ((["runn"], "did you mean 'run'\\?"), (["lsit"], "'list'"), (["imagse"], "'images'"), (["destory"], "'destroy'"),
                         (["start"], "'resume'"), (["connect"], "'shell'"), (["snap"], "'snapshot'"),
                         (["profiles", "lst"], "profiles: unknown verb 'lst'; did you mean 'list'\\? choose one of: list, "),
                         (["egress", "explian"], "'explain'"), (["help", "runn"], "'run'"), (["list", "--lable", "a=b"], "--label"),
                         (["destroy", "--foce-sync", "x"], "'--force-sync'"), (["list", "--outptu", "json"], "'--output'")):
        c.cli(*words).expect(2, out=b"", says=meant)
    c.cli("run", "--memry", "1G", "--", "true").expect(125, out=b"", says="unknown option '--memry'; did you mean '--memory'\\?")
    for words in (["frobnicate"], ["x"], ["list", "--frobnicate"], ["profiles", "frobnicate"]):
        result = c.cli(*words).expect(2, out=b"")
        check("did you mean" not in result.notes, f"a suggestion for {words}: {result.notes}")


@test
def help_has_topics(c):
    text = c.cli("--help").expect(0).text
    verbs = listed(c)
    first = re.findall(r"^  (\S+)  ", text.split("The first verbs:\n")[1].split("\n\n")[0], re.M)
    equal(len(first), 10, f"first verbs: {first}")
    check({"run", "agent", "setup", "create"} <= set(first), f"the verbs of the first tasks of README: {first}")
    for topic in ("Run and look", "Files", "Network", "Snapshots and images", "Agents and approvals", "This machine"):
        check(f"\n  {topic}  " in text, f"no topic '{topic}' in {text}")
        check(f"\n{topic}:\n" in c.cli("help", "--all").text, f"no topic '{topic}' in the whole list")
    names = text.split("All verbs:\n")[1].split("\n\n")[0]
    words = [w for line in names.splitlines() for w in re.split(r", *", line[24:]) if w]
    spelled = set()
    for word in words:
        group, _, rest = word.partition(" ")
        spelled |= {f"{group} {r}" for r in rest.split("|")} if rest else {word}
    equal(sorted(spelled), sorted(verbs), "verbs by topic")
    check(max(map(len, text.splitlines())) <= 100, "a long line")
    equal(c.cli("help").expect(0).text, text, "help")
    statuses = c.cli("help", "exit-status").expect(0).text
    for status in ("0", "4", "124", "125", "128+N"):
        check(re.search(rf"^  {re.escape(status)} ", statuses, re.M), f"{status} is not in {statuses}")
    equal(c.cli("-v").expect(0).text, c.cli("--version").expect(0).text, "-v")
    c.cli("help", "--all", "run").expect(2, says="alone")


@test
def run_takes_options_of_its_relatives(c):
    for flags in (["-i"], ["--rm"], ["-i", "--rm"]):
        c.cli("run", "-q", *flags, "--", "cat", stdin=b"in").expect(0, out=b"in")
    with Terminal(c, "sh", "-c", "test -t 0 && echo terminal", verb=("run", "-q", "-it", "--rm")) as t:
        t.expect(b"terminal")
        equal(t.end(), 0, "exit status")


@test
def a_shell_without_a_command_or_an_id(c):
    for verb in (("run", "-q"), ("shell",), ("shell", "--workdir", "/tmp", "-e", "A=b")):
        with Terminal(c, verb=verb) as t:
            t.send(b"echo $((40+2)) at $PWD with $A.; exit 7\r")
            t.expect(b"42 at ")
            if len(verb) > 2:
                t.expect(b"/tmp with b.")
            equal(t.end(), 7, "exit status")
    c.cli("run").expect(125, out=b"", says="give a command")
    c.cli("shell").expect(125, out=b"", says="give the id")
    with Terminal(c, verb=("shell", "--server", "http://127.0.0.1:1")) as t:
        t.expect(b"throw-away shell runs on this machine")
        equal(t.end(), 125, "exit status")


@test
def a_shell_without_a_terminal_says_what_is_missing(c):
    with Terminal(c, "--", "sh", verb=("run", "-q")) as t:
        t.expect(b"for a session use: sandboxer run -t -- sh")
        t.send(b"exit 5\r")
        equal(t.end(), 5, "exit status")
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        with Terminal(c, verb=("exec", box, "sh"), env=cli.env) as t:
            t.expect(f"no input; for a session use: sandboxer exec -it {box} -- sh".encode())
            equal(t.end(), 0, "exit status")
        with Terminal(c, verb=("exec", box, "--", "sh", "-c", "echo done"), env=cli.env) as t:
            t.expect(b"done")
            equal(t.end(), 0, "exit status")
            check(b"for a session" not in t.before, f"a note about a command: {t.before!r}")
        cli("exec", "-i", box, "sh", stdin=b"echo piped").expect(0, out=b"piped\n", err=b"")


@test
def all_of_ones_own_are_destroyed(c):
    with Daemon(c) as d:
        cli = Client(d)
        boxes = {cli.create() for _ in range(3)}
        cli("destroy").expect(2, says="too few arguments")
        cli("destroy", "--all", min(boxes)).expect(2, says="excludes")
        cli("destroy", "--all").expect(2, says="3 sandboxes would be destroyed; confirm with --yes")
        for answer, left in ((b"n\r", boxes), (b"\r", boxes), (b"yes\r", set())):
            with Terminal(c, verb=("destroy", "--all"), env=cli.env) as t:
                t.expect(b"Destroy 3 sandboxes? [y/N]")
                t.send(answer)
                equal(t.end(), 0 if not left else 1, "exit status")
            equal(set(cli.lines("list", "-q")), left, f"sandboxes after {answer}")
        cli("rm", "--all", "--yes").expect(0, out=b"")
        box = cli.create()
        cli("rm", "--all", "-y").expect(0, out=f"{box} destroyed\n".encode())


@test
def lists_have_limits(c):
    with Daemon(c) as d:
        cli = Client(d)
        boxes = [cli.create() for _ in range(3)]
        for n in (1, 2, 3, 4):
            got = cli.lines("list", "-q", "--limit", str(n))
            equal((len(got), set(got) <= set(boxes)), (min(n, 3), True), f"list --limit {n}: {got}")
        equal(len(json.loads(cli("list", "-o", "json", "--limit", "2").out)["sandboxes"]), 2, "rows")
        for bad in ("0", "-1", "x"):
            cli("list", "--limit", bad).expect(2, says="--limit")


@test
def a_state_is_waited_for(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        cli("wait", box, "--state", "ready").expect(0, out=f"{box} ready\n".encode())
        equal(cli.json("wait", box, "--state", "paused", "--state", "ready")["state"], "ready", "the record")
        cli("wait", box, "--state", "paused", "--timeout", "1s").expect(124, out=b"", says="is not paused after 1s")
        cli("wait", box, "--timeout", "1s").expect(124, says="is not expired, failed or destroyed after 1s")
        waiting = cli.start("wait", box)
        paused = cli.start("wait", box, "-s", "paused")
        cli("pause", box).expect(0)
        equal((paused.communicate(timeout=60)[0].decode(), paused.returncode), (f"{box} paused\n", 0), "the wait for a pause")
        never = cli.start("wait", box, "-s", "active")
        check(waiting.poll() is None, "a wait for the end ends at a pause")
        cli("destroy", box).expect(0)
        equal((waiting.communicate(timeout=60)[0].decode(), waiting.returncode), (f"{box} destroyed\n", 0), "the wait for the end")
        out, err = never.communicate(timeout=60)
        equal((out, never.returncode), (b"", 4), f"a state that cannot come ({err!r})")
        check(b"will not be active" in err, f"why: {err!r}")
        cli("wait", "sbx_none").expect(3)
        cli("wait", box, "--state", "gone").expect(2, says="gone")


@test
def labels_are_set_and_removed(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("-l", "team=web", "-l", "old=1")
        said = cli("label", box, "team=api", "stage=test", "old-").expect(0).text
        check("stage=test" in said and "old" not in said, said)
        equal(cli.json("get", box)["labels"], {"team": "api", "stage": "test"}, "labels")
        equal(cli.lines("list", "-q", "-l", "stage=test"), [box], "found by the new one")
        equal(cli.lines("list", "-q", "-l", "team=web"), [], "found by the old one")
        cli("label", box, "none-", "team=api").expect(0)
        cli("label", box, "word").expect(2, says="neither KEY=VALUE nor KEY-")
        cli("label", box, "=x").expect(2, says="neither")
        cli("label", box, "a b=x").expect(2)
        cli("label", box).expect(2, says="too few")
        cli("label", "sbx_none", "a=b").expect(3)


# Verbs that need no daemon, and why; every other one asks the daemon that SANDBOXER_URL names, or refuses.
HERE = {
    "canary": "tests this machine", "selftest": "tests this machine", "doctor": "reports on this machine, and on that daemon",
    "version": "shows this program, and that daemon if it answers", "completion": "prints a script", "help": "prints a text",
    "scan": "reads a file", "verify": "reads files", "egress check": "reads a file", "egress explain": "reads a file",
    "config init": "writes a file", "config show": "reads files", "config check": "reads files",
    "ssh-config": "prints settings; ssh asks the daemon", "setup": "writes a file", }


@test
def every_verb_asks_the_daemon_that_is_named_or_refuses(c):
    """Arguments are made up from the usage lines; nothing listens at the address."""
    file = c.write("file", "version: 1\n")
    env = {"SANDBOXER_URL": "http://127.0.0.1:1", "SANDBOXER_SOCKET": str(c.dir / "none"), "SANDBOXER_STATE": str(c.dir / "state")}
    made_up = {"agent": ["--resume", "x"], "cp": ["x:/a", "b"], "extend-ttl": ["x", "--duration", "1h"], "token create": ["x"], "shell": ["x"],
               "egress learn": ["x"], "label": ["x", "a=b"]}
    problems = []
    for verb in listed(c):
        if verb in HERE:
            continue
        usage = c.cli(*verb.split(), "--help").expect(0).text.splitlines()[0].split("[OPTION…]", 1)[1]
        while "[" in usage:
            usage = re.sub(r"\[[^\[\]]*\]", "", usage)
        arguments = made_up.get(verb) or [str(file) if "FILE" in word else "x" for word in usage.split()]
        got = c.cli(*verb.split(), *arguments, env=env)
        if got.code == 0 or not ("127.0.0.1:1" in got.notes or "SANDBOXER_URL" in got.notes):
            problems.append(str(got))
    check(not problems, "\n".join(problems))
    check(not (c.dir / "state").exists() and not (c.dir / "none").exists(), "something was started here")


main()
