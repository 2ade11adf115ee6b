#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""What the command line refuses before anything happens, and what it says then."""

import json

from client import Client
from daemon import Daemon
from harness import check, equal, main, test
from tcp import free_port

# verbs that take an id first, and their other arguments
WITH_ID = [("destroy",), ("get",), ("wait",), ("ps",), ("logs",), ("kill", "1"), ("events",), ("pause",), ("stop",), ("resume",), ("snapshot",), ("fork",),
           ("diff",), ("undo",), ("sync",), ("extend-ttl",), ("label", "a=b"), ("recreate",), ("commit", "x:1"), ("egress get",), ("egress log",), ("egress set", "x.yaml"),
           ("snapshots get",), ("snapshots delete",), ("snapshots verify",), ("restore",), ("token revoke",), ("hosts remove",), ("image inspect",),
           ("image remove",), ("profiles get",), ("approvals show",)]


@test
def an_empty_id_is_refused_before_any_request(c):
    nobody = {"SANDBOXER_SOCKET": str(c.dir / "none"), "SANDBOXER_STATE": str(c.dir / "state"), "SANDBOXER_NO_DAEMON": "1"}
    problems = []
    for verb, *rest in WITH_ID:
        for bad, words in (("", "argument 1 is empty"), ("sbx_1\n2", "control character")):
            if verb == "egress set" and bad:
                continue
            got = c.cli(*verb.split(), bad, *rest, env=nobody)
            if got.code != 2 or words not in got.notes:
                problems.append(str(got))
    check(not problems, "\n".join(problems))
    for argv in (("exec", "", "--", "true"), ("shell", ""), ("attach", "", "1"), ("exec", "a\x1bb", "--", "true")):
        c.cli(*argv, env=nobody).expect(125, says="argument 1")
    c.cli("cp", ":/etc/passwd", "here", env=nobody).expect((2, 125), says="the id of the sandbox is empty")


@test
def a_run_for_a_daemon_elsewhere_is_not_made_here(c):
    for env, words in (({"SANDBOXER_URL": "http://127.0.0.1:1"}, "127.0.0.1:1.*'create' and 'exec'"), ({"SANDBOXER_URL": "banana"}, "banana")):
        c.cli("run", "--", "echo", "here", env=env).expect(125, out=b"", says=words)
        c.cli("run", "--image", "some:1", "--", "echo", "here", env=env).expect(125, out=b"", says=words)


@test
def a_daemon_on_tcp_that_wants_a_token(c):
    d = Daemon(c)
    port = free_port()
    d.start(args=("--listen", f"127.0.0.1:{port}"))
    with d:
        there = {"SANDBOXER_URL": f"http://127.0.0.1:{port}"}
        c.cli("list", env=there).expect(5, says="SANDBOXER_TOKEN")
        checks = {row["check"]: row for row in json.loads(c.cli("doctor", "-o", "json", env=there).out)["checks"]}
        for name in ("profiles", "storage"):
            check("does not run" not in checks[name]["found"], f"doctor on {name}: {checks[name]}")
        check("E2B_API_URL" in Client(d)("token", "create", "--e2b").expect(0).text, "what to export")


@test
def keys_for_clients_need_an_address(c):
    with Daemon(c) as d:
        cli = Client(d)
        for options in (["--e2b"], ["--daytona"], ["--e2b", "-q"], ["--daytona", "-o", "json"]):
            cli("token", "create", *options).expect(4, out=b"", says=("no TCP address", "sandboxer daemon listen"))
        equal(cli.lines("token", "list", "-q"), [], "tokens")


@test
def snapshots_of_one_name_are_told_apart(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create()
        ids = [cli("snapshot", box, "--name", "twice", "-q").expect(0).text for _ in range(2)]
        cli("snapshots", "delete", "twice").expect(4, says=(ids[0], ids[1], "delete by id"))
        equal(cli("snapshots", "delete", ids[1]).expect(0).text, f"{ids[1]} deleted", "what is said")
        equal(cli("snapshots", "delete", "twice").expect(0).text, f"twice ({ids[0]}) deleted", "what is said")
        equal(cli.lines("snapshots", "list", "-q"), [], "snapshots")
        for name, words in (("snap_4k7", "looks like the id"), ("a\nb", "control character"), ("\x7f", "control character")):
            cli("snapshot", box, "--name", name).expect(2, says=words)
            c.write("file", b"x")
            cli("snapshots", "import", "file", "--name", name).expect(2, says=words)


@test
def mistakes_are_told_by_their_remedy(c):
    """Without a daemon."""
    run = {"SANDBOXER_NO_DAEMON": "1"}
    for argv, words in ((("--mount", f"{c.dir}:/"), "'/' is the sandbox's own root"), (("--mount", f"{c.dir}:/work:RW"), "'RW' is not an absolute path"),
                        (("--allow", "http://a.b/"), "is a URL; write HOST"), (("--allow", "*"), "unlisted: {access: public}"),
                        (("-e", "A\n=b"), "control character"), (("-iZ",), "unknown option '-Z'")):
        c.cli("run", *argv, "--", "true", env=run).expect(125, out=b"", says=words)
    c.cli("run", "-i", "--timeout", "60", "-e", "GIVEN", "-e", "ABSENT", "--", "/bin/sh", "-c", 'cat; echo "$GIVEN${ABSENT-unset}"', env={**run, "GIVEN": "ours "},
          stdin=b"in ").expect(0, out=b"in ours unset\n")
    for option, value in (("--resolver", "banana"), ("--upstream", "ftp://x")):
        said = c.cli("run", option, value, "--allow", "a.example", "--", "true", env=run).expect(125, says=value)
        check("died" not in said.notes, f"a second message\n{said}")
    c.write("good.yaml", "version: 1\nnetwork_policies: {}\n")
    c.write("bad.yaml", "version: [\n")
    for file, to, code in (("good.yaml", "a.example", 1), ("good.yaml", "a b", 2), ("bad.yaml", "a.example", 2), ("none.yaml", "a.example", 2)):
        c.cli("egress", "explain", file, "--to", to, env=run).expect(code)
    for file in ("bad.yaml", "none.yaml", str(c.dir)):
        c.cli("egress", "check", file, env=run).expect(1)
    c.cli("trust", "explain", "sandbox_list", "{bad", env={**run, "SANDBOXER_SOCKET": str(c.dir / "none")}).expect(2, says="the arguments")


@test
def what_a_daemon_refuses_is_told_by_its_remedy(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli("create", "-q", "-e", "GIVEN", "--ttl", "600", env={"GIVEN": "ours"}).expect(0).text
        cli.sh(box, 'echo "$GIVEN $MORE"', "-e", "MORE", "-e", "ABSENT", "--timeout", "60", env={"MORE": "more"}).expect(0, out=b"ours more\n")
        cli.sh(box, "true", "-e", "A\n=b").expect(125, says="control character")
        cli("fork", box, "-n", "abc").expect(2, says="from 1 to 100")
        cli("logs", box, "-p", "99").expect(3, says="there is no background process '99'")
        cli("egress", "get", box).expect(4, says="--allow")
        cli("image", "remove", "none:1").expect(3, says="image list")
        equal(cli("image", "prune").expect(0).text, "no layer is unused: nothing was removed", "what is said")
        taken = cli("snapshot", box, "-q").expect(0).text
        cli("snapshots", "export", taken, "whole").expect(0)
        c.write("cut", (c.dir / "whole").read_bytes()[:5])
        cli("snapshots", "import", "cut").expect(2, says="truncated")
        for name in ("one", "two", "two"):
            cli("token", "create", "-q", name).expect(0)
        cli("token", "revoke", "two").expect(4, says="2 tokens are called 'two'")
        cli("token", "revoke", "three").expect(3, says="no token 'three'")
        check(cli("token", "revoke", "one").expect(0).text.startswith("one (tok_"), "what is said")
        equal(len(cli.lines("token", "list", "-q")), 2, "tokens")


main()
