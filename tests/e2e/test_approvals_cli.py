#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Held calls on the command line: watching them, and deciding one's own on a terminal."""

import contextlib
import json
import os
import signal

from client import Client
from daemon import Api, ApiAs, Daemon
from harness import check, equal, main, test, wait_for
from peer import Peer, decide, master_token
from tcp import Tcp, serving
from terminal import Terminal
from tmux import Screen

BUNDLE = """\
version: 1
approvals: {{expiry: {expiry}}}
tools:
  sandbox_list: {{tier: 4, effect: none}}
  sandbox_create: {{tier: 4, effect: write, creates: true}}
"""
SELF = ", self_approval: true"
ASKED = {"capabilities": {"network": ["example.org:443"]}}


def own_api(d, c):
    """The interface as the daemon's own user has it; the test itself is root."""
    return ApiAs(d, c.uid) if os.getuid() == 0 and c.uid else Api(d.socket)


@contextlib.contextmanager
def holding(c, more="", expiry="1h"):
    bundle = c.write("bundle.yaml", BUNDLE.format(expiry=expiry))
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'{more}}}") as d:
        cli = Client(d)
        yield d, cli, Peer(own_api(d, c))


def hold(peer, **body):
    return peer.request("POST", "/v1/sandboxes", body or ASKED).expect(403, code="denied").json["request_id"]


def hold_as(api):
    return hold(Peer(api))


def record(d, request):
    return d.api.get(f"/v1/approvals/{request}").expect(200).json


def decided(d, request):
    return wait_for(lambda: (r := record(d, request))["state"] in ("done", "rejected", "expired", "invalid") and r, "it is decided")


def events_of(d, kind):
    return [e for e in d.api.get("/v1/events?limit=1000").expect(200).json["events"] if e["type"] == kind]


# --- one's own requests ---

@test
def own_requests_are_refused_with_the_remedy(c):
    with holding(c) as (d, cli, peer):
        request, own = hold(peer), own_api(d, c)
        for how, body in (("approve", {}), ("reject", {"reason": "no"})):
            for more in ({}, {"self": True}):
                detail = own.post(f"/v1/approvals/{request}/{how}", {**body, **more}).expect(403, code="denied").json["detail"]
                for words in ("cannot approve your own request", "trust.self_approval: true", "daemon restart", "--role master"):
                    check(words in detail, f"{words!r} is not said: {detail}")
        cli("approvals", "approve", request).expect(5, says="trust.self_approval: true")
        equal(record(d, request)["state"], "pending", "state")


@test
def the_daemons_own_user_decides_own_requests(c):
    with holding(c, SELF) as (d, cli, peer):
        own = own_api(d, c)
        first, second = hold(peer), hold(peer)
        for words in (own.post(f"/v1/approvals/{first}/approve", {}).expect(403).json["detail"],):
            check("approvals watch" in words and "--self" in words, f"how is not said: {words}")
        own.post(f"/v1/approvals/{first}/approve", {"self": True}).expect(200)
        own.post(f"/v1/approvals/{second}/reject", {"self": True, "reason": "not now"}).expect(200)
        for request, state in ((first, "done"), (second, "rejected")):
            shown = decided(d, request)
            equal((shown["state"], shown["decided_by"]), (state, "self"), "how it is on record")
        for kind in ("approval.approved", "approval.rejected"):
            wait_for(lambda kind=kind: events_of(d, kind), f"{kind} is an event")
            equal(events_of(d, kind)[0]["detail"]["approver"], "self", f"{kind}: its approver")


@test
def no_token_session_or_sandbox_decides_own_requests(c):
    with holding(c, SELF) as (d, cli, peer):
        request, own = hold(peer), own_api(d, c)
        path = f"/v1/approvals/{request}/approve"
        peer.request("POST", path, {"self": True}).expect(403, code="denied")
        own.request("POST", path, {"self": True}, {"X-Trust-Level": "master"}).expect(403)
        with_token = own.request("POST", path, {"self": True}, {"Authorization": "Bearer x"}).expect(403).json["detail"]
        check("without a token" in with_token, f"why: {with_token}")
        inside = ["unshare", *([] if c.root else ["-U", "-r"]), "-p", "-f", "curl", "-s", "--unix-socket", d.socket, "-d", '{"self":true}',
                  "-H", "Content-Type: application/json", f"http://localhost{path}"]
        said = json.loads(c.execute(inside).expect(0).out)
        equal(said["status"], 403, f"of a program in a pid namespace: {said}")
        check("sandbox or container" in said["detail"], f"why: {said}")
        equal(record(d, request)["state"], "pending", "state")


@test(only="root", because="the other user is root's to become")
def another_user_of_the_socket_is_not_the_daemons(c):
    with holding(c, SELF) as (d, cli, peer):
        request = hold(peer)
        os.chmod(d.socket, 0o666)  # behind the daemon's back
        other = ApiAs(d, 65534)
        other.post(f"/v1/approvals/{request}/approve", {"self": True}).expect(404)  # no master, and nothing of theirs
        os.chmod(d.socket, 0o600)


@test
def self_approval_is_refused_where_others_reach_the_daemon(c):
    for more in ("listen: 127.0.0.1:7700\n", "socket: {mode: '0660'}\n", "domain: {name: a.test, listen: '127.0.0.1:7701'}\n"):
        file = c.write("sandboxer.yaml", more + "trust:\n  self_approval: true\n")
        said = c.cli("config", "check", file).expect(2, says="trust.self_approval")
        check("lets others in" in said.notes, f"why: {said}")
    d = Daemon(c, config="trust: {self_approval: true}")
    check(not d.spawn(args=("--listen=127.0.0.1:0x",)), "it serves")
    check(not d.spawn(args=("--listen=127.0.0.1:7799",)), "it serves")
    d.process.wait()
    check("trust.self_approval" in d.tail() and "listen" in d.tail(), f"why: {d.tail()}")


@test(only="plain", because="root's daemon reads the machine's configuration")
def daemon_listen_leaves_the_daemon_as_it_is(c):
    c.write("config/sandboxer/sandboxer.yaml", "trust: {self_approval: true}\n")
    with Daemon(c, config="trust: {self_approval: true}") as d:
        cli = Client(d, XDG_CONFIG_HOME=str(c.dir / "config"))
        cli("daemon", "listen", "127.0.0.1:7799").expect(2, says="trust.self_approval")
        check(d.alive, "the daemon has ended")


@test
def config_init_explains_it(c):
    c.cli("config", "init", "made.yaml").expect(0)
    text = (c.dir / "made.yaml").read_text()
    check("self_approval" in text and "approvals watch" in text, "config init is silent about it")


@test
def approve_self_asks_on_the_terminal(c):
    with holding(c, SELF) as (d, cli, peer):
        first, second = hold(peer), hold(peer, env={"EVIL": "\x1b[2J\u202e"}, **ASKED)
        with Terminal(c, "--self", second, verb=("approvals", "approve"), env=cli.env) as t:
            t.expect(b"[y/N]")
            check(b"example.org:443" in t.before and b"sandbox_create" in t.before, f"what is decided: {t.before}")
            check(b"\x1b[2J" not in t.before and "\u202e".encode() not in t.before, f"raw control characters: {t.before}")
            t.send(b"n\n")
            equal(t.end(), 1, "exit status")
        equal(record(d, second)["state"], "pending", "after a no")
        with Terminal(c, "--self", first, verb=("approvals", "approve"), env=cli.env) as t:
            t.expect(b"[y/N]")
            t.send(b"y\n")
            equal(t.end(), 0, "exit status")
        with Terminal(c, "--self", second, "--reason", "no", verb=("approvals", "reject"), env=cli.env) as t:
            t.expect(b"reject this request")
            t.send(b"y\n")
            equal(t.end(), 0, "exit status")
        equal([decided(d, r)["state"] for r in (first, second)], ["done", "rejected"], "states")
        third = hold(peer)
        c.execute(["setsid", "-w", c.program(), "approvals", "approve", "--self", third], stdin=b"y\n",
                  env=cli.env).expect(2, says="no terminal")
        equal(record(d, third)["state"], "pending", "without a terminal")


# --- held answers ---

@test
def held_answers_name_the_request_and_the_command(c):
    bundle = c.write("bundle.yaml", BUNDLE.format(expiry="1h"))
    with serving(c, config=f"trust: {{bundle: '{bundle}'}}") as (d, port, token):
        holder, _ = token("read", "create", role="journeyman")
        answer = holder.post("/v1/sandboxes", ASKED).expect(403).json
        check(f"sandboxer approvals approve {answer['request_id']}" in answer["detail"], f"over TCP: {answer}")
        said = c.cli("create", "--allow", "example.org:443", "--server", f"http://127.0.0.1:{port}",
                     env={"SANDBOXER_TOKEN": holder.token, "SANDBOXER_NO_DAEMON": "1"}).expect(5)
        waiting = [a["request_id"] for a in d.api.get("/v1/approvals").expect(200).json["approvals"]]
        check(any(f"sandboxer approvals approve {r}" in said.notes for r in waiting), f"of create: {said}")


# --- watching without a terminal ---

def line_of(process):
    return process.stdout.readline().decode()


@test
def watch_prints_a_line_for_each_call(c):
    with holding(c) as (d, cli, peer):
        first = hold(peer)
        watching = cli.start("approvals", "watch", stdin=-3)  # DEVNULL
        check(first in line_of(watching), "the call that waits already")
        second = hold(peer, env={"A": "\x1b]0;x\x07"}, **ASKED)
        line = line_of(watching)
        check(second in line and "sandbox_create" in line and "example.org:443" in line, f"the next one: {line!r}")
        check("\x1b" not in line and "\x07" not in line, f"raw control characters: {line!r}")
        watching.send_signal(signal.SIGTERM)
        equal(watching.wait(20), 128 + signal.SIGTERM, "exit status")
        documents = cli.start("approvals", "watch", "-o", "json", stdin=-3)
        calls = {json.loads(line_of(documents))["request_id"]: None for _ in range(2)}
        equal(sorted(calls), sorted([first, second]), "documents")
        documents.send_signal(signal.SIGINT)
        equal(documents.wait(20), 128 + signal.SIGINT, "exit status")


@test
def deciding_without_a_terminal_ends_with_2(c):
    with holding(c) as (d, cli, peer):
        request = hold(peer)
        cli("approvals", "watch", stdin=b"y\n").expect(2, says="needs a terminal")
        equal(record(d, request)["state"], "pending", "state")


@test
def watch_connects_again(c):
    with holding(c) as (d, cli, peer):
        watching = cli.start("approvals", "watch", "-o", "json", stdin=-3)
        first = hold(peer)
        equal(json.loads(line_of(watching))["request_id"], first, "the first")
        d.kill()
        d.start()
        second = hold(peer)
        equal(json.loads(line_of(watching))["request_id"], second, "after a restart, and the first not again")


@test(only="root", because="the master is another user")
def a_master_who_is_no_administrator_hears_of_all(c):
    bundle = c.write("bundle.yaml", BUNDLE.format(expiry="1h"))
    with Daemon(c, config=f"socket: {{mode: '0666'}}\ntrust: {{bundle: '{bundle}', masters: ['1000']}}") as d:
        peer = Peer(d.api)
        streams = [ApiAs(d, uid).open("GET", "/v1/approvals", headers={"Accept": "text/event-stream"}) for uid in (1000, 65534)]
        request = hold(peer)
        (_, master), (_, other) = streams
        data = next(json.loads(line[6:]) for line in master if line.startswith(b"data: "))
        equal((data["request_id"], data["state"]), (request, "pending"), "the change")
        mine = hold_as(ApiAs(d, 65534))
        data = next(json.loads(line[6:]) for line in other if line.startswith(b"data: "))
        equal(data["request_id"], mine, "another user hears of their own alone")
        for connection, _ in streams:
            connection.close()


@test
def exec_runs_a_command_for_each_call(c):
    with holding(c) as (d, cli, peer):
        out = c.dir / "out"
        watching = cli.start("approvals", "watch", "--exec", f"cat >> {out}; echo said", stdin=-3)
        requests = [hold(peer, labels={"n": f"'; touch {out}.evil; '"}, **ASKED) for _ in range(3)]
        wait_for(lambda: out.exists() and out.read_text().count("\n") == 3, "it ran for each")
        got = [json.loads(line) for line in out.read_text().splitlines()]
        equal(sorted(g["request_id"] for g in got), sorted(requests), "what it was given")
        equal(got[0]["args"]["capabilities"]["network"], ["example.org:443"], "with arguments")
        check(not (c.dir / "out.evil").exists(), "text of a call was run")
        watching.send_signal(signal.SIGTERM)
        watching.wait(20)
        said = watching.stderr.read().decode()
        check("said" in said, f"its output is on stderr: {said}")
        failing = cli.start("approvals", "watch", "--exec", "exit 3", stdin=-3)
        check(b"ended with 3" in failing.stderr.readline(), "a failure is reported")
        failing.send_signal(signal.SIGTERM)
        failing.wait(20)


# --- on a terminal ---

@test
def keys_decide(c):
    with holding(c, SELF) as (d, cli, peer):
        with Terminal(c, verb=("approvals", "watch"), env=cli.env) as t:
            t.expect(b"waiting for held calls")
            first = hold(peer)
            t.expect(first.encode())
            t.expect(b"q quit")
            check(b"example.org:443" in t.before, f"the network: {t.before}")
            t.send(b"y")
            t.expect(b"approved")
            second = hold(peer)
            t.expect(second.encode())
            t.expect(b"q quit")
            t.send(b"n")
            t.expect(b"rejected")
            third = hold(peer)
            t.expect(third.encode())
            t.expect(b"q quit")
            t.send(b"s")
            t.expect(b"skipped")
            fourth = hold(peer)
            t.expect(fourth.encode())
            t.expect(b"q quit")
            t.send(b"t")
            t.expect(b"for 10 minutes")
            t.send(b"q")
            equal(t.end(), 0, "exit status")
            check(t.restored(), "the terminal is not as it was")
        equal([decided(d, r)["state"] for r in (first, second, fourth)], ["done", "rejected", "done"], "states")
        equal(record(d, third)["state"], "pending", "the skipped one")
        peer.request("POST", "/v1/sandboxes", ASKED).expect(201)  # by the grant


@test
def a_key_for_a_call_that_ended_decides_nothing(c):
    with holding(c, SELF) as (d, cli, peer):
        secret = master_token(d)
        with Terminal(c, verb=("approvals", "watch"), env=cli.env) as t:
            first, second = hold(peer), hold(peer)
            t.expect(first.encode())
            t.expect(b"q quit")
            decide(d, first, "reject", secret, reason="elsewhere").expect(200)
            t.expect(b"is rejected")
            t.expect(second.encode())
            t.expect(b"Enter to decide")
            t.send(b"y")
            t.send(b"\n")
            t.expect(b"y approve")
            equal(record(d, second)["state"], "pending", "the next one")
            t.send(b"n")
            t.expect(b"rejected")
            t.send(b"q")
            equal(t.end(), 0, "exit status")


@test
def another_policy_takes_the_question_back_and_asks_again(c):
    with holding(c, SELF) as (d, cli, peer):
        with Terminal(c, verb=("approvals", "watch"), env=cli.env) as t:
            first = hold(peer)
            t.expect(first.encode())
            t.expect(b"q quit")
            c.write("bundle.yaml", BUNDLE.format(expiry="2h"))
            cli("trust", "reload").expect(0)
            t.expect(b"is invalid")
            second = hold(peer)
            t.expect(second.encode())
            t.expect(b"q quit")
            t.send(b"q")
            equal(t.end(), 0, "exit status")


@test
def a_refused_decision_is_said_and_asked_again(c):
    with holding(c) as (d, cli, peer):  # without self_approval
        with Terminal(c, verb=("approvals", "watch"), env=cli.env) as t:
            request = hold(peer)
            t.expect(request.encode())
            t.expect(b"q quit")
            t.send(b"y")
            t.expect(b"trust.self_approval: true")
            t.expect(request.encode())
            t.expect(b"q quit")
            t.send(b"q")
            equal(t.end(), 0, "exit status")
        equal(record(d, request)["state"], "pending", "state")


@test
def the_terminal_is_restored_after_signals(c):
    with holding(c, SELF) as (d, cli, peer):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with Terminal(c, verb=("approvals", "watch"), env=cli.env) as t:
                t.expect(b"waiting")
                check(not t.restored(), "the terminal was never changed")
                os.kill(t.process.pid, number)
                equal(t.end(), 128 + number, "exit status")
                check(t.restored(), f"the terminal is not as it was after signal {number}")
        with Terminal(c, verb=("approvals", "watch"), env=cli.env) as t:
            t.expect(b"waiting")
            t.send(b"\x03")
            equal(t.end(), 128 + signal.SIGINT, "exit status after ^C")
            check(t.restored(), "the terminal is not as it was after ^C")


@test
def no_color_has_no_colours(c):
    with holding(c, SELF) as (d, cli, peer):
        request = hold(peer).encode()
        for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
            with Terminal(c, verb=("approvals", "watch"), env={**cli.env, **more}) as t:
                t.expect(b"y approve")
                equal(b"\x1b[1m" + request in t.before, coloured, f"colours with {more}")
                t.send(b"q")
                t.end()


@test
def screens_of_two_widths(c):
    with holding(c, SELF) as (d, cli, peer):
        request = hold(peer, env={"LONG": "x" * 2000}, **ASKED)
        for columns in (80, 200):
            with Screen(c, columns, 24, [c.program(), "approvals", "watch"], cli.env) as s:
                s.shows("y approve  n reject  t approve for 10 minutes  s skip  q quit")
                lines = s.lines()
                check(any(line.startswith(f"{request} sandbox_create") for line in lines), f"the head: {lines}")
                check(any(line.startswith("  network") and line.endswith("example.org:443") for line in lines), f"the network: {lines}")
                shown = [line for line in lines if "xxx" in line]
                check(shown and all(len(line) <= columns for line in shown) and shown[-1].endswith("…"), f"arguments: {lines}")
                check(len(shown[1]) > columns - 3, f"the width is not used: {shown}")
                s.resize(50, 24)
                s.shows("y approve  n reject  t approve for 10 minutes")
                s.resize(columns, 24)
                s.shows("y approve  n reject  t approve for 10 minutes  s skip  q quit")
                os.kill(s.pid("sandboxer"), signal.SIGTERM)
                s.shows(f"status {128 + signal.SIGTERM}\nicanon")
        with Screen(c, 80, 24, [c.program(), "approvals", "watch"], cli.env) as s:
            s.shows("y approve")
            s.type("y")
            s.shows("approved")
            s.type("q")
            s.shows("status 0\nicanon")
        equal(decided(d, request)["decided_by"], "self", "who decided")


main()
