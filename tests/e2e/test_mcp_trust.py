#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""MCP under the policy for tools: sessions are peers, verdicts, calls that wait for a master, refusals on record."""

import base64
import contextlib
import http.client
import json

from client import Client
from daemon import Daemon
from harness import check, equal, main, test, wait_for
from mcp import ACCEPT, TRANSPORTS, VERSION, Http, Lines, Stateless, Web
from peer import Peer
from tcp import serving

ONCE = {"only": "root", "because": "the daemon is the same for everybody"}
NETWORK = {"network": ["example.com:1"]}


def master(d):
    return {"SANDBOXER_MASTER": d.api.post("/v1/tokens", {"name": "m", "verbs": ["read"], "role": "master"}).expect(201).json["token"]}


def events(d, kind):
    return [e for e in d.api.get("/v1/events?limit=1000").expect(200).json["events"] if e["type"] == kind]


def peers(d):
    return d.api.get("/v1/peers").expect(200).json["peers"]


def gone(d, box):
    wait_for(lambda: d.get(box)["state"] == "destroyed", f"{box} is gone", seconds=40)


def held(m, name="sandbox_create", **arguments):
    """A call that waits: its id."""
    error = m.ask("tools/call", name=name, arguments=arguments or {"capabilities": NETWORK})["error"]
    equal([error["code"], error["data"]["kind"]], [-32002, "require_approval"], f"the verdict: {error}")
    check(error["data"]["audit_id"].startswith("aud_") and "approve" in error["message"], f"{error}")
    return error["data"]["request_id"]


# --- sessions are peers ---

@test(**ONCE)
def a_session_is_a_peer_and_ends_with_it(c):
    with Daemon(c) as d:
        for how in TRANSPORTS:
            with how(c, d) as m:
                m.begin()
                [peer] = peers(d)
                equal([peer["role"], peer["state"]], ["journeyman", "alive"], "the peer")
                check(peer["client"] in ("t", "test"), f"what it calls itself: {peer}")
                box = m.tool("sandbox_create")["sandbox_id"]
                equal(d.get(box)["labels"], {"peer": peer["id"]}, "its label")
                equal(peers(d)[0]["sandboxes"], 1, "its sandboxes")
            gone(d, box)
            wait_for(lambda: not peers(d), "the peer is gone")
        with Lines(c, d) as m:
            m.begin()
            box = m.tool("sandbox_create")["sandbox_id"]
            d.api.delete(f"/v1/peers/{peers(d)[0]['id']}").expect(204)
            check(m.process.wait(20) != 0, "whose peer was ended, and is served")
        gone(d, box)


@test
def a_file_brings_a_client_back(c):
    with Daemon(c) as d:
        key = c.dir / "session"
        with Lines(c, d, argv=("--session", str(key))) as m:
            m.begin()
            box = m.tool("sandbox_create")["sandbox_id"]
            m.process.kill()
        equal(key.stat().st_mode & 0o777, 0o600, "who may read the file")
        wait_for(lambda: peers(d)[0]["state"] == "left", "it has left")
        with Lines(c, d, argv=("--session", str(key))) as m:
            m.begin()
            equal([b["sandbox_id"] for b in m.tool("sandbox_list")["sandboxes"]], [box], "what it had")
            equal(len(peers(d)), 1, "it is the same")
            d.kill()
            m.process.wait(20)
        d.start()
        with Lines(c, d, argv=("--session", str(key))) as m:
            m.begin()
            equal(m.tool("sandbox_exec", sandbox_id=box, command="echo still")["stdout"], "still\n", "after the daemon died")
        with Lines(c, d) as m:
            m.begin()
            equal(m.tool("sandbox_list")["sandboxes"], [], "somebody else's")
        key.chmod(0o644)
        Client(d)("mcp", "--session", str(key)).expect((1, 2, 3, 125), says="chmod 600")


@test(**ONCE)
def without_a_session_silence_ends(c):
    with Daemon(c, config="trust: {silence: 5s}") as d:
        m = Stateless(d)
        box = m.tool("sandbox_create")["sandbox_id"]
        equal([b["sandbox_id"] for b in m.tool("sandbox_list")["sandboxes"]], [box], "the next request's")
        equal(len(peers(d)), 1, "one caller is one peer")
        gone(d, box)
        wait_for(lambda: not peers(d), "the peer is gone")
        equal(m.tool("sandbox_list")["sandboxes"], [], "a new one's")


@test(**ONCE)
def all_that_was_asked_is_answered_at_the_end_of_stdin(c):
    with Daemon(c) as d:
        said = b"".join(json.dumps({"jsonrpc": "2.0", **m}).encode() + b"\n" for m in (
            {"id": 1, "method": "initialize", "params": {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "p", "version": "1"}}},
            {"method": "notifications/initialized"}, {"id": 2, "method": "tools/list"},
            {"id": 3, "method": "tools/call", "params": {"name": "sandbox_create", "arguments": {}}}))
        done = Client(d)("mcp", stdin=said.rstrip(b"\n")).expect(0)
        answers = {m["id"]: m for m in map(json.loads, done.text.splitlines())}
        equal(sorted(answers), [1, 2, 3], "what was answered")
        gone(d, answers[3]["result"]["structuredContent"]["sandbox_id"])


@test(**ONCE)
def a_model_names_nothing_of_this_machine(c):
    c.write("daemon/profiles/work.yaml", "id: profile.work\nversion: 1\nworkspace: {mode: mirror, access: rw}\n")
    with Daemon(c, config=f"workspaces: {{roots: [{c.mkdir(c.dir / 'work')}]}}") as d, Lines(c, d) as m:
        m.begin()
        m.refused("sandbox_create", "administrators", profile="profile.work", inputs={"repo": str(c.dir / "work")})


# --- verdicts ---

RULES = """\
version: 1
tools:
  sandbox_list: {tier: 0, effect: none, rate: {calls: 2, per: 1h}}
  sandbox_create: {tier: 2, effect: write, creates: true, when: {network: {network: true, tier: 4}}}
  sandbox_exec: {tier: 2, effect: execute, role: master}
  sandbox_read: {tier: 1, effect: read, args: {path: {pattern: '/tmp/[a-z]+'}}}
  sandbox_destroy: {tier: 4, effect: destroy}
"""


def check_verdicts(m, mode):
    box = m.tool("sandbox_create")["sandbox_id"]
    m.tool("sandbox_list")
    m.tool("sandbox_list")
    resource = m.ask("resources/read", uri=f"sandbox://{box}/files/etc/hostname")
    equal("error" in resource, mode == "enforce", f"a resource under the same rule: {resource}")
    for name, code, kind, arguments in (
            ("sandbox_list", -32001, "rate_limit", {}),
            ("sandbox_exec", -32000, "deny", {"sandbox_id": box, "command": "true"}),
            ("sandbox_read", -32000, "deny", {"sandbox_id": box, "path": "/etc/hostname"}),
            ("sandbox_write", -32000, "deny", {"sandbox_id": box, "path": "/tmp/x", "content": ""}),
            ("sandbox_destroy", -32002, "require_approval", {"sandbox_id": box})):
        answer = m.ask("tools/call", name=name, arguments=arguments)
        if mode != "enforce":
            check("result" in answer, f"{mode} {name}: {answer}")
            continue
        equal([answer["error"]["code"], answer["error"]["data"]["kind"]], [code, kind], f"{name}: {answer}")
        check(answer["error"]["data"]["audit_id"], "no audit id")
        equal("request_id" in answer["error"]["data"], code == -32002, "a request to wait for")


@test(**ONCE)
def each_verdict_and_where_it_comes_from(c):
    for mode in ("enforce", "audit", "off"):
        bundle = c.write("bundle.yaml", RULES + f"mode: {mode}\n")
        for n, how in enumerate(TRANSPORTS):  # rates are the caller's, so each has a daemon of its own
            with Daemon(c, name=f"{mode}{n}", config=f"trust: {{bundle: '{bundle}'}}") as d:
                with how(c, d) as m:
                    m.begin()
                    check_verdicts(m, mode)
                kinds = lambda d=d: {e["type"] for e in d.api.get("/v1/events?limit=1000").json["events"] if e["type"].startswith(("trust.", "approval."))}
                want = {"enforce": {"trust.denied", "trust.rate_limited", "approval.requested", "approval.invalid"}, "audit": {"trust.audited"}, "off": set()}
                wait_for(lambda: kinds() >= want[mode], f"all of it is on record: {mode}")
                equal(kinds(), want[mode], f"what is on record: {mode}")


@test(**ONCE)
def every_answer_says_where_it_is_on_record(c):
    for n, how in enumerate(TRANSPORTS):
        with Daemon(c, name=f"d{n}") as d, how(c, d) as m:
            m.begin()
            box = m.tool("sandbox_create")["sandbox_id"]
            ids = [m.ask("tools/call", name="sandbox_list")["result"]["_meta"]["sandboxer/audit_id"] for _ in range(2)]
            check(all(i.startswith("aud_") for i in ids) and len(set(ids)) == 2, f"of what passes: {ids}")
            unknown = m.ask("tools/call", name="sandbox_fly", arguments={})["error"]["data"]["audit_id"]
            missing = m.ask("tools/call", name="sandbox_read", arguments={"sandbox_id": box, "path": "/no/such/file"})["result"]
            check(missing["isError"], f"{missing}")
            for identity in (unknown, missing["_meta"]["sandboxer/audit_id"]):
                wait_for(lambda i=identity: i in [e["detail"].get("audit") for e in events(d, "mcp.refused")], f"{identity} is on record")


@test(**ONCE)
def roles_are_the_tokens(c):
    with serving(c) as (d, _, token):
        for role, kind in (("apprentice", "deny"), ("journeyman", None), ("master", None)):
            m = Stateless(d, token(role=role)[0])
            box = m.ask("tools/call", name="sandbox_create", arguments={})["result"]["structuredContent"]["sandbox_id"]
            answer = m.ask("tools/call", name="sandbox_exec", arguments={"sandbox_id": box, "command": "true"})
            equal(answer.get("error", {}).get("data", {}).get("kind"), kind, f"a {role}'s: {answer}")
            answer = m.ask("tools/call", name="sandbox_create", arguments={"capabilities": {"network": True}})
            equal(answer["error"]["data"]["kind"], kind or "require_approval", f"a {role}'s network: {answer}")


# --- what waits for a master ---

@test
def what_is_approved_runs_once_and_its_client_hears(c):
    with Daemon(c) as d, Lines(c, d) as m:
        cli, secret = Client(d), master(d)
        m.begin()
        request = held(m)
        equal(m.ask("resources/subscribe", uri=f"approval://{request}")["result"], {}, "a subscription")
        waits = m.ask("tools/call", name="sandbox_create", arguments={}, _meta={"sandboxer/request_id": request})["error"]
        equal([waits["code"], waits["data"]["request_id"]], [-32002, request], "while it waits")
        cli("approvals", "approve", request).expect(5, says="cannot approve your own request")
        n = m.start("tools/call", name="sandbox_create", arguments={}, _meta={"sandboxer/request_id": request, "sandboxer/wait_s": 60})
        cli("approvals", "approve", request, env=secret).expect(0)
        made = m.answer(n)["result"]["structuredContent"]
        equal([made["egress_policy"], d.get(made["sandbox_id"])["labels"]], ["enforced", {"peer": peers(d)[0]["id"]}], "what was made")
        equal([b["sandbox_id"] for b in m.tool("sandbox_list")["sandboxes"]], [made["sandbox_id"]], "what it has: one")

        def told():
            m.ask("ping")
            return [x["params"] for x in m.notes if x.get("method") == "notifications/message"]
        note = wait_for(told, "the session is told")[0]
        equal([note["logger"], note["data"]["request_id"], note["data"]["state"], note["data"]["result"]], ["sandboxer.approvals", request, "done", made], "the notification")
        check([x for x in m.notes if x.get("method") == "notifications/resources/updated"], "the subscription is told")
        equal(json.loads(m.ask("resources/read", uri=f"approval://{request}")["result"]["contents"][0]["text"])["state"], "done", "the resource")
        shown = cli.json("approvals", "show", request)
        equal([shown["state"], shown["result"]], ["done", made], "what the command line shows")
        cli("approvals", "approve", request, env=secret).expect((3, 4))
        equal(len(m.tool("sandbox_list")["sandboxes"]), 1, "again, nothing is made")
        wait_for(lambda: events(d, "approval.refused"), "the second approval is on record")
        equal(m.ask("tools/call", name="sandbox_exec", arguments={}, _meta={"sandboxer/request_id": request})["error"]["code"], -32602, "of another tool")


@test(**ONCE)
def a_client_hears_only_what_is_as_severe_as_it_wants(c):
    with Daemon(c) as d, Lines(c, d) as m:
        cli, secret = Client(d), master(d)
        m.begin()
        heard = []
        for level in ("debug", "notice", "warning", "emergency", "info"):
            equal(m.ask("logging/setLevel", level=level)["result"], {}, f"the level {level}")
            request = held(m)
            cli("approvals", "reject", request, "--reason", "no", env=secret).expect(0)
            check("error" in m.ask("tools/call", name="sandbox_create", arguments={}, _meta={"sandboxer/request_id": request, "sandboxer/wait_s": 60}), "it is rejected")
            heard += [(level, request)] if level in ("debug", "notice", "info") else []

        def told():
            m.ask("ping")
            return [x["params"]["data"]["request_id"] for x in m.notes if x.get("method") == "notifications/message"]
        wait_for(lambda: heard[-1][1] in told(), "the last one is told")
        equal(told(), [request for _, request in heard], "what is told, all at notice")


@test(**ONCE)
def a_session_on_http_hears_too(c):
    with Daemon(c) as d, Http(d) as m:
        cli, secret = Client(d), master(d)
        m.begin()
        yes, no = held(m), held(m)
        connection, stream = d.api.open("GET", "/mcp", None, m.web.headers())
        cli("approvals", "approve", yes, env=secret).expect(0)
        cli("approvals", "reject", no, "--reason", "not that host", env=secret).expect(0)
        seen = b""
        while seen.count(b"notifications/message") < 2:
            seen += stream.read1()
        connection.close()
        check(b'"state":"done"' in seen and b"not that host" in seen, f"what was told: {seen}")
        refused = m.ask("tools/call", name="sandbox_create", arguments={}, _meta={"sandboxer/request_id": no})["error"]
        check(refused["code"] == -32000 and "not that host" in refused["message"], f"{refused}")


@test(**ONCE)
def without_a_session_the_outcome_is_asked_for(c):
    with Daemon(c) as d:
        m, cli, secret = Stateless(d), Client(d), master(d)
        request = held(m)
        again = m.ask("tools/call", {"sandboxer/request_id": request}, name="sandbox_create", arguments={})["error"]
        equal(again["data"]["request_id"], request, "while it waits")
        d.kill()
        d.start()
        cli("approvals", "approve", request, env=secret).expect(0)
        made = m.ask("tools/call", {"sandboxer/request_id": request, "sandboxer/wait_s": 60}, name="sandbox_create", arguments={})["result"]
        equal([b["sandbox_id"] for b in m.tool("sandbox_list")["sandboxes"]], [made["structuredContent"]["sandbox_id"]], "what it has")
        with Lines(c, d) as other:
            other.begin()
            for wrong in (request, "req_" + "0" * 20, "x", 7):
                equal(other.ask("tools/call", name="sandbox_create", arguments={}, _meta={"sandboxer/request_id": wrong})["error"]["code"], -32602, f"{wrong} of another")
            check("error" in other.ask("resources/read", uri=f"approval://{request}"), "another's resource")
            equal(other.tool("sandbox_list")["sandboxes"], [], "what another has")


@test(**ONCE)
def what_is_approved_is_within_its_token(c):
    with serving(c) as (d, _, token):
        secret = master(d)
        holder, identity = token("read", "create", role="journeyman", labels={"team": "a"})
        m, again, late = Stateless(d, holder), Stateless(d, token("read", role="journeyman")[0]), held(Stateless(d, holder))
        request = held(m)
        Client(d)("approvals", "approve", request, env=secret).expect(0)
        made = m.ask("tools/call", {"sandboxer/request_id": request, "sandboxer/wait_s": 60}, name="sandbox_create", arguments={})["result"]["structuredContent"]
        equal(d.get(made["sandbox_id"])["labels"]["team"], "a", "the token's label")
        equal([b["sandbox_id"] for b in m.tool("sandbox_list")["sandboxes"]], [made["sandbox_id"]], "what it sees")
        equal(again.tool("sandbox_list")["sandboxes"], [], "what another token sees")
        denied = m.ask("tools/call", name="sandbox_exec", arguments={"sandbox_id": made["sandbox_id"], "command": "true"})["error"]
        check(denied["code"] == -32000 and "does not allow 'exec'" in denied["message"], f"a verb that it has not: {denied}")
        wait_for(lambda: denied["data"]["audit_id"] in [e["detail"].get("audit") for e in events(d, "mcp.refused")], f"under its id: {denied}")
        d.api.delete(f"/v1/tokens/{identity}").expect(200, 204)
        wait_for(lambda: Client(d).json("approvals", "show", late)["state"] == "invalid", "what waits goes with the token")
        Client(d)("approvals", "approve", late, env=secret).expect((3, 4))
        gone(d, made["sandbox_id"])


@test(**ONCE)
def a_grant_is_for_that_host_and_so_many(c):
    with Daemon(c) as d, Lines(c, d) as m:
        cli, secret = Client(d), master(d)
        m.begin()
        cli("approvals", "approve", held(m), "--grant", "10m", "--uses", "1", env=secret).expect(0)
        wait_for(lambda: [s["state"] for s in m.tool("sandbox_list")["sandboxes"]] == ["ready"], "the first is ready")
        held(m, capabilities={"network": ["other.example:443"]})
        held(m, capabilities={"network": True})
        equal(m.tool("sandbox_create", capabilities=NETWORK)["egress_policy"], "enforced", "what was granted")
        held(m)
        box = m.tool("sandbox_list")["sandboxes"][0]["sandbox_id"]
        for box in (s["sandbox_id"] for s in m.tool("sandbox_list")["sandboxes"]):
            equal(m.tool("sandbox_exec", sandbox_id=box, command="echo out")["stdout"], "out\n", "approving the create covers programs in it")
        d.api.request("PUT", f"/v1/sandboxes/{box}/egress", {"allow": ["other.example:443"]}).expect(200)
        request = held(m, "sandbox_exec", sandbox_id=box, command="echo out")  # within another network, it is asked again
        cli("approvals", "approve", request, "--grant", "10m", env=secret).expect(0)
        done = m.ask("tools/call", name="sandbox_exec", arguments={}, _meta={"sandboxer/request_id": request, "sandboxer/wait_s": 60})["result"]
        equal(done["structuredContent"]["stdout"], "out\n", "what was approved")
        equal(m.tool("sandbox_exec", sandbox_id=box, command="echo more")["stdout"], "more\n", "and granted")


@test(**ONCE)
def death_on_the_way_runs_nothing_twice(c):
    with Daemon(c) as d:
        m, cli, secret = Stateless(d), Client(d), master(d)
        for point, state, made in (("trust.approved:1", "done", 1), ("trust.running:1", "interrupted", 0), ("trust.ran:1", "interrupted", 1)):
            before = len(m.tool("sandbox_list")["sandboxes"])
            request = held(m)
            d.stop()
            d.start(SANDBOXER_DIE_AT=point)
            cli("approvals", "approve", request, env=secret)
            d.wait()
            d.start()
            wait_for(lambda: cli.json("approvals", "show", request)["state"] in ("done", "interrupted"), f"{point}: it is told")
            shown = cli.json("approvals", "show", request)
            equal([shown["state"], shown.get("failed", False)], [state, False], f"{point}: its state")
            equal(len(m.tool("sandbox_list")["sandboxes"]) - before, made, f"{point}: how often it ran")
            d.kill()
            d.start()
            cli("approvals", "approve", request, env=secret).expect((3, 4))


# --- refusals ---

def refusals(d):
    return [e for e in d.api.get("/v1/events?limit=1000").expect(200).json["events"]
            if e["type"] in ("mcp.refused", "trust.denied", "trust.rate_limited", "auth.refused", "approval.refused")]


@test(**ONCE)
def every_refusal_is_clear_and_on_record(c):
    for how in TRANSPORTS:
        with Daemon(c, name=how.__name__.strip("<>"), config="limits: {body_bytes: 64KiB}") as d, how(c, d) as m, Lines(c, d) as other:
            m.begin()
            other.begin()
            mine, theirs = m.tool("sandbox_create")["sandbox_id"], other.tool("sandbox_create")["sandbox_id"]
            other.tool("sandbox_write", sandbox_id=theirs, path="/tmp/x", content="theirs")
            before = d.api.get("/v1/sandboxes").json
            for what, name, arguments in (
                    ("unknown tool", "sandbox_nothing", {}),
                    ("no tool", "", {}),
                    ("wrong types", "sandbox_exec", {"sandbox_id": mine, "command": 7}),
                    ("no object", "sandbox_exec", []),
                    ("invalid base64", "sandbox_write", {"sandbox_id": mine, "path": "/tmp/x", "content": "a*==", "encoding": "base64"}),
                    ("path outside", "sandbox_read", {"sandbox_id": mine, "path": "/../../../../../../no/such"}),
                    ("relative path", "sandbox_read", {"sandbox_id": mine, "path": "../x"}),
                    ("newline", "sandbox_write", {"sandbox_id": mine, "path": "/tmp/a\nb", "content": ""}),
                    ("NUL", "sandbox_write", {"sandbox_id": mine, "path": "/tmp/a\0b", "content": ""}),
                    ("another's id", "sandbox_read", {"sandbox_id": theirs, "path": "/tmp/x"}),
                    ("another's id", "sandbox_destroy", {"sandbox_id": theirs}),
                    ("no id", "sandbox_destroy", {"sandbox_id": "../../x"})):
                recorded = len(refusals(d))
                answer = m.ask("tools/call", name=name, arguments=arguments)
                text = answer["error"]["message"] if "error" in answer else answer["result"]["content"][0]["text"]
                check(("error" in answer or answer["result"].get("isError")) and len(text) > 10, f"{what}: {answer}")
                wait_for(lambda: len(refusals(d)) == recorded + 1, f"{what}: an event")
                check(refusals(d)[-1]["reason"], f"{what}: without a reason")
            equal(d.api.get("/v1/sandboxes").json["sandboxes"], before["sandboxes"], "nothing changed")
            equal(other.tool("sandbox_read", sandbox_id=theirs, path="/tmp/x")["content"], "theirs", "nor inside")


@test(**ONCE)
def frames_and_sessions_that_are_none_are_on_record(c):
    with Daemon(c, config="limits: {body_bytes: 64KiB}") as d:
        web = Web(d)
        ping = {"jsonrpc": "2.0", "id": 9, "method": "ping"}

        def recorded(do, what):
            before = len(refusals(d))
            do()
            wait_for(lambda: len(refusals(d)) == before + 1, f"{what}: an event")
        recorded(lambda: web.post(b"{").expect(400), "no JSON")
        recorded(lambda: web.post(b'{"x": "' + b"a" * (80 << 10) + b'"}').expect(413), "too large")
        large = [b'{"x": "', *[b"a" * 8192] * 10, b'"}']  # in chunks, so that nobody knows how large before it is
        recorded(lambda: d.api.request("POST", "/mcp", iter(large), web.headers()).expect(413), "too large in the end")
        recorded(lambda: web.post(ping, Mcp_Session_Id="mcp_" + "a" * 20).expect(404), "a forged session")
        recorded(lambda: d.api.request("GET", "/mcp", None, web.headers(Mcp_Session_Id="mcp_" + "b" * 20)).expect(404), "a forged stream")
        with Lines(c, d) as m:
            m.begin()
            for line in (b"{", b"x" * (80 << 10)):
                recorded(lambda line=line: (m.write(line + b"\n"), equal("error" in m.next(), True, "the answer")), f"{line[:9]!r}")


@test(**ONCE)
def a_token_after_its_end(c):
    with serving(c) as (d, _, token):
        holder, identity = token()
        accept = {"Accept": "application/json, text/event-stream", "Content_Type": "application/json"}

        def ask(session=None, **message):
            more = {"Mcp_Session_Id": session} if session else {}
            return holder.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, **message}, **accept, **more)
        session = ask(method="initialize", params={"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}).expect(200).headers["Mcp-Session-Id"]
        made = ask(session, method="tools/call", params={"name": "sandbox_create", "arguments": {}}).expect(200).json
        d.api.delete(f"/v1/tokens/{identity}").expect(200, 204)
        ask(session, method="ping").expect(401)
        wait_for(lambda: [e for e in refusals(d) if e["type"] == "auth.refused"], "an event")
        gone(d, made["result"]["structuredContent"]["sandbox_id"])


PATHS = """\
version: 1
tools:
  sandbox_create: {tier: 2, effect: write, creates: true}
  sandbox_read: {tier: 1, effect: read, args: {path: {pattern: '%s'}}}
  sandbox_list: {tier: 2, effect: none, role: %s}
"""


@test(**ONCE)
def resources_are_judged_by_what_is_opened(c):
    bundle = c.write("bundle.yaml", PATHS % ("(/[^/]+)+", "journeyman"))
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'}}") as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]

        def read(path):
            return m.ask("resources/read", uri=f"sandbox://{box}/files{path}")
        check(read("/etc/hostname")["result"]["contents"][0]["text"].strip(), "what the pattern lets through")
        check("'..'" in read("/tmp/%2e%2e/etc/hostname")["error"]["message"], "a way around")
        m.refused("sandbox_read", "'..'", sandbox_id=box, path="/tmp/../etc/hostname")
        m.refused("sandbox_read", "'..'", sandbox_id=box, path="/..")
        completion = {"ref": {"type": "ref/resource", "uri": "sandbox://{id}"}, "argument": {"name": "id", "value": ""}}
        equal(m.ask("completion/complete", **completion)["result"]["completion"]["values"], [box], "what there is")
        equal(list(m.ask("resources/subscribe", uri=f"sandbox://{box}/logs")["result"]), ["_meta"], "what may be read")
        c.write("bundle.yaml", PATHS % ("/tmp/[^/]+", "master"))
        d.api.post("/v1/trust/reload", {}).expect(200)
        for path in ("/etc/hostname", "/tmp/..%2fetc%2fhostname", "/%65tc/hostname"):
            equal(read(path)["error"]["data"]["kind"], "deny", path)
        equal(m.ask("resources/list")["error"]["data"]["kind"], "deny", "what sandbox_list would show")
        equal(m.ask("completion/complete", **completion)["error"]["data"]["kind"], "deny", "what may not be listed")
        for rest in ("", "/events", "/logs"):
            equal(m.ask("resources/subscribe", uri=f"sandbox://{box}{rest}")["error"]["data"]["kind"], "deny", f"what may not be read: {rest}")


@test(**ONCE)
def a_gateway_lowers_each_request(c):
    with serving(c, config="gateway: {trust: master}") as (d, _, token):
        gateway, _ = token(role="master", gateway=True)

        def ask(level, session=None, **message):
            more = {"Mcp_Session_Id": session} if session else {}
            return gateway.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, **message}, **ACCEPT, **more, X_Trust_Level=level)
        session = ask("journeyman", method="initialize", params={"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
        session = session.expect(200).headers["Mcp-Session-Id"]
        create = {"method": "tools/call", "params": {"name": "sandbox_create", "arguments": {}}}
        for level in ("journeyman", "master"):
            check("structuredContent" in ask(level, session, **create).expect(200).json["result"], f"as {level}")
        look = {"method": "tools/call", "params": {"name": "sandbox_list", "arguments": {}}}
        for level in ("apprentice", "nonsense"):
            error = ask(level, session, **create).expect(200).json["error"]
            equal([error["code"], error["data"]["kind"]], [-32000, "deny"], f"as {level}: {error}")
            equal(len(ask(level, session, **look).expect(200).json["result"]["structuredContent"]["sandboxes"]), 2, f"what {level} may see")
        # What was asked with more is not told to less.
        network = {"method": "tools/call", "params": {"name": "sandbox_create", "arguments": {"capabilities": NETWORK}}}
        request = ask("journeyman", session, **network).expect(200).json["error"]["data"]["request_id"]
        again = {"method": "tools/call", "params": {**network["params"], "_meta": {"sandboxer/request_id": request}}}
        read = {"method": "resources/read", "params": {"uri": f"approval://{request}"}}
        equal(ask("journeyman", session, **again).json["error"]["data"]["kind"], "require_approval", "who asked")
        check("pending" in ask("journeyman", session, **read).json["result"]["contents"][0]["text"], "who asked, as a resource")
        for what in (again, read):
            equal(ask("apprentice", session, **what).json["error"]["data"]["kind"], "deny", f"who could not have asked: {what}")
        gateway.request("GET", f"/v1/approvals/{request}", None, X_Trust_Level="journeyman").expect(200)
        gateway.request("GET", f"/v1/approvals/{request}", None, X_Trust_Level="apprentice").expect(403)
        # What is no request cannot be judged.
        more = {"Mcp_Session_Id": session, "X_Trust_Level": "apprentice"}
        said = gateway.request("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}, **ACCEPT, **more)
        check("more trust" in said.expect(403).json["error"]["message"], f"a notification: {said}")
        for method in ("GET", "DELETE"):
            gateway.request(method, "/mcp", **ACCEPT, **more).expect(403)
        wait_for(lambda: len([e for e in refusals(d) if "more trust" in e["reason"]]) == 3, "on record")
        check("structuredContent" in ask("journeyman", session, **create).expect(200).json["result"], "the next request's")
        equal(len(d.api.get("/v1/sandboxes").json["sandboxes"]), 3, "what was made")


@test(**ONCE)
def who_lowers_itself_is_judged_by_that(c):
    with Daemon(c) as d, Http(d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        write = {"name": "sandbox_exec", "arguments": {"sandbox_id": box, "command": "echo x"}}
        error = m.web.ask("tools/call", {"X_Trust_Level": "master"}, **write).expect(200).json["error"]  # of no gateway: an apprentice
        check(error["data"]["kind"] == "deny" and "apprentice" in error["message"], f"{error}")
        wait_for(lambda: error["data"]["audit_id"] in [e["detail"].get("audit") for e in refusals(d)], "on record")
        equal(m.web.ask("tools/call", **write).json["result"]["structuredContent"]["stdout"], "x\n", "as itself")
        peer = Peer(d.api)
        head = {"Sandboxer-Peer": peer.token, "X-Trust-Level": "master"}
        said = d.api.request("POST", "/v1/sandboxes", {"capabilities": {"network": ["a.example:443"]}}, head).expect(403).json
        equal([said["kind"], said["rule"]], ["deny", "tools.sandbox_create.when.network.role"], f"over REST: {said}")
        d.api.request("GET", "/v1/sandboxes", None, head).expect(200)
        peer.create()


@test(**ONCE)
def what_is_told_is_bounded(c):
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        fill = "head -c %d /dev/zero | tr '\\0' '\\1'"
        m.tool("sandbox_exec", sandbox_id=box, command=f"{fill % 3000000} > /tmp/large; {fill % 1000000} > /tmp/dense; {fill % 1000} > /tmp/small")
        m.refused("sandbox_read", "head -c", sandbox_id=box, path="/tmp/large")
        m.refused("sandbox_read", "encoding base64", sandbox_id=box, path="/tmp/dense")
        equal(base64.b64decode(m.tool("sandbox_read", sandbox_id=box, path="/tmp/dense", encoding="base64")["content"]), b"\1" * 1000000, "as base64")
        equal(m.tool("sandbox_read", sandbox_id=box, path="/tmp/small")["content"], "\1" * 1000, "a few")
        done = m.tool("sandbox_exec", sandbox_id=box, command=fill % 1000000)
        equal(base64.b64decode(done["stdout_b64"]), b"\1" * 1000000, "of a command")
        read = m.ask("resources/read", uri=f"sandbox://{box}/files/tmp/dense")["result"]["contents"][0]
        equal(base64.b64decode(read["blob"]), b"\1" * 1000000, "as a resource")


@test(**ONCE)
def what_is_taken_is_bounded(c):
    with Daemon(c, config="limits: {body_bytes: 12MiB}") as d:
        for how in TRANSPORTS:
            with how(c, d) as m:
                m.begin()
                box = m.tool("sandbox_create", capabilities={"memory_mb": 128})["sandbox_id"]

                def write(n, box=box, m=m):
                    return m.ask("tools/call", name="sandbox_write", arguments={
                        "sandbox_id": box, "path": "/tmp/x", "content": base64.b64encode(bytes(n)).decode(), "encoding": "base64"})
                equal(write(8 << 20)["result"]["structuredContent"]["bytes"], 8 << 20, "the largest")
                recorded = len(refusals(d))
                said = write((8 << 20) + 1)["result"]
                check(said["isError"] and "decodes to more than the allowed" in said["content"][0]["text"], f"{said}")
                many = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sandbox_list", "arguments": {"x": [0] * 100000}}}
                said = Web(d).post(many).expect(400).json["error"]
                check("more memory" in said["message"], f"many values: {said}")
                wait_for(lambda recorded=recorded: len(refusals(d)) == recorded + 2, "on record")
                equal(m.tool("sandbox_exec", sandbox_id=box, command="wc -c </tmp/x")["stdout"].strip(), str(8 << 20), "what was there stays")


def by_token(port, secret):
    """Of `sandboxer mcp`: over TCP, with a token."""
    return {"SANDBOXER_URL": f"http://127.0.0.1:{port}", "SANDBOXER_TOKEN": secret}


@test(**ONCE)
def a_session_lasts_no_longer_than_its_token(c):
    with serving(c) as (d, port, token):
        short, _ = token(ttl="8s", role="journeyman")
        with Lines(c, d, **by_token(port, short.token)) as m:
            m.begin()
            box = m.tool("sandbox_create")["sandbox_id"]
            head = {**ACCEPT, "Mcp-Session-Id": short.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}, **ACCEPT).expect(200).headers["Mcp-Session-Id"]}
            connection, stream = short.open("GET", "/mcp", None, head)
            check(m.process.wait(60) != 0, "whose token has expired, and is served")
            with contextlib.suppress(http.client.IncompleteRead, ConnectionError):  # it is cut
                stream.read()
            connection.close()
            gone(d, box)
            wait_for(lambda: [e["reason"] for e in events(d, "peer.ended")] == ["its token expired"] * 2, f"on record: {events(d, 'peer.ended')}")
            short.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 2, "method": "ping"}, **head).expect(401)


@test(**ONCE)
def a_line_whose_token_ended_before_it_said_who_it_is(c):
    with serving(c) as (d, port, token):
        holder, identity = token(role="journeyman")
        with Lines(c, d, **by_token(port, holder.token)) as m:
            equal(m.ask("ping")["result"], {}, "it is there")
            d.api.delete(f"/v1/tokens/{identity}").expect(200, 204)
            equal(m.heard.get(timeout=60), None, "the line ends with its token")
            equal(peers(d), [], "who is there")


@test(**ONCE)
def what_background_processes_wrote_is_a_resource(c):
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        equal(m.ask("resources/read", uri=f"sandbox://{box}/logs")["result"]["contents"][0]["text"], "", "without any")
        for script in ("echo one; echo two >&2", "printf three; sleep 7777"):
            Client(d).spawn(box, script)

        def read():
            return m.ask("resources/read", uri=f"sandbox://{box}/logs")["result"]["contents"][0]["text"]
        wait_for(lambda: all(word in read() for word in ("one\n", "two\n", "three")), "what they wrote")
        equal(read().count("==> process "), 2, f"whose it is: {read()}")


main()
