#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""sandboxer egress …: policies tried without a daemon, and those of the daemon's sandboxes."""

import datetime
import json
import re

from client import Client
from daemon import Daemon
from harness import check, equal, main, test

POLICY = """
version: 1
network_policies:
  web:
    endpoints:
      - host: api.example.com
        port: 443
      - host: rest.example.com
        port: 80
        protocol: rest
        access: read-only
    binaries: [{path: /**}]
  programs:
    endpoints:
      - host: packages.example.org
        port: 443
    binaries: [{path: /usr/bin/pip}]
"""
BAD = "version: 1\nnetwork_policies:\n  a:\n    endpoints:\n      - hosst: x\n"


@test
def a_policy_is_checked_without_a_daemon(c):
    good, bad = c.write("good.yaml", POLICY), c.write("bad.yaml", BAD)
    shown = c.cli("egress", "check", good).expect(0).text
    check(all(host in shown for host in ("api.example.com", "rest.example.com", "packages.example.org")), shown)
    found = json.loads(c.cli("egress", "check", "-", "-o", "json", stdin=POLICY.encode()).expect(0).out)
    equal((found["valid"], [e["host"] for e in found["endpoints"]]),
          (True, ["api.example.com", "rest.example.com", "packages.example.org"]), "the verdict")
    c.cli("egress", "check", bad).expect(1, out=b"", says=r"bad\.yaml: line 5: network_policies\.a\.endpoints\[0\]\.hosst")
    equal(json.loads(c.cli("egress", "check", bad, "-o", "json").expect(1).out)["valid"], False, "the verdict")
    c.cli("egress", "check", "nowhere").expect((1, 125), says="nowhere")
    c.cli("egress", "check").expect(2)


@test
def a_decision_is_explained(c):
    policy = c.write("policy.yaml", POLICY)
    for flags, code, verdict in ((["--to", "api.example.com"], 0, "allowed"),
                                 (["--to", "api.example.com:80"], 1, "port_not_allowed"),
                                 (["--to", "evil.example"], 1, "policy_denied"),
                                 (["--to", "rest.example.com:80", "--path", "/x"], 0, "allowed"),
                                 (["--to", "rest.example.com:80", "--method", "PUT"], 1, "request_denied"),
                                 (["--to", "packages.example.org", "--binary", "/usr/bin/pip"], 0, "allowed"),
                                 (["--to", "packages.example.org", "--binary", "/usr/bin/curl"], 1, "binary_not_allowed")):
        found = json.loads(c.cli("egress", "explain", policy, *flags, "-o", "json").expect(code).out)
        equal(found["code"], verdict, f"the code for {flags}")
    shown = c.cli("egress", "explain", policy, "--to", "evil.example").expect(1).text
    check("denied" in shown and "evil.example" in shown and "NEXT" in shown, shown)
    c.cli("egress", "explain", policy).expect(2, says="--to")
    c.cli("egress", "explain", policy, "--to", "a b").expect(2, says="--to")


@test
def a_sandbox_is_named_by_its_name(c):
    with Daemon(c) as d:
        cli = Client(d)
        cli.create("--name", "one", "--allow", "api.example.com")
        cli("egress", "explain", "one", "--to", "api.example.com").expect(0)
        cli("egress", "explain", "one", "--to", "api.example.com", "--ceiling").expect(0)
        cli("egress", "explain", "one", "--to", "evil.example").expect(1)
        check("api.example.com" in cli("egress", "check", "one").expect(0).text, "check")
        cli("egress", "explain", "two", "--to", "x.example").expect(3, says=("two", "there is no file 'two' either"))
        for verb in ("check", "explain"):
            check(re.search(rf"egress {verb} .*FILE\|ID\|NAME", cli("egress", verb, "--help").expect(0).text), f"the usage of {verb} has no name")
        c.write("one", POLICY)
        cli("egress", "explain", "one", "--to", "rest.example.com:80", "--path", "/x").expect(0)


@test
def a_policy_of_create_may_begin_with_a_brace(c):
    flow = c.write("flow.yaml", "{version: 1, network_policies: {a: {endpoints: [{host: api.example.com, port: 443}], binaries: [{path: /**}]}}}")
    wrong = c.write("wrong.yaml", "{version: 1,\n wrong: 2}")
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--policy", flow)
        equal(cli.json("egress", "get", box)["endpoints"], 1, "endpoints")
        cli("egress", "set", box, flow).expect(0)
        cli("create", "--policy", wrong).expect(2, says="line 2: ")


@test
def a_sandbox_gets_a_policy_and_another(c):
    policy, bad = c.write("policy.yaml", POLICY), c.write("bad.yaml", BAD)
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--allow", "one.example.com", "--allow", "two.example.com:80")
        found = cli.json("egress", "get", box)
        equal((found["generation"], found["endpoints"]), (1, 2), "the first policy")
        cli("egress", "set", box, policy).expect(0, out=f"{box}: generation 2 of its policy\n".encode())
        equal(cli.json("egress", "get", box)["endpoints"], 3, "endpoints of the second")
        cli("egress", "set", box, bad).expect((1, 2), says="line 5")
        equal(cli.json("egress", "get", box)["generation"], 2, "what is in force after a bad one")
        other = cli.create("--policy", policy)
        equal(cli.json("egress", "get", other)["endpoints"], 3, "endpoints of the file")
        cli("create", "--policy", bad).expect((1, 2), says="line 5")
        cli("create", "--allow", "a b").expect((1, 2), says="a b")
        cli("egress", "get", "sbx_none").expect(3)


def decisions(cli, box, *options):
    return [json.loads(line) for line in cli.lines("egress", "log", "-o", "json", *options, box)]


def log(cli, box, *options):
    """The hosts of the decisions."""
    return [e.get("dst_endpoint", {}).get("hostname") for e in decisions(cli, box, *options)]


def rfc3339(ms):
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@test
def what_was_refused_is_shown(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--allow", "one.example.com")
        cli.sh(box, "curl -sS -m 20 https://evil.example/").expect(56)
        equal([(x["host"], x["port"], x["code"]) for x in cli.json("egress", "denials", box)["denials"]],
              [("evil.example", 443, "policy_denied")], "denials")
        equal(cli.lines("egress", "denials", "-q", box), ["evil.example"], "hosts alone")
        check("policy_denied" in cli("egress", "denials", box).expect(0).text, "the table has the code")
        shown = cli("egress", "log", box).expect(0).text
        check("Denied" in shown and "evil.example" in shown and "policy_denied" in shown, shown)
        events = [json.loads(line) for line in cli("egress", "log", box, "-o", "json").expect(0).text.splitlines()]
        equal(events[-1]["dst_endpoint"]["hostname"], "evil.example", "the last event's host")
        equal(len(cli.lines("egress", "log", "-n", "1", box)), 2, "titles and lines of the tail")
        follower = cli.start("egress", "log", "-f", box)
        equal(follower.stdout.readline().split()[:3], [b"TIME", b"ACTION", b"ACTIVITY"], "titles")
        cli.sh(box, "curl -sS -m 20 https://other.example/").expect(56)
        while b"other.example" not in (line := follower.stdout.readline()):
            check(line and b"evil.example" not in line, f"a follower begins with what is over: {line}")
        equal(log(cli, box), log(cli, box, "-n", "10000"), "all")
        times = [e["time"] for e in decisions(cli, box)]
        equal(log(cli, box, "-n", "0"), [], "nothing")
        equal(set(log(cli, box, "--host", "EVIL.example")), {"evil.example"}, "of a host")
        equal(log(cli, box, "--host", "evil.example", "-n", "1"), ["evil.example"], "the last of a host")
        equal(log(cli, box, "--host", "nothing.example"), [], "of another host")
        equal(set(log(cli, box, "--denied")) >= {"evil.example", "other.example"}, True, "denied ones")
        check("evil.example" not in log(cli, box, "--allowed"), "allowed ones")
        equal(log(cli, box, "--program", "/no/such"), [], "of a program")
        equal(len(log(cli, box, "--since", "1h")), len(times), "of the last hour")
        equal(log(cli, box, "--since", "2200-01-01T00:00:00Z"), [], "of the future")
        equal(log(cli, box, "--until", "1h"), [], "until an hour ago")
        moment = rfc3339(times[-1])
        equal([e["time"] for e in decisions(cli, box, "--since", moment)], [t for t in times if t >= times[-1]], "since a moment")
        equal([e["time"] for e in decisions(cli, box, "--until", moment)], [t for t in times if t < times[-1]], "until a moment")
        for options, words in ((("--since", "soon"), "since: must be a time"), (("--denied", "--allowed"), "exclude each other")):
            cli("egress", "log", box, *options).expect(2, says=words)
        equal(cli.lines("egress", "denials", "-q", "--host", "evil.example", "-n", "5", box), ["evil.example"], "denials of a host")
        equal(cli.lines("egress", "denials", "-q", "--until", "1h", box), [], "denials until an hour ago")
        cli("destroy", box).expect(0)
        equal(follower.wait(20), 0, "the follower ends with the sandbox")


@test
def denials_name_the_program(c):
    with Daemon(c) as d:
        cli = Client(d)
        box = cli.create("--allow", "api.example.com")
        cli.sh(box, "curl -sS -m 20 https://other.example/").expect(56)
        (denied,) = cli.json("egress", "denials", box)["denials"]
        equal([denied["host"], denied["program"]], ["other.example", "/usr/bin/curl"], "the program, by no rule of the policy")
        equal(cli.lines("egress", "denials", "-q", "--program", "curl", box), ["other.example"], "of a program")
        equal(log(cli, box, "--program", "curl", "--denied"), ["other.example"], "decisions of a program")


main()
