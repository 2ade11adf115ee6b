#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Tokens on TCP: who may do what, and what a web page may not."""

import contextlib
import json
import os
import socket
import subprocess
import threading

from client import Client
from harness import PLAIN, check, equal, main, test, wait_for
from tcp import EVERYTHING, Tcp, serving


@test
def without_a_token_there_is_nothing(c):
    with serving(c) as (_, port, token):
        for path in ("/v1/sandboxes", "/v1/profiles", "/v1/events", "/v1/tokens", "/metrics"):
            answer = Tcp(port).get(path).expect(401, code="unauthenticated")
            check("WWW-Authenticate" in answer.headers, f"{path}: no WWW-Authenticate")
        good, _ = token()
        good.get("/v1/sandboxes").expect(200)
        for wrong in ("sbt_wrong", good.token[:-1], good.token + "x", good.token.upper(), ""):
            Tcp(port).get("/v1/sandboxes", Authorization=f"Bearer {wrong}").expect(401)
        Tcp(port).get("/v1/sandboxes", Authorization=f"Basic {good.token}").expect(401)
        Tcp(port).get(f"/v1/sandboxes?token={good.token}").expect(401)
        Tcp(port).get("/healthz").expect(200)


@test
def verbs_are_kept_to(c):
    with serving(c) as (d, _, token):
        box = d.create()
        needs = {
            "read": [("GET", f"/v1/sandboxes/{box}", None), ("GET", "/v1/events", None)],
            "create": [("POST", "/v1/sandboxes", {})],
            "exec": [("POST", f"/v1/sandboxes/{box}/processes", {"argv": ["true"]})],
            "files": [("GET", f"/v1/sandboxes/{box}/files?path=/etc/passwd", None)],
            "extend": [("POST", f"/v1/sandboxes/{box}/extend-ttl", {"duration": "11m"})],
            "admin": [("GET", "/v1/tokens", None), ("GET", "/v1/backup", None), ("GET", "/metrics", None)],
            "destroy": [("DELETE", f"/v1/sandboxes/{box}", None)],
        }
        for verb, requests in needs.items():
            others, _ = token(*(v for v in EVERYTHING if v != verb))
            for request in requests:
                others.request(*request).expect(403, code="denied")
        for verb, requests in needs.items():
            alone, _ = token(verb)
            for request in requests:
                alone.request(*request).expect(200, 201)


@test
def labels_bind_what_a_token_sees_and_makes(c):
    with serving(c) as (d, _, token):
        theirs, ours = d.create(labels={"team": "b"}), d.create(labels={"team": "a", "x": "y"})
        bound, _ = token(labels={"team": "a"})
        equal([s["sandbox_id"] for s in bound.get("/v1/sandboxes").expect(200).json["sandboxes"]], [ours], "list")
        for request in (("GET", f"/v1/sandboxes/{theirs}"), ("DELETE", f"/v1/sandboxes/{theirs}"),
                        ("GET", f"/v1/sandboxes/{theirs}/events"), ("GET", f"/v1/sandboxes/{theirs}/files?path=/")):
            bound.request(*request).expect(404, code="not_found")
        made = bound.post("/v1/sandboxes", {}).expect(201).json
        equal(made["labels"], {"team": "a"}, "labels of what it makes")
        bound.post("/v1/sandboxes", {"labels": {"team": "b"}}).expect(403)
        for path, boxes in (("/v1/events?limit=1000", {ours, made["sandbox_id"]}), (f"/v1/sandboxes/{ours}/events", {ours})):
            equal({e.get("sandbox_id") for e in bound.get(path).expect(200).json["events"]}, boxes, path)
        bound.post("/v1/tokens", {"name": "wider", "verbs": ["read"]}).expect(403)
        equal(d.get(theirs)["state"], "ready", "the other's sandbox")


@test
def tokens_end(c):
    with serving(c) as (d, _, token):
        short, _ = token("read", ttl="1s")
        wait_for(lambda: short.get("/v1/sandboxes").status == 401, "it expires")
        good, which = token("read")
        good.get("/v1/sandboxes").expect(200)
        d.stop()
        d.start(args=("--listen", f"127.0.0.1:{good.port}"))
        good.get("/v1/sandboxes").expect(200)
        d.api.delete(f"/v1/tokens/{which}").expect(204)
        good.get("/v1/sandboxes").expect(401)
        types = [e["type"] for e in d.api.get("/v1/events?limit=1000").json["events"]]
        check("token.created" in types and "token.revoked" in types, f"events: {types}")


def rest_of(connection):
    """What still comes, until the other side closes or resets."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            got += piece
    return got


def connected(api, method, path, *fields, body=None, until=b"\r\n\r\n"):
    """A connection with this request, when the answer has come so far."""
    data = b"" if body is None else json.dumps(body).encode()
    s = socket.create_connection(("127.0.0.1", api.port), timeout=60)
    s.sendall("\r\n".join([f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{api.port}", f"Authorization: Bearer {api.token}",
                           *([f"Content-Length: {len(data)}"] if data else []), *fields, "", ""]).encode() + data)
    got = b""
    while until not in got:
        piece = s.recv(65536)
        check(piece, f"{path} ended: {got}")
        got += piece
    return s, got


def upgraded(api, path, protocol, *more):
    s, got = connected(api, "GET", path, "Connection: Upgrade", f"Upgrade: {protocol}", *more)
    check(got.startswith(b"HTTP/1.1 101"), f"{path}: {got}")
    return s


def frame(op, data):
    return bytes([0x80 | op, 0x80 | len(data)]) + bytes(4) + data


@test
def what_a_token_has_open_ends_with_it(c):
    with serving(c) as (d, _, token):
        (doomed, which), (other, _) = token(), token()
        box = doomed.post("/v1/sandboxes", {}).expect(201).json["sandbox_id"]
        path = f"/v1/sandboxes/{box}"
        n = doomed.post(f"{path}/processes", {"argv": ["sh", "-c", "while :; do echo x; sleep 1; done"], "background": True}).expect(201).json["process"]
        forever = {"argv": ["sh", "-c", "echo begun; exec sleep 1000"]}
        web = ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")
        shell = upgraded(doomed, f"{path}/processes/new", "websocket", *web)
        shell.sendall(frame(1, json.dumps({"argv": ["cat"], "stdin": True}).encode()))
        check(b"started" in shell.recv(65536), "the terminal's program")
        open_ = {"an event stream": connected(doomed, "GET", "/v1/events", "Accept: text/event-stream", until=b":\n\n")[0],
                 "a program": connected(doomed, "POST", f"{path}/processes", body=forever, until=b"begun")[0],
                 "a followed log": connected(doomed, "GET", f"{path}/logs?process={n}&follow=true", until=b"x")[0],
                 "a terminal": shell,
                 "a stream of MCP": connected(doomed, "POST", "/mcp", "Accept: application/json, text/event-stream", "Content-Type: application/json",
                                              body={"jsonrpc": "2.0", "id": 1, "method": "initialize",
                                                    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}})[0],
                 "nothing": connected(doomed, "GET", "/v1/sandboxes", until=b"sandboxes")[0]}
        waits = threading.Thread(target=lambda: polled.append(doomed.get("/v1/events?after=1000000&wait=60")))
        polled = []
        waits.start()
        stays, _ = connected(other, "GET", "/v1/events", "Accept: text/event-stream", until=b":\n\n")
        wait_for(lambda: d.api.get(f"{path}/processes").json["processes"], "the programs run")
        d.api.delete(f"/v1/tokens/{which}").expect(204)
        last = {name: rest_of(s) for name, s in open_.items()}
        for name in ("an event stream", "a program"):
            check(b"the token was revoked or has expired" in last[name], f"the last word of {name}: {last[name][-300:]}")
        check(b"\x88" in last["a terminal"] and b"revoked" in last["a terminal"], f"the last word of a terminal: {last['a terminal']}")
        waits.join()
        check(polled[0].status in (200, 401), f"a poll: {polled[0]}")
        made = other.post("/v1/sandboxes", {}).expect(201).json["sandbox_id"]
        got = b""
        while made.encode() not in got:
            got += stays.recv(65536)
        check(made.encode() not in last["an event stream"], "no later event")
        processes = d.api.get(f"{path}/processes").expect(200).json["processes"]
        equal([p["state"] for p in processes if p["process"] == n], ["running"], "what was started in the background")
        wait_for(lambda: b"sleep 1000" not in other.post(f"{path}/processes", {"argv": ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]},
                                                         Accept="application/json").data, "a program in the foreground ends, as if its client had left")
        for s in (*open_.values(), stays):
            s.close()


@test
def what_a_token_has_open_ends_when_it_expires(c):
    with serving(c) as (_, __, token):
        for ttl in ("2s", "10s", "60s"):  # however slow the machine is
            short, _ = token("read", ttl=ttl)
            connection, response = short.open("GET", "/v1/events", headers={"Accept": "text/event-stream"}.items())
            if response.status == 200:
                break
            connection.close()
        check(b"the token was revoked or has expired" in response.read(), "the last word")
        connection.close()
        short.get("/v1/sandboxes").expect(401)


@test
def a_token_may_revoke_itself(c):
    with serving(c) as (_, __, token):
        own, which = token()
        own.delete(f"/v1/tokens/{which}").expect(204)
        own.get("/v1/sandboxes").expect(401)


@test
def a_token_made_by_a_token_ends_with_it(c):
    with serving(c) as (d, port, token):
        maker, which = token(ttl="1h")
        made = maker.post("/v1/tokens", {"name": "child", "verbs": ["read", "admin"], "ttl": "300d"}).expect(201).json
        equal((made["maker"], made["expires_at"]), (which, d.api.get("/v1/tokens").json["tokens"][0]["expires_at"]), "its maker, and its maker's time")
        below = Tcp(port, made["token"]).post("/v1/tokens", {"name": "grandchild", "verbs": ["read"]}).expect(201).json
        d.stop()
        d.start(args=("--listen", f"127.0.0.1:{port}"))
        for secret in (made["token"], below["token"]):
            Tcp(port, secret).get("/v1/sandboxes").expect(200)
        d.api.delete(f"/v1/tokens/{which}").expect(204)
        for secret in (maker.token, made["token"], below["token"]):
            Tcp(port, secret).get("/v1/sandboxes").expect(401)
        revoked = [e["detail"]["token"] for e in d.api.get("/v1/events?limit=1000").json["events"] if e["type"] == "token.revoked"]
        equal(sorted(revoked), sorted([which, made["id"], below["id"]]), "what is on record")


@test
def a_token_makes_none_that_may_more(c):
    with serving(c) as (_, __, token):
        weak, _ = token("admin", "read")
        weak.post("/v1/tokens", {"name": "x", "verbs": ["destroy"]}).expect(403, code="denied")
        weak.post("/v1/tokens", {"name": "x", "verbs": ["read"]}).expect(201)


@test(only="root", because="other users reach only root's daemon")
def what_others_own_looks_like_nothing(c):
    with serving(c, "socket: {mode: \"0666\"}") as (d, port, token):
        os.chmod(d.dir, 0o755)
        roots = d.create()
        as_other = {"user": PLAIN, "group": PLAIN, "extra_groups": [], "env": {**c.environment, **Client(d).env},
                    "capture_output": True, "check": False, "cwd": "/"}

        def other(*argv):
            return subprocess.run([c.program(), *argv], **as_other)
        made = other("create", "-q")
        equal(made.returncode, 0, f"create by another user ({made.stderr})")
        box = made.stdout.decode().strip()
        equal(d.get(box)["owner"], f"uid:{PLAIN}", "owner")
        equal(other("list", "-q").stdout.decode().split(), [box], "list")
        for argv in (("get", roots), ("exec", roots, "--", "true"), ("destroy", roots), ("logs", roots), ("recreate", roots),
                     ("cp", f"{roots}:/etc/passwd", "-"), ("extend-ttl", roots, "-d", "1m"), ("events", roots)):
            result = other(*argv)
            check(result.returncode in (3, 125) and b"not_found" in result.stderr, f"{argv}: {result}")
            unknown = other(argv[0], *(x.replace(roots, "sbx_" + "0" * 20) for x in argv[1:]))
            equal(result.stderr.replace(roots.encode(), b"ID"), unknown.stderr.replace(b"sbx_" + b"0" * 20, b"ID"),
                  f"how {argv[0]} speaks of another's and of nothing")
        equal(other("get", roots[:6]).returncode, 3, "by a prefix")
        equal(Client(d)("get", box[:12]).code, 3, "another's by a prefix, to an administrator")
        Client(d)("get", box).expect(0)
        for argv in (("backup", "-"), ("token", "create", "x", "--gateway"), ("inspect", "stale"), ("hosts", "add", "a", "b")):
            equal(other(*argv).returncode, 5, f"{argv} by somebody who is no administrator")
        secret = other("token", "create", "-q", "mine").stdout.decode().strip()
        if secret:
            Tcp(port, secret).get(f"/v1/sandboxes/{roots}").expect(404)
        equal(d.get(roots)["state"], "ready", "root's sandbox")


@test(only="root", because="other users reach only root's daemon")
def an_owner_has_no_more_than_its_share(c):
    with serving(c, "socket: {mode: \"0666\"}\nlimits: {sandboxes_per_owner: 2}") as (d, _, token):
        os.chmod(d.dir, 0o755)

        def other():
            return subprocess.run([c.program(), "create", "-q"], user=PLAIN, group=PLAIN, extra_groups=[], cwd="/",
                                  env={**c.environment, **Client(d).env}, capture_output=True, check=False)
        one, two = token(*EVERYTHING)[0], token()[0]
        first, by_token = d.create(), one.post("/v1/sandboxes").expect(201).json["sandbox_id"]
        equal(d.get(by_token)["owner"], d.get(first)["owner"], "whose a token's sandbox is")
        made = Tcp(one.port, one.post("/v1/tokens", {"name": "made", "verbs": EVERYTHING}).expect(201).json["token"])
        second = made.post("/v1/sandboxes").expect(201).json["sandbox_id"]
        for api in (one, made):  # a family of root's tokens has what an owner has, also with the verb admin
            api.post("/v1/sandboxes").expect(429, code="quota")
        equal([two.post("/v1/sandboxes").status for _ in range(3)], [201, 201, 429], "how creates with another token of root's end")
        for _ in range(3):  # root on the unix socket is exempt
            d.create()
        equal([other().returncode for _ in range(3)], [0, 0, 6], "how another user's creates end")
        second = made.post(f"/v1/sandboxes/{second}/recreate").expect(201).json["sandbox_id"]  # takes the place of another
        one.delete(f"/v1/sandboxes/{second}").expect(200, 202, 204)
        made.post("/v1/sandboxes").expect(201)
        d.kill()
        d.start(args=("--listen", f"127.0.0.1:{one.port}"))
        one.post("/v1/sandboxes").expect(429, code="quota")
        d.create()
        equal(other().returncode, 6, "how another user's create ends after a restart")


@test(only="root", because="other users reach only root's daemon")
def a_family_of_tokens_decides_nothing_that_it_asked_for(c):
    """Whoever may make tokens could have one ask and another approve."""
    with serving(c, f"socket: {{mode: \"0666\"}}\ntrust: {{masters: ['{PLAIN}']}}") as (d, port, token):
        os.chmod(d.dir, 0o755)

        def by_user(name):
            made = subprocess.run([c.program(), "token", "create", "-q", name, "--role", "master", *(f"--verb={verb}" for verb in EVERYTHING)],
                                  user=PLAIN, group=PLAIN, extra_groups=[], cwd="/", env={**c.environment, **Client(d).env}, capture_output=True, check=True)
            return Tcp(port, made.stdout.decode().strip())

        def child(api, role):
            return Tcp(port, api.post("/v1/tokens", {"name": role, "verbs": EVERYTHING, "role": role}).expect(201).json["token"])

        def held(api):
            got = api.post("/v1/sandboxes", {"capabilities": {"network": ["later.example:443"]}}).expect(403)
            equal(got.json.get("kind"), "require_approval", f"the answer: {got}")
            return f"/v1/approvals/{got.json['request_id']}/approve"
        boss, other = by_user("boss"), by_user("other")
        agent, sibling = child(boss, "journeyman"), child(boss, "master")
        for asks, decide in ((agent, (boss, sibling)), (child(agent, "journeyman"), (boss, sibling)), (boss, (sibling, child(sibling, "master")))):
            path = held(asks)
            for master in decide:
                got = master.post(path).expect(403, code="denied")
                check("family" in got.json["detail"], f"why: {got}")
            other.post(path).expect(200)
        admin = token(*EVERYTHING, role="master")[0]
        admin.post(held(Tcp(port, admin.post("/v1/tokens", {"name": "x", "verbs": ["read", "create"], "role": "journeyman"}).expect(201).json["token"]))).expect(200)
        # What was approved is made now; only what is there can be destroyed at the end.
        wait_for(lambda: [x["state"] for x in d.api.get("/v1/sandboxes").json["sandboxes"]] == ["ready"] * 4, "what was approved is made")


@test(only="root", because="other users reach only root's daemon")
def limits_of_a_token_hold_for_all_that_it_makes(c):
    with serving(c, "socket: {mode: \"0666\"}") as (d, port, _):
        os.chmod(d.dir, 0o755)
        made = subprocess.run([c.program(), "token", "create", "-q", "first", "--limit", "concurrent=3", *(f"--verb={verb}" for verb in EVERYTHING)],
                              user=PLAIN, group=PLAIN, extra_groups=[], cwd="/", env={**c.environment, **Client(d).env}, capture_output=True, check=True)
        first = Tcp(port, made.stdout.decode().strip())

        def child(api):
            return api.post("/v1/tokens", {"name": "x", "verbs": EVERYTHING})
        one, two = (Tcp(port, child(first).expect(201).json["token"]) for _ in range(2))
        below = Tcp(port, child(two).expect(201).json["token"])
        box = one.post("/v1/sandboxes").expect(201).json["sandbox_id"]
        two.post("/v1/sandboxes").expect(201)
        below.post("/v1/sandboxes").expect(201)
        for api in (first, one, two, below):
            got = api.post("/v1/sandboxes").expect(429)
            check("limits.concurrent" in json.dumps(got.json), f"what is at its limit: {got}")
        one.delete(f"/v1/sandboxes/{box}").expect(200, 202, 204)
        wait_for(lambda: below.post("/v1/sandboxes").status == 201, "there is room again")
        for _ in range(5):
            below = Tcp(port, child(below).expect(201).json["token"])
        child(below).expect(429, code="quota")


@test
def a_web_page_cannot_reach_it(c):
    with serving(c) as (d, port, token):
        good, _ = token()
        good.get("/v1/sandboxes", Host=f"127.0.0.1:{port}").expect(200)
        good.get("/v1/sandboxes", Host=f"localhost:{port}").expect(200)
        good.get("/v1/sandboxes", Host=f"localhost:{port}", Origin=f"http://localhost:{port}").expect(200)
        for host in (f"evil.example:{port}", "localhost:1", "127.0.0.1", f"127.0.0.1.evil.example:{port}", f"[::1]:{port}"):
            good.get("/v1/sandboxes", Host=host).expect(403, 400)
            Tcp(port).get("/healthz", Host=host).expect(403, 400)
        for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", f"http://127.0.0.1:{port}.evil.example"):
            good.get("/v1/sandboxes", Origin=origin).expect(403)
            Tcp(port).get("/openapi.json", Origin=origin).expect(403)
        check("Access-Control-Allow-Origin" not in good.get("/v1/sandboxes").headers, "it lets other origins read")
        equal(len(d.list()), 0, "sandboxes")


@test
def trust_is_only_lowered_and_only_by_a_gateway(c):
    with serving(c, "gateway: {trust: journeyman}") as (_, __, token):
        plain, _ = token()
        gate, _ = token(gateway=True)
        # Ignored from anybody else, who is then an untrusted caller: it makes no tokens.
        box = plain.post("/v1/sandboxes", {}, X_Trust_Level="master").expect(201).json["sandbox_id"]
        plain.post("/v1/tokens", {"name": "x", "verbs": ["read"]}, X_Trust_Level="master").expect(403)
        plain.post("/v1/tokens", {"name": "x", "verbs": ["read"]}).expect(201)
        # A gateway's word lowers, up to what the configuration gives it.
        gate.get("/v1/sandboxes", X_Trust_Level="apprentice").expect(200)
        gate.post("/v1/sandboxes", {}, X_Trust_Level="apprentice").expect(403)
        gate.post("/v1/sandboxes", {}, X_Trust_Level="no such level").expect(403)
        gate.post(f"/v1/sandboxes/{box}/processes", {"argv": ["true"]}, X_Trust_Level="journeyman").expect(200)
        gate.delete(f"/v1/sandboxes/{box}", X_Trust_Level="journeyman").expect(403)
        gate.delete(f"/v1/sandboxes/{box}", X_Trust_Level="master").expect(403)
        gate.get("/v1/tokens", X_Trust_Level="master").expect(403)
        gate.delete(f"/v1/sandboxes/{box}").expect(200)


@test
def the_command_line_works_by_token(c):
    with serving(c) as (d, port, token):
        good, _ = token(labels={"team": "a"})
        cli = Client(d, SANDBOXER_URL=f"http://127.0.0.1:{port}", SANDBOXER_TOKEN=good.token)
        box = cli.create()
        cli.sh(box, "cat; echo err >&2; exit 3", "-i", stdin=b"over tcp\n").expect(3, out=b"over tcp\n", err=b"err\n")
        cli("exec", box, "--", "no-such-program").expect(
            127, err=f"sandboxer: exec: {box}: step program: no-such-program: No such file or directory (not_found)\n".encode())
        c.write("file", "content")
        cli("cp", "file", f"{box}:/tmp/file").expect(0)
        cli("cp", f"{box}:/tmp/file", "back").expect(0)
        equal((c.dir / "back").read_bytes(), b"content", "the file that came back")
        n = cli.spawn(box, "echo hello")
        wait_for(lambda: cli("logs", box).out == b"hello\n", "logs")
        cli("attach", box, n).expect(0, out=b"hello\n")
        cli("destroy", box).expect(0)
        Client(d, SANDBOXER_URL=f"http://127.0.0.1:{port}")("list").expect((1, 5, 125), says="token")


main()
