#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Tenants of one daemon: two owners, two labels of one owner, an agent's token and a client without one. None of them sees, ends, delays,
fills or starves what belongs to another."""

import contextlib
import http.server
import os
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

from client import Client
from daemon import Daemon
from harness import BUILD, PLAIN, check, equal, main, test, wait_for
from tcp import EVERYTHING, Tcp, free_port, serving

NOBODY = PLAIN + 1
ONLY_ROOT = {"only": "root", "because": "other users reach only root's daemon"}
REFUSED = (401, 403, 404)
USUAL = [verb for verb in EVERYTHING if verb != "admin"]


class Tenant:
    """The holder of a token, and everything that belongs to it."""

    def __init__(self, name, api):
        self.name, self.api, self.labels = name, api, {}
        self.box = self.snapshot = self.peer = self.token_id = None

    def settle(self):
        """Makes one record of every kind."""
        self.box = self.api.post("/v1/sandboxes", {"env": {"SECRET": f"of-{self.name}"}}).expect(201).json["sandbox_id"]
        self.api.post(f"/v1/sandboxes/{self.box}/processes", {"argv": ["sh", "-c", f"echo output-of-{self.name}; sleep 600"], "background": True}).expect(201)
        self.api.request("PUT", f"/v1/sandboxes/{self.box}/files?path=/tmp/mine", {"of": self.name}).expect(204)
        self.snapshot = self.api.post(f"/v1/sandboxes/{self.box}/snapshot", {"name": f"of-{self.name}"}).expect(201).json["snapshot_id"]
        self.peer = self.api.post("/v1/peers", {"client": f"client-of-{self.name}"}).expect(201).json["id"]

    def questions(self):
        """Requests by which another could see or change what is this tenant's."""
        box = f"/v1/sandboxes/{self.box}"
        return [("GET", box), ("GET", f"{box}/events"), ("GET", f"{box}/processes"), ("GET", f"{box}/processes/1"), ("GET", f"{box}/processes/1/logs"),
                ("GET", f"{box}/logs"), ("GET", f"{box}/files?path=/tmp/mine"), ("GET", f"{box}/egress"), ("GET", f"{box}/ports/80"),
                ("PUT", f"{box}/files?path=/tmp/x", {}), ("POST", f"{box}/processes", {"argv": ["true"]}), ("POST", f"{box}/processes/1/signal", {"signal": "KILL"}),
                ("POST", f"{box}/extend-ttl", {"duration": "20m"}), ("POST", f"{box}/pause"), ("POST", f"{box}/snapshot", {}), ("POST", f"{box}/fork", {}),
                ("POST", f"{box}/recreate"), ("PUT", f"{box}/egress", {"allow": []}), ("PUT", f"{box}/labels", {"labels": {"a": "b"}}),
                ("POST", f"{box}/undo", {}), ("DELETE", box),
                ("GET", f"/v1/snapshots/{self.snapshot}"), ("GET", f"/v1/snapshots/{self.snapshot}/export"), ("POST", "/v1/sandboxes", {"snapshot": self.snapshot}),
                ("DELETE", f"/v1/snapshots/{self.snapshot}"), ("POST", f"/v1/peers/{self.peer}/heartbeat"),
                ("DELETE", f"/v1/peers/{self.peer}"), ("DELETE", f"/v1/tokens/{self.token_id}"), ("GET", f"/sandboxes/{self.box}"), ("DELETE", f"/sandboxes/{self.box}"),
                ("GET", f"/daytona/sandbox/{self.box}"), ("DELETE", f"/daytona/sandbox/{self.box}")]


LISTS = ("/v1/sandboxes", "/v1/snapshots", "/v1/peers", "/v1/approvals?all=true", "/v1/events?limit=1000", "/v1/tokens", "/v2/sandboxes", "/daytona/sandbox")


def as_user(c, d, uid, *argv):
    done = subprocess.run([c.program(), *argv], user=uid, group=uid, extra_groups=[], env={**c.environment, **Client(d).env}, capture_output=True,
                          check=False, cwd="/")
    equal(done.returncode, 0, f"{argv} by uid {uid} ({done.stderr})")
    return done.stdout.decode().strip()


@contextlib.contextmanager
def tenants(c, config=""):
    with serving(c, 'socket: {mode: "0666"}\n' + config) as (d, port, token):
        os.chmod(d.dir, 0o755)
        people = [Tenant("one", Tcp(port, as_user(c, d, PLAIN, "token", "create", "-q", "one"))),
                  Tenant("two", Tcp(port, as_user(c, d, NOBODY, "token", "create", "-q", "two"))),
                  *(Tenant(name, token(*USUAL, name=name, **more)[0])
                    for name, more in (("red", {"labels": {"team": "red"}}), ("blue", {"labels": {"team": "blue"}}),
                                       ("agent", {"labels": {"agent": "x"}, "actor": "agt", "role": "journeyman"})))]
        ids = {t["name"]: t["id"] for t in d.api.get("/v1/tokens").expect(200).json["tokens"]}
        for tenant in people:
            tenant.token_id = ids[tenant.name]
        yield d, port, people


@test(**ONLY_ROOT)
def none_sees_or_ends_what_is_anothers(c):
    with tenants(c) as (d, port, people):
        for tenant in people:
            tenant.settle()
        everybody = [*people, Tenant("nobody", Tcp(port))]
        for who in everybody:  # before anybody asks: a refusal on record names what the caller named
            for path in LISTS:
                got = who.api.get(path)
                check(got.status in (200, *REFUSED), f"{who.name} lists {path}: {got}")
                for other in people:
                    if who is not other:
                        for mark in (other.box, other.snapshot, other.peer, f"of-{other.name}"):
                            check(mark.encode() not in got.data, f"{who.name} sees {mark} in {path}")
        for who in everybody:
            for other in people:
                if who is other:
                    continue
                for question in other.questions():
                    got = who.api.request(*question)
                    check(got.status in REFUSED, f"{who.name} asks {question} of {other.name}: {got}")
                    check(f"of-{other.name}".encode() not in got.data, f"{who.name} learns from {question}: {got}")
        for tenant in people:
            equal(tenant.api.get(f"/v1/sandboxes/{tenant.box}").expect(200).json["state"], "active", f"the sandbox of {tenant.name}")
            tenant.api.get(f"/v1/snapshots/{tenant.snapshot}").expect(200)
            check(tenant.peer in [p["id"] for p in tenant.api.get("/v1/peers").expect(200).json["peers"]], f"the peer of {tenant.name}")
            equal([p["state"] for p in tenant.api.get(f"/v1/sandboxes/{tenant.box}/processes").expect(200).json["processes"]], ["running"], "its process")



@test(**ONLY_ROOT)
def nobody_counts_as_another(c):
    """The label that binds a sandbox to its session is the daemon's alone: limits count by who made it."""
    with tenants(c) as (d, port, people):
        low, victim = (Tcp(port, as_user(c, d, PLAIN, "token", "create", "-q", name, "--limit", "concurrent=2")) for name in ("low", "victim"))
        victim_id = next(t["id"] for t in d.api.get("/v1/tokens").expect(200).json["tokens"] if t["name"] == "victim")
        profile = d.get(d.create())["profile"]
        session = victim.post("/v1/peers", {"client": "x"}).expect(201).json
        for label in (victim_id, session["id"], "anything"):
            low.post("/v1/sandboxes", {"labels": {"peer": label}}).expect(403, code="denied")
            as_tenant = people[0].api.post("/v1/tokens", {"name": "x", "verbs": ["read"], "labels": {"peer": label}})
            check(as_tenant.status == 403, f"a token with such a label: {as_tenant}")
        boxes = [low.request("POST", "/sandboxes", {"templateID": profile, "metadata": {"peer": victim_id}}, X_API_Key=low.token) for _ in range(3)]
        equal([b.status for b in boxes], [201, 201, 429], f"as many as the token may have ({boxes[-1]})")
        equal(low.request("GET", f"/sandboxes/{boxes[0].json['sandboxID']}", X_API_Key=low.token).expect(200).json["metadata"], {"peer": victim_id}, "metadata come back")
        mine = [victim.post("/v1/sandboxes", {}, Sandboxer_Peer=session["token"]).expect(201).json for _ in range(2)]
        victim.post("/v1/sandboxes", {}).expect(429)
        box = mine[0]["sandbox_id"]
        equal(mine[0]["labels"], {"peer": session["id"]}, "the session's label")
        for path in (f"/daytona/sandbox/{box}/labels", f"/v1/sandboxes/{box}/labels"):
            victim.request("PUT", path, {"labels": {"a": path}}).expect(200)
            equal(d.get(box)["labels"], {"a": path, "peer": session["id"]}, "labels after they were set")
        victim.delete(f"/v1/peers/{session['id']}").expect(200, 204)
        for one in mine:
            wait_for(lambda one=one: d.get(one["sandbox_id"])["state"] == "destroyed", "it ends with its session")
        for tenant in boxes[:2]:
            low.delete(f"/v1/sandboxes/{tenant.json['sandboxID']}")


def build(api, name):
    """A template of E2B's interface: its id."""
    made = api.post("/v3/templates", {"name": name}, X_API_KEY=api.token).expect(202).json
    place = f"/templates/{made['templateID']}/builds/{made['buildID']}"
    api.post(f"/v2{place}", {"fromTemplate": "base", "steps": []}, X_API_KEY=api.token).expect(202)
    state = lambda: api.get(f"{place}/status", X_API_KEY=api.token).expect(200).json
    wait_for(lambda: state()["status"] in ("ready", "error"), "the build ends")
    equal(state()["status"], "ready", f"{state()}")
    return made["templateID"]


@test(**ONLY_ROOT)
def names_of_other_owners_mean_nothing(c):
    """An administrator sees the snapshots of all owners, but no owner can choose a name that has one use its files."""
    c.write("daemon/profiles/base.yaml", (BUILD / "profiles" / "base.yaml").read_bytes())
    with serving(c, 'socket: {mode: "0666"}\n') as (d, port, token):
        os.chmod(d.dir, 0o755)
        root, tenant = token(name="root")[0], Tcp(port, as_user(c, d, PLAIN, "token", "create", "-q", "one"))
        box = tenant.post("/v1/sandboxes", {"labels": {"daytona/name": "web"}}).expect(201).json["sandbox_id"]  # the label of Daytona's names
        equal(tenant.get("/daytona/sandbox/web").expect(200).json["id"], box, "its own, by a name")
        theirs = tenant.post(f"/v1/sandboxes/{box}/snapshot", {"name": "tool"}).expect(201).json["snapshot_id"]
        template = build(tenant, "kit")

        def of_e2b(method, path, body=None):
            return root.request(method, path, body, X_API_KEY=root.token)
        for api in (root, d.api):
            for question in (("GET", "/v1/snapshots/tool"), ("GET", "/v1/snapshots/tool/export"), ("DELETE", "/v1/snapshots/tool"),
                             ("GET", f"/v1/sandboxes/{box}/diff?snapshot=tool"), ("POST", "/v1/sandboxes", {"snapshot": "tool"})):
                check((got := api.request(*question)).status == 404, f"{question}: {got}")
            check(theirs in [s["snapshot_id"] for s in api.get("/v1/snapshots").expect(200).json["snapshots"]], "the list of an administrator")
            equal(api.get(f"/v1/snapshots/{theirs}").expect(200).json["name"], "tool", "by its id")
        for path in ("snapshots/tool", "sandbox/web"):
            root.get(f"/daytona/{path}").expect(404)
        for question in (("POST", "/v2/sandboxes", {"templateID": "kit"}), ("POST", "/v2/sandboxes", {"templateID": "tool"}), ("DELETE", "/templates/kit"), ("GET", "/templates/aliases/kit")):
            check((got := of_e2b(*question)).status == 404, f"{question}: {got}")
        of_e2b("DELETE", f"/sandboxes/{of_e2b('POST', '/v2/sandboxes', {'templateID': template}).expect(201).json['sandboxID']}").expect(204)
        check(build(root, "kit") != template, "a build has taken the template of another owner")
        mine = d.api.post(f"/v1/sandboxes/{d.create()}/snapshot", {"name": "tool"}).expect(201).json["snapshot_id"]
        last = tenant.post(f"/v1/sandboxes/{box}/snapshot", {"name": "tool"}).expect(201).json["snapshot_id"]
        equal([root.get("/v1/snapshots/tool").json["snapshot_id"], tenant.get("/v1/snapshots/tool").json["snapshot_id"]], [mine, last], "each its own")
        d.api.delete("/v1/snapshots/tool").expect(204)
        tenant.get(f"/v1/snapshots/{theirs}").expect(200)
        tenant.post("/v2/sandboxes", {"templateID": "kit"}, X_API_KEY=tenant.token).expect(201)


# ---- filling, delaying, starving ----

BOTH, AGENT = PLAIN + 2, PLAIN + 3  # the owner of two labels; the owner of an agent's token
ROUNDS = 2
SHARES = """limits: {connections: 128, connections_unauthenticated: 256, requests_in_flight: 64, buffered_bytes: 32M, body_timeout: 5s,
  sandboxes_per_owner: 9, processes_per_owner: 24, output_per_sandbox: 512K, output_per_owner: 1M, snapshot_bytes_per_owner: 2M,
  events_keep: 4000, events_per_owner: 1600, upload_bytes_per_owner: 1M, egress_logs_per_owner: 1M, owner: {memory: 192M, pids: 120, cpu: 0.5}}
"""
KINDS_OF_WORK = {
    "fills its disk": "while :; do dd if=/dev/zero of=/tmp/fill bs=1M count=64; done",
    "fills its memory": "while :; do x=$(head -c 300000000 /dev/zero | tr '\\0' x); done",
    "forks": "f(){ f|f& }; while :; do f; done",
    "writes output": "yes of-the-attacker",
}
OF_ITS_OWNER = ("fills its memory", "forks")  # within limits.owner, for which all sandboxes of an owner compete
STALLED = (b"", b"GET /v1/sandboxes HTTP/1.1\r\nHost: loc", b"POST /v1/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60000\r\n\r\n")


def plug(port, data):
    s = socket.create_connection(("127.0.0.1", port), timeout=30)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        s.sendall(data)
    return s


def head(port, token, method, path, *fields):
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Authorization: Bearer {token}", *fields, "", ""]).encode()


def until_refused(act, *words, most=2000):
    """Acts until its share is used up, which is told by one of these words: how often it passed."""
    for n in range(most):
        got = act(n)
        if got.status in (429, 503):
            check(any(word in got.json.get("detail", got.json.get("message")) for word in words), f"not refused for {words}: {got}")
            return n
        check(got.status in (200, 201, 403), f"{got}")
    raise AssertionError(f"{words}: {most} times, and no end")


def start(api, box, script):
    return api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sh", "-c", script], "background": True})


def new_token(tenant, name):
    return tenant.api.post("/v1/tokens", {"name": name, "verbs": EVERYTHING, "labels": tenant.labels})


def upload(port, tenant, template, digest, size):
    """A file for a build that waits."""
    api = tenant.api
    link = api.get(f"/templates/{template}/files/{digest}", X_API_KEY=api.token).expect(201).json["url"].partition(str(port))[2]
    return api.request("PUT", link, "x" * size)


def has_its_part(port, tenant):
    """One of everything that a token of the same owner has used up its part of."""
    api, name = tenant.api, tenant.name
    box = api.post("/v1/sandboxes").expect(201).json["sandbox_id"]
    made = start(api, tenant.box, f"echo output-of-{name}").expect(201).json["process"]
    wait_for(lambda: f"output-of-{name}".encode() in api.get(f"/v1/sandboxes/{tenant.box}/logs?process={made}").expect(200).data, f"output of {name}")
    api.post(f"/v1/sandboxes/{tenant.box}/snapshot", {"name": f"later-of-{name}"}).expect(201)
    template = api.post("/v3/templates", {"name": f"later-of-{name}"}, X_API_KEY=api.token).expect(202).json["templateID"]
    equal(upload(port, tenant, template, "abc", 100_000).status, 200, f"an upload of {name}")
    new_token(tenant, f"later-of-{name}").expect(201)
    held = api.post("/v1/sandboxes", {"capabilities": {"network": ["later.example:443"]}})
    equal((held.status, held.json.get("kind")), (403, "require_approval"), f"a call of {name} that waits for a master")
    api.delete(f"/v1/sandboxes/{box}").expect(200, 202, 204)


class Attack:
    """Everything that a party can do to the others, at once, until it is over."""

    def __init__(self, d, port, tenant, sibling=None):
        self.d, self.port, self.who, self.sibling = d, port, tenant, sibling
        self.sockets, self.turns, self.over = [], 0, threading.Event()
        self.thread = threading.Thread(target=self.flood, daemon=True)

    def flood(self):
        """Goes on while the others work: requests, connections that stall, wrong tokens."""
        api, wrong = self.who.api, Tcp(self.port, "sbt_wrong")
        while not self.over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                wrong.get("/v1/sandboxes")
                for data in STALLED:
                    self.sockets.append(plug(self.port, data))
                if api.token:
                    api.post(f"/v1/sandboxes/{self.who.box}/extend-ttl", {"duration": "20m"})
            while len(self.sockets) > 300:
                self.sockets.pop(0).close()
            self.turns += 1

    def fill(self):
        """Uses up every share that the party has: (what, how often it passed)."""
        api, box = self.who.api, self.who.box
        yield "held calls", until_refused(lambda n: api.post("/v1/sandboxes", {"capabilities": {"network": [f"h{n}.example:443"]}}), "wait for a master")
        yield "snapshots", until_refused(lambda n: api.post(f"/v1/sandboxes/{box}/snapshot", {"name": f"of-{self.who.name}"}), "limits.snapshot_bytes_per_owner")
        for n in range(40):  # its own oldest builds make room, and nobody else's
            made = api.post("/v3/templates", {"name": f"of-{self.who.name}-{n}"}, X_API_KEY=api.token).expect(202).json
        upload(self.port, self.who, made["templateID"], "whole", 1_100_000).expect(429)
        yield "uploads", until_refused(lambda n: upload(self.port, self.who, made["templateID"], f"h{n}", 50_000), "limits.upload_bytes_per_owner")
        yield "sandboxes", until_refused(lambda n: api.post("/v1/sandboxes"), "limits.sandboxes_per_owner")
        for what, script in KINDS_OF_WORK.items():
            if not self.sibling or what not in OF_ITS_OWNER:
                got = api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sh", "-c", script], "background": True})
                check(got.status in (201, 429, 503), f"a program that {what}: {got}")
        for one in [b["sandbox_id"] for b in api.get("/v1/sandboxes").expect(200).json["sandboxes"]]:  # one alone reaches its own limit first
            yield f"output in {one}", until_refused(lambda n, one=one: start(api, one, "yes"), "limits.output_per_", "limits.processes_per_owner", "process")
        if self.sibling:
            yield "tokens", sum(new_token(self.who, f"of-{self.who.name}-{n}").status == 201 for n in range(10))
        yield "events", until_refused(lambda n: api.post(f"/v1/sandboxes/{box}/extend-ttl", {"duration": "20m"}), "limits.events_per_owner")
        for n in range(40):
            self.sockets.append(plug(self.port, head(self.port, api.token, "GET", "/v1/events", "Accept: text/event-stream")))
            self.sockets.append(plug(self.port, head(self.port, api.token, "PUT", f"/v1/sandboxes/{box}/files?path=/tmp/{n}", "Content-Length: 1000000") + b"x"))

    def __enter__(self):
        if self.who.api.token:
            self.passed = dict(self.fill())
        if self.sibling:
            has_its_part(self.port, self.sibling)
        self.thread.start()
        wait_for(lambda: self.turns, "the flood has begun")
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        for s in self.sockets:
            s.close()


def works(api, name):
    """All that a party does with a sandbox succeeds."""
    box = api.post("/v1/sandboxes", {}).expect(201).json["sandbox_id"]
    more = {"Accept": "application/json"} if isinstance(api, Tcp) else {"headers": {"Accept": "application/json"}}
    done = api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["echo", f"here-is-{name}"]}, **more).expect(200).json
    equal((done["exit_code"], done["stdout"]), (0, f"here-is-{name}\n"), f"a program of {name}")
    api.request("PUT", f"/v1/sandboxes/{box}/files?path=/tmp/x", {"of": name}).expect(204)
    check(box.encode() in api.get("/v1/sandboxes").expect(200).data, f"{name} lists its sandbox")
    api.delete(f"/v1/sandboxes/{box}").expect(200, 202, 204)


def looks(tenant):
    """What remains to a party whose owner's share another of its owner has used up."""
    tenant.api.get("/v1/sandboxes").expect(200)
    tenant.api.get(f"/v1/sandboxes/{tenant.box}").expect(200)
    tenant.api.get(f"/v1/sandboxes/{tenant.box}/events").expect(200)


def begin_build(tenant, name="waits-for"):
    """A template that waits for its files: where its status is."""
    made = tenant.api.post("/v3/templates", {"name": f"{name}-{tenant.name}"}, X_API_KEY=tenant.api.token).expect(202).json
    return f"/templates/{made['templateID']}/builds/{made['buildID']}/status"


@contextlib.contextmanager
def parties(c):
    with serving(c, 'socket: {mode: "0666"}\n' + SHARES) as (d, port, _):
        os.chmod(d.dir, 0o755)

        def party(name, uid, *more):
            return Tenant(name, Tcp(port, as_user(c, d, uid, "token", "create", "-q", "--limit", "calls_per_minute=100000", *more, name)))
        people = [party("one", PLAIN), party("two", NOBODY), *(party(name, BOTH, "-l", f"team={name}", *(f"--verb={verb}" for verb in EVERYTHING)) for name in ("red", "blue")),
                  party("agent", AGENT, "-l", "agent=x", "--actor", "agt"),
                  *(party(name, 0, "-l", f"team={name}") for name in ("crown", "heir"))]  # tokens of an administrator
        for tenant in people:
            tenant.labels = {"team": tenant.name} if tenant.name in ("red", "blue", "crown", "heir") else {}
            tenant.box = tenant.api.post("/v1/sandboxes").expect(201).json["sandbox_id"]
            tenant.api.request("PUT", f"/v1/sandboxes/{tenant.box}/files?path=/tmp/mine", {"of": "x" * 200_000}).expect(204)
        yield d, port, {t.name: t for t in [*people, Tenant("nobody", Tcp(port))]}


def attacked_by(c, name):
    with parties(c) as (d, port, people):
        attacker = people.pop(name)
        sibling = {"red": "blue", "blue": "red"}.get(name)
        others = [t for t in people.values() if t.name not in (sibling, "nobody")]
        builds = {t: [begin_build(t)] for t in others}
        for tenant in others:  # a client whose request does not arrive before many newer connections of its address is evicted
            tenant.api.tries = 5  # all of them have this machine's address
        with Attack(d, port, attacker, people.get(sibling)) as attack:
            before = attack.turns
            for _ in range(ROUNDS):
                for tenant in others:
                    works(tenant.api, tenant.name)
                works(d.api, "root")
                if sibling:
                    looks(people[sibling])
                equal(people["nobody" if name != "nobody" else "one"].api.get("/healthz").status, 200, "the health of the daemon")
            builds |= {t: [*builds[t], begin_build(t, "more-for")] for t in others}
            wait_for(lambda: attack.turns > before, "the flood goes on")
            check(attack.thread.is_alive(), "the flood has ended before its time")
            for tenant in people.values():
                for path in LISTS:
                    got = tenant.api.get(path)
                    check(got.status in (200, *REFUSED), f"{tenant.name} lists {path}: {got}")
                    for mark in (attacker.box or "sbx_none", f"of-{name}"):
                        check(mark.encode() not in got.data, f"{tenant.name} sees {mark} of {name} in {path}")
        # What ends things always works, and everything is as it was.
        if attacker.box:
            wait_for(lambda: attacker.api.get("/v1/sandboxes").status == 200, f"{name} has its connections back")
            for box in attacker.api.get("/v1/sandboxes").expect(200).json["sandboxes"]:
                attacker.api.delete(f"/v1/sandboxes/{box['sandbox_id']}").expect(200, 202, 204)
            wait_for(lambda: not attacker.api.get("/v1/sandboxes").expect(200).json["sandboxes"], f"nothing of {name} is left")
            attacker.api.post("/v1/sandboxes").expect(429, code="quota")  # of events, for a day
        for tenant, status in ((t, s) for t, all in builds.items() for s in all):
            equal(tenant.api.get(status, X_API_KEY=tenant.api.token).expect(200).json["status"], "waiting", f"the build of {tenant.name}")
        for tenant in others:
            works(tenant.api, tenant.name)
        if sibling:
            works(people[sibling].api, sibling)
        works(d.api, "root")


@test(**ONLY_ROOT)
def an_owner_starves_nobody(c):
    attacked_by(c, "one")


@test(**ONLY_ROOT)
def another_owner_starves_nobody(c):
    attacked_by(c, "two")


@test(**ONLY_ROOT)
def a_label_of_an_owner_starves_nobody(c):
    attacked_by(c, "red")


@test(**ONLY_ROOT)
def the_other_label_of_that_owner_starves_nobody(c):
    attacked_by(c, "blue")


@test(**ONLY_ROOT)
def an_agent_starves_nobody(c):
    attacked_by(c, "agent")


@test(**ONLY_ROOT)
def a_token_of_an_administrator_starves_nobody(c):
    """It has the budgets of one owner, and leaves the administrator's other tokens alone."""
    attacked_by(c, "crown")


@test(**ONLY_ROOT)
def a_client_without_a_token_starves_nobody(c):
    attacked_by(c, "nobody")


@test
def events_beyond_those_to_keep_are_removed(c):
    """The oldest first, soon, and without a look at the others."""
    with Daemon(c, config="limits: {events_keep: 1000}") as d:
        box = d.create()
        for _ in range(1300):
            d.api.post(f"/v1/sandboxes/{box}/extend-ttl", {"duration": "20m"}).expect(200)

        def all_events():
            first = d.api.get("/v1/events?limit=1000").expect(200).json["events"]
            return first + d.api.get(f"/v1/events?limit=1000&after={first[-1]['seq']}").expect(200).json["events"]
        kept = wait_for(lambda: (x := all_events())[0]["seq"] > 200 and x, "old events are removed")
        seqs = [e["seq"] for e in kept]
        equal(seqs, list(range(seqs[0], seqs[-1] + 1)), "events that are kept: none is missing between")
        check(1000 <= len(kept) <= 1000 + 1000 // 16 + 2, f"{len(kept)} events are kept")


def child_of(port, tenant, name):
    """The holder of a token that a token has made."""
    return Tenant(name, Tcp(port, new_token(tenant, name).expect(201).json["token"]))


@test(**ONLY_ROOT)
def a_token_with_those_that_it_makes_leaves_a_part_to_its_siblings(c):
    """Tokens of one owner that see each other's records: each family has seven eighths of what the owner has."""
    with serving(c, 'socket: {mode: "0666"}\n' + SHARES) as (d, port, _):
        os.chmod(d.dir, 0o755)
        hog, sibling = (Tenant(name, Tcp(port, as_user(c, d, BOTH, "token", "create", "-q", "--limit", "calls_per_minute=100000", name,
                                                       "--limit", "concurrent=1000", "--limit", "sandboxes_per_hour=1000", *(f"--verb={verb}" for verb in EVERYTHING)))) for name in ("hog", "sibling"))
        for tenant in (hog, sibling):
            tenant.box = tenant.api.post("/v1/sandboxes").expect(201).json["sandbox_id"]
        family = [hog, child := child_of(port, hog, "child"), child_of(port, child, "grandchild")]
        waits = begin_build(sibling)
        for n in range(40):
            family[n % 3].api.post("/v3/templates", {"name": f"of-the-family-{n}"}, X_API_KEY=family[n % 3].api.token).expect(202)
        equal(sibling.api.get(waits, X_API_KEY=sibling.api.token).expect(200).json["status"], "waiting", "the build of the sibling")
        passed = until_refused(lambda n: family[n % 3].api.post("/v1/sandboxes"), "this token's family has 7 of 7 sandboxes")
        equal(passed, 6, "sandboxes of the family, beside the first")
        passed = until_refused(lambda n: start(family[n % 3].api, hog.box, "true"), "this token's family has 21 of 21 background processes")
        equal(passed, 21, "background processes of the family")
        for tenant in family:
            for got, key in ((tenant.api.post("/v1/sandboxes"), "limits.sandboxes_per_owner"),
                             (start(tenant.api, hog.box, "true"), "limits.processes_per_owner")):
                check(key in got.expect(429, code="quota").json["detail"], f"{tenant.name}: {got}")
        as_user(c, d, BOTH, "exec", "-d", sibling.box, "--", "true")  # a user has no part
        start(sibling.api, sibling.box, "true").expect(201)
        d.stop()
        d.start(args=("--listen", f"127.0.0.1:{port}"))
        for tenant in family:
            tenant.api.post("/v1/sandboxes").expect(429, code="quota")
            wait_for(lambda tenant=tenant: start(tenant.api, hog.box, "true").status == 429, "processes of an earlier life count")
        sibling.api.post("/v1/sandboxes").expect(201)
        start(sibling.api, sibling.box, "true").expect(201)


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"page\n")

    def log_message(self, *_):
        pass


FETCHES = """
import os, socket, sys
host, port = os.environ["HTTP_PROXY"].removeprefix("http://").rstrip("/").split(":")
for n in range(int(sys.argv[2])):
    s = socket.create_connection((host, int(port)))
    s.sendall(f"CONNECT 127.0.0.1:{sys.argv[1]} HTTP/1.1\\r\\nHost: 127.0.0.1:{sys.argv[1]}\\r\\n\\r\\n".encode())
    got = s.recv(4096)
    if b" 200 " not in got:
        no_room = b"audit_unavailable" in got or b"audit_full" in got
        print(n if no_room else got)
        sys.exit(not no_room)
    s.close()
print(n + 1)
"""


class Logs:
    """A daemon whose owners have 1 MiB of egress logs, and a sandbox that has filled it."""

    def __init__(self, c, d, port):
        self.c, self.d, self.port = c, d, port
        os.chmod(d.dir, 0o755)
        self.hog, self.victim = self.new(PLAIN), self.new(NOBODY)
        rounds = [self.fetch(self.hog, 5000)]
        while rounds[-1] and len(rounds) < 20:  # room that was asked for may come after a refusal
            rounds.append(self.fetch(self.hog, 500))
        got = sum(rounds)
        check(0 < got < 5000, f"{rounds} connections of a log that has 1 MiB")
        check(self.bytes(self.hog) <= 1 << 20, f"{self.bytes(self.hog)} bytes")
        records = self.file(self.hog).read_text(encoding="utf-8").count('"allowed"')
        equal(self.fetch(self.hog, 1), 0, "connections without room for their record")
        equal(self.fetch(self.victim, 20), 20, "connections of another owner")
        check(records >= got, f"{records} records of {got} connections")
        self.more = self.new(PLAIN)  # the log of a sandbox that lives does not make room
        equal(self.fetch(self.more, 1), 0, "connections of the owner's other sandbox")

    def new(self, uid):
        return as_user(self.c, self.d, uid, "create", "-q", "--allow", f"127.0.0.1:{self.port}")

    def fetch(self, box, n):
        done = self.d.api.run(box, ["python3", "-c", FETCHES, str(self.port), str(n)]).expect(200).json
        equal(done["exit_code"], 0, f"the program in {box} ({done})")
        return int(done["stdout"])

    def file(self, box):
        return self.d.state / "daemon/egress" / f"{box}.jsonl"

    def bytes(self, *boxes):
        return sum(self.file(box).stat().st_size for box in boxes if self.file(box).exists())

    def intact(self):
        found = self.d.api.get("/v1/audit/verify").expect(200).json
        equal(found["problems"], [], "damage in the audit")


@contextlib.contextmanager
def full_logs(c, more=""):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        config = f"socket: {{mode: '0666'}}\negress: {{local: ['127.0.0.1:{port}']{more}}}\n" + SHARES
        with serving(c, config) as (d, _, _):
            yield Logs(c, d, port)
        server.shutdown()


@test(**ONLY_ROOT)
def egress_logs_of_one_owner_stop_its_own_egress_alone_until_they_expire(c):
    with full_logs(c) as logs:
        d = logs.d
        kept = logs.bytes(logs.hog)
        as_user(c, d, PLAIN, "destroy", logs.hog)
        for _ in range(3):  # a tenant that ends sandboxes and makes others erases nothing
            box = logs.new(PLAIN)
            equal(logs.fetch(box, 1), 0, "connections while no record has expired")
            as_user(c, d, PLAIN, "destroy", box)
        check(logs.bytes(logs.hog) >= kept, "the log of the sandbox that has ended")
        equal(logs.fetch(logs.victim, 20), 20, "connections of another owner")
        logs.intact()
        os.utime(logs.file(logs.hog), (1, 1))
        d.kill()
        d.start()  # the first event prunes
        as_user(c, d, PLAIN, "destroy", logs.new(PLAIN))
        wait_for(lambda: logs.fetch(logs.more, 1) == 1, "what has expired is room again")
        equal(logs.bytes(logs.hog), 0, "bytes of the log that has expired")


@test(**ONLY_ROOT)
def ended_egress_logs_make_room_where_the_administrator_says_so(c):
    with full_logs(c, ", audit_overflow: drop_oldest") as logs:
        d = logs.d
        as_user(c, d, PLAIN, "destroy", logs.hog)
        wait_for(lambda: logs.fetch(logs.more, 1) == 1, "the log of one that has ended makes room")
        check(logs.bytes(logs.hog, logs.more) <= 1 << 20, "bytes of the owner")
        equal(logs.bytes(logs.hog), 0, "bytes of the log that made room")
        logs.intact()
        events = [e for e in d.api.get("/v1/events?limit=1000").expect(200).json["events"] if e["type"] == "audit.dropped"]
        equal([(e["sandbox_id"], e["detail"]["for"]) for e in events], [(logs.hog, logs.more)], "events of records that were dropped")
        text = d.api.get("/metrics").expect(200).data.decode()
        check("sandboxer_egress_log_bytes_dropped_total 0\n" not in text and "sandboxer_egress_log_bytes_dropped_total" in text, "the metric")


@test(**ONLY_ROOT)
def egress_logs_of_one_token_leave_a_part_to_its_siblings(c):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_port
        config = f"socket: {{mode: '0666'}}\negress: {{local: ['127.0.0.1:{port}']}}\ntrust: {{mode: 'off'}}\n" + SHARES
        with serving(c, config) as (d, listens, _):
            os.chmod(d.dir, 0o755)

            def fetch(box, n):
                done = d.api.run(box, ["python3", "-c", FETCHES, str(port), str(n)]).expect(200).json
                equal(done["exit_code"], 0, f"the program in {box} ({done})")
                return int(done["stdout"])
            hog, sibling = (Tcp(listens, as_user(c, d, BOTH, "token", "create", "-q", name)) for name in ("hog", "sibling"))
            boxes = [api.post("/v1/sandboxes", {"egress": {"allow": [f"127.0.0.1:{port}"]}}).expect(201).json["sandbox_id"] for api in (hog, hog)]
            for box in boxes:
                check(fetch(box, 500) > 0, "connections with room for their record")
            for box in boxes:
                wait_for(lambda box=box: fetch(box, 5000) == 0, "connections without room for their record")
            other = sibling.post("/v1/sandboxes", {"egress": {"allow": [f"127.0.0.1:{port}"]}}).expect(201).json["sandbox_id"]
            equal(fetch(other, 20), 20, "connections of the owner's other token")
            used = sum(f.stat().st_size for box in boxes for f in (d.state / "daemon/egress").glob(f"{box}.jsonl*"))
            check(used <= (1 << 20) * 7 // 8, f"{used} bytes of a token's logs")
        server.shutdown()


@test(**ONLY_ROOT)
def a_token_gains_no_calls_and_no_minutes_by_making_others(c):
    """A token and those that were made with it, directly or not, have together what it has."""
    with serving(c, 'socket: {mode: "0666"}\n') as (d, port, _):
        os.chmod(d.dir, 0o755)
        limits = ("calls_per_minute=6", "minutes_per_day=1", "concurrent=50")
        first = Tenant("first", Tcp(port, as_user(c, d, PLAIN, "token", "create", "-q", *(f"--verb={verb}" for verb in EVERYTHING), *(w for limit in limits for w in ("--limit", limit)), "first")))
        sibling = Tenant("sibling", Tcp(port, as_user(c, d, PLAIN, "token", "create", "-q", "sibling")))
        child = child_of(port, first, "child")
        grandchild = child_of(port, child, "grandchild")
        answers = [who.api.get("/v1/sandboxes").status for who in (child, grandchild, first) * 3]
        equal(answers, [200] * 6 + [429] * 3, "calls of the three, of six that the first one may make")
        sibling.api.get("/v1/sandboxes").expect(200)
        other = sibling.api.post("/v1/sandboxes", {}).expect(201).json["sandbox_id"]
        boxes = [who.api.post("/v1/sandboxes", {"ttl": "1h"}).expect(201).json["sandbox_id"] for who in (*[first] * 5, grandchild)]
        wait_for(lambda: all(d.get(box)["state"] == "destroyed" for box in boxes[:5]), "those of the first one end with its minutes", seconds=60)
        wait_for(lambda: d.get(boxes[5])["state"] == "destroyed", "that of a token that was made with it ends with them")
        check("minutes" in d.get(boxes[5])["reason"], f"why: {d.get(boxes[5])['reason']}")
        check(d.get(other)["state"] in ("ready", "active"), "the sandbox of another token")


# ---- copies of workspaces ----

COPIES = """socket: {mode: "0666"}
limits: {workspace_copies: 4, workspace_copies_per_owner: 2}
workspaces: {roots: [%s], patience: 10m}
"""
HUNG_COPIES = {"SANDBOXER_STOP_AT": "ask.open:1"}  # each process that copies stops, as in a file system that hangs
MANY = 6


def start_as(c, d, uid, *argv):
    return subprocess.Popen([c.program(), *argv], user=uid, group=uid, extra_groups=[], env={**c.environment, **Client(d).env}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, cwd="/", text=True)


def ended_well(what):
    out, err = what.communicate()
    equal(what.returncode, 0, f"{what.args} ({err})")
    return out.strip()


def let_copies_end(d, over):
    """Lets every process go on that hangs, until something is over."""
    def step():
        for pid in d.stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return over()
    wait_for(step, "all copies end")


@contextlib.contextmanager
def copying(c):
    c.write("daemon/profiles/work.yaml", "id: profile.work\nversion: 1\nworkspace: {mode: mirror, access: rw}\n")
    d = Daemon(c, config=COPIES % c.mkdir(c.dir / "work"))
    for uid, names in ((PLAIN, [f"one{i}" for i in range(MANY)]), (NOBODY, ["two"])):
        for name in names:
            os.chown(c.write(f"work/{name}/a.txt", "host\n"), uid, uid)
            os.chown(c.dir / "work" / name, uid, uid)
    for path in (c.dir, c.dir / "work"):
        os.chmod(path, 0o755)
    d.start(**HUNG_COPIES)
    with d:
        os.chmod(d.dir, 0o755)
        yield d


def start_create(c, d, uid, name):
    return start_as(c, d, uid, "create", "-q", "-p", "profile.work", "--input", f"repo={c.dir / 'work' / name}")


@test(**ONLY_ROOT)
def copies_of_one_owners_workspaces_leave_slots_to_others_and_lose_nothing(c):
    with copying(c) as d:
        creates = [start_create(c, d, PLAIN, f"one{i}") for i in range(MANY)]
        wait_for(lambda: len(d.list()) == MANY and len(d.stopped) == 2, "the owner's share of copies is under way")
        other = start_create(c, d, NOBODY, "two")
        wait_for(lambda: len(d.stopped) == 3, "a copy of another owner begins")
        mine = d.stopped
        os.kill(max(mine), signal.SIGCONT)  # the youngest one
        theirs = ended_well(other)
        equal(len(d.stopped), 2, "copies of the owner that has many")
        check(all(create.poll() is None for create in creates), "the other owner's creates wait")
        let_copies_end(d, lambda: all(create.poll() is not None for create in creates))
        boxes = [ended_well(create) for create in creates]
        for box in boxes:
            equal(d.api.run(box, ["sh", "-c", "cat /workspace/a.txt; echo inside > /workspace/a.txt"]).expect(200).json["stdout"], "host\n", "the workspace")
        ends = [start_as(c, d, PLAIN, "destroy", box) for box in boxes]
        wait_for(lambda: len(d.stopped) == 2, "the last copies begin")
        end = start_as(c, d, NOBODY, "destroy", theirs)
        wait_for(lambda: len(d.stopped) == 3, "the last copy of the other owner begins")
        os.kill(max(d.stopped), signal.SIGCONT)
        ended_well(end)
        check(all(e.poll() is None for e in ends), "the ends of the owner that has many wait")
        let_copies_end(d, lambda: all(e.poll() is not None for e in ends))
        for e in ends:
            ended_well(e)
        for i in range(MANY):
            equal((c.dir / f"work/one{i}/a.txt").read_text(), "inside\n", "what every sandbox wrote")


@test(**ONLY_ROOT)
def ends_that_wait_for_a_copy_survive_the_daemon_and_can_be_hurried(c):
    with copying(c) as d:
        creates = [start_create(c, d, PLAIN, f"one{i}") for i in range(MANY)]
        let_copies_end(d, lambda: all(create.poll() is not None for create in creates))
        boxes = [ended_well(create) for create in creates]
        for box in boxes:
            equal(d.api.run(box, ["sh", "-c", "echo inside > /workspace/a.txt"]).expect(200).json["exit_code"], 0, "written")
        ends = [start_as(c, d, PLAIN, "destroy", box) for box in boxes]
        wait_for(lambda: len(d.stopped) == 2, "two copies are under way, the others wait")
        equal([box for box in boxes if d.get(box)["state"] in ("ready", "active")], boxes, "no end is on record before its copy is made")
        d.kill()
        for end in ends:
            end.communicate()
        d.start(**HUNG_COPIES)
        os.chmod(d.dir, 0o755)
        wait_for(lambda: {d.get(box)["state"] for box in boxes} <= {"ready", "active"}, "the sandboxes are found as they were")
        ends = [start_as(c, d, PLAIN, "destroy", box) for box in boxes[:2]]
        wait_for(lambda: len(d.stopped) == 2, "the copies are tried again")
        ends += [start_as(c, d, PLAIN, "destroy", box) for box in boxes[2:]]
        d.api.delete(f"/v1/sandboxes/{boxes[-1]}?sync=no").expect(200)  # of one that waits: a caller who wants no copy waits for none
        equal(len(d.stopped), 2, "copies that are under way")
        let_copies_end(d, lambda: all(end.poll() is not None for end in ends))
        for end in ends:
            end.communicate()
        for i, box in enumerate(boxes[:-1]):
            equal(d.get(box)["state"], "destroyed", f"the state of {box}")
            equal((c.dir / f"work/one{i}/a.txt").read_text(), "inside\n", "what every sandbox wrote")


# ---- jobs on layers ----

JOBS = 'socket: {mode: "0666"}\nstorage: {measure_after: 1d}\nimages: {free_min: 0}\n'
HUNG_JOBS = {"SANDBOXER_STOP_AT": "layers.begin:1"}  # each layer worker stops before its job
VERIFIES, DIFFS = 5, 70  # more than all callers together could have at a time


class Workers:
    """Layer workers, which go on by themselves unless they are held."""

    def __init__(self, d):
        self.d, self.held = d, set()

    @property
    def stopped(self):
        return {pid for pid in self.d.parts("sandboxer-layer") if state_of(pid) == "T"}

    def release(self):
        for pid in self.stopped - self.held:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def hold(self, n):
        """Waits until so many have stopped, and keeps them."""
        wait_for(lambda: len(self.stopped) >= n, f"{n} jobs are held")
        self.held = self.stopped

    def let_end(self):
        self.held = set()

    def serve(self, act):
        """The answer to a request whose workers go on."""
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(act)
            wait_for(lambda: self.release() or answer.done(), "the request is answered")
            return answer.result()


def state_of(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rpartition(")")[2].split()[0]
    return ""


@contextlib.contextmanager
def working(c):
    """Two owners and root, each with a sandbox and a snapshot."""
    d, port = Daemon(c, config=JOBS), free_port()
    d.start(args=("--listen", f"127.0.0.1:{port}"), **HUNG_JOBS)
    with d:
        os.chmod(d.dir, 0o755)
        workers = Workers(d)
        people = [Tenant(name, Tcp(port, as_user(c, d, uid, "token", "create", "-q", name))) for name, uid in (("one", PLAIN), ("two", NOBODY))]
        people.append(Tenant("root", d.api))
        for tenant in people:
            tenant.box = tenant.api.post("/v1/sandboxes").expect(201).json["sandbox_id"]
            tenant.api.request("PUT", f"/v1/sandboxes/{tenant.box}/files?path=/root/mine", {"of": tenant.name}).expect(204)
            taken = workers.serve(lambda tenant=tenant: tenant.api.post(f"/v1/sandboxes/{tenant.box}/snapshot", {}))
            tenant.snapshot = taken.expect(201).json["snapshot_id"]
        wait_for(lambda: workers.release() or not d.parts("sandboxer-layer"), "the jobs of the start have ended")
        yield workers, people


@test(**ONLY_ROOT)
def jobs_on_layers_of_one_owner_leave_slots_to_others(c):
    with working(c) as (workers, (one, *others)), ThreadPoolExecutor(VERIFIES + DIFFS) as threads:
        mine = [threads.submit(one.api.post, f"/v1/snapshots/{one.snapshot}/verify") for _ in range(VERIFIES)]
        workers.hold(1)
        mine += [threads.submit(one.api.get, f"/v1/sandboxes/{one.box}/diff") for _ in range(DIFFS)]
        workers.hold(9)  # a token's parts of a quarter of 8 digests, and of 40 other jobs
        for tenant in others:
            api, box = tenant.api, f"/v1/sandboxes/{tenant.box}"
            workers.serve(lambda: api.post(f"/v1/snapshots/{tenant.snapshot}/verify")).expect(200)
            workers.serve(lambda: api.get(f"{box}/diff")).expect(200)
            workers.serve(lambda: api.post(f"{box}/snapshot", {})).expect(201)
            workers.serve(lambda: api.get(f"/v1/snapshots/{tenant.snapshot}/export")).expect(200)
            workers.serve(lambda: api.post(f"{box}/pause")).expect(200)
        equal((len(workers.held), workers.stopped), (9, workers.held), "jobs of the first owner")
        equal([x for x in mine if x.done()], [], "answers to the first owner: those beyond its share wait")
        workers.let_end()
        wait_for(lambda: workers.release() or all(x.done() for x in mine), "those that waited have their turns")
        equal({x.result().status for x in mine}, {200}, "answers to the first owner")


@test(**ONLY_ROOT)
def a_slot_for_a_layer_worker_is_taken_until_that_has_ended(c):
    """Clients that leave must not make room for more processes."""
    with working(c) as (workers, (one, two, _)), ThreadPoolExecutor(1) as thread:
        verify = f"/v1/snapshots/{one.snapshot}/verify"
        gone = plug(one.api.port, head(one.api.port, one.api.token, "POST", verify, "Content-Length: 0"))
        workers.hold(1)
        gone.close()
        again = thread.submit(one.api.post, verify)
        workers.serve(lambda: two.api.post(f"/v1/snapshots/{two.snapshot}/verify")).expect(200)
        check(not again.done() and workers.stopped == workers.held, "the abandoned worker has its slot")
        workers.let_end()
        wait_for(lambda: workers.release() or again.done(), "the slot is free again")
        again.result().expect(200)


# ---- exports ----

EXPORTED = 20 << 20


def open_export(tenant):
    """A client that reads nothing of the file."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(60)
    s.connect(("127.0.0.1", tenant.api.port))
    s.sendall(head(tenant.api.port, tenant.api.token, "GET", f"/v1/snapshots/{tenant.snapshot}/export"))
    return s, s.recv(12)


@test(**ONLY_ROOT)
def exports_that_clients_do_not_read_count_for_their_owner(c):
    with serving(c, JOBS + "limits: {upload_bytes_per_owner: 24M}\n") as (d, port, _):
        os.chmod(d.dir, 0o755)
        one, two = (Tenant(name, Tcp(port, as_user(c, d, uid, "token", "create", "-q", name))) for name, uid in (("one", PLAIN), ("two", NOBODY)))
        for tenant in (one, two):
            tenant.box = tenant.api.post("/v1/sandboxes").expect(201).json["sandbox_id"]
            done = tenant.api.post(f"/v1/sandboxes/{tenant.box}/processes", {"argv": ["dd", "if=/dev/urandom", "of=/root/data", f"bs={EXPORTED}", "count=1", "iflag=fullblock"]},
                                   Accept="application/json").expect(200).json
            equal(done["exit_code"], 0, f"{done}")
            tenant.snapshot = tenant.api.post(f"/v1/sandboxes/{tenant.box}/snapshot", {}).expect(201).json["snapshot_id"]
        slow, status = open_export(one)
        equal(status, b"HTTP/1.1 200", "the first export")
        refused = one.api.get(f"/v1/snapshots/{one.snapshot}/export").expect(429, code="quota")
        check("limits.upload_bytes_per_owner" in refused.json["detail"], f"{refused}")
        check(len(two.api.get(f"/v1/snapshots/{two.snapshot}/export").expect(200).data) > EXPORTED, "an export of another owner")
        slow.close()
        wait_for(lambda: one.api.get(f"/v1/snapshots/{one.snapshot}/export").status == 200, "the share is free again")


# ---- grants of workspaces ----

HUNG_GRANTS = {"SANDBOXER_STOP_AT": "grant.open:1", "SANDBOXER_TEST_DEADLINE": "120"}  # each process that opens a directory stops, as in a file system that hangs
GRANTS = 50  # more than the supervisor opens at a time
ASK = """
import json, socket, sys
where, repo, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
sockets = [socket.socket(socket.AF_UNIX) for _ in range(n)]
for i, s in enumerate(sockets):
    body = json.dumps({"profile": "profile.work", "inputs": {"repo": f"{repo}{i}"}})
    s.connect(where)
    s.sendall(f"POST /v1/sandboxes HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
print(*sorted(s.recv(12)[9:].decode() for s in sockets))
"""


@test(**ONLY_ROOT)
def directories_of_one_owner_that_hang_leave_slots_to_others(c):
    c.write("daemon/profiles/work.yaml", "id: profile.work\nversion: 1\nworkspace: {mode: mirror, access: rw}\n")
    d = Daemon(c, config='socket: {mode: "0666"}\nworkspaces: {roots: [%s]}\nlimits: {sandboxes_per_owner: 100}\n' % c.mkdir(c.dir / "work"))
    for uid, name in ((NOBODY, "two"), (0, "root"), *((PLAIN, f"one{i}") for i in range(GRANTS))):
        os.chown(c.write(f"work/{name}/a.txt", "host\n"), uid, uid)
        os.chown(c.dir / "work" / name, uid, uid)
    for path in (c.dir, c.dir / "work"):
        os.chmod(path, 0o755)
    d.start(**HUNG_GRANTS)
    with d:
        os.chmod(d.dir, 0o755)
        with subprocess.Popen(["python3", "-c", ASK, str(d.socket), str(c.dir / "work/one"), str(GRANTS)], user=PLAIN, group=PLAIN, extra_groups=[],
                              stdout=subprocess.PIPE, cwd="/", text=True) as many, contextlib.ExitStack() as ending:
            ending.callback(many.kill)  # else a failure waits for its answers
            wait_for(lambda: len(d.stopped) >= 12 and len(d.list()) == GRANTS, "the owner's share of directories is being opened, and the others wait")
            mine = set(d.stopped)
            equal(len(mine), 12, "a quarter of 48")
            for uid, name in ((NOBODY, "two"), (0, "root")):
                other = start_create(c, d, uid, name)
                theirs = wait_for(lambda: set(d.stopped) - mine, f"the directory of {name} is being opened")
                equal(len(theirs), 1, "directories of others")
                os.kill(theirs.pop(), signal.SIGCONT)
                ended_well(other)
            equal(set(d.stopped), mine, "directories of the owner that has many")
            let_copies_end(d, lambda: many.poll() is not None)
            equal(set(many.stdout.read().split()), {"201"}, "creates of the first owner")


main()
