#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""What `egress check` and `egress explain` say of a policy is what the egress worker does, by every way in. SEED
repeats a run's choices; FUZZ_SECONDS says how long to make up policies."""

import json
import os
import random
import subprocess
import time
from pathlib import Path

from egress_box import APPLIED, FAILED, Box
from egress_world import PUBLIC, PUBLIC_TOO, World
from harness import Failure, check, diagnose, equal, main, test

SECONDS = int(os.environ.get("FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("SEED", "1"))
POLICIES, REQUESTS = 80, 20  # in a short run, of each caller
NAME = "api.example.com"
HOSTS = (PUBLIC, PUBLIC_TOO, NAME)
PORTS = (80, 8080)
DOCUMENT = Path(__file__).resolve().parents[2] / "docs/egress-policy.md"
ANYBODY = {"binaries": [{"path": "/**"}]}
ALLOWING = ("allowed", "audited")


def answer_once(connection, hear):
    data = b""
    while b"\r\n\r\n" not in data:
        more = hear()
        if not more:
            return
        data += more
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


# ---- one request, by three ways ----

class Way:
    """One way in: what becomes of a request is "passed", or ("denied", code, rule) where the refusal says them."""

    def __init__(self, box):
        self.box = box

    @staticmethod
    def head(request, target):
        method, _, fields, to = request
        lines = [f"{method} {target} HTTP/1.1", f"Host: {to}", "Connection: close", *fields]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    @staticmethod
    def outcome(answer):
        if answer.status == 200:
            return "passed"
        check(answer.status in (0, 400, 403), f"{answer.data[:300]!r}")
        if answer.status == 0 or not answer.body:
            return "denied", None, None
        return "denied", answer.json["error"], answer.json.get("rule", "")

    def forward(self, request):
        _, target, _, to = request
        return self.outcome(self.box.raw(self.head(request, f"http://{to}{target}")))

    def connect(self, request):
        client, found = self.box.tunnel(request[3])
        with client:
            return self.outcome(client.send(self.head(request, request[1])).rest() if found.status == 200 else found)

    def captured(self, request):
        host, _, port = request[3].partition(":")
        address = host
        if host == NAME:
            reply = self.box.ask(host)
            if not reply.addresses:
                return "denied", None, None
            address = reply.addresses[0]
        try:
            with self.box.dial(address, int(port)) as client:
                return self.outcome(client.send(self.head(request, request[1])).rest())
        except ConnectionResetError:
            return "denied", None, None


WAYS = ("forward", "connect", "captured")


class Judge:
    """A box in a world of origins, and the tool that explains its policy."""

    def __init__(self, c, world, box):
        self.c, self.box, self.way = c, box, Way(box)
        self.file = c.dir / "policy.json"
        world.dns.names[NAME] = [PUBLIC]
        self.origins = [world.origin(address, port, answer_once) for address in (PUBLIC, PUBLIC_TOO) for port in PORTS]
        self.compared = 0

    def tool(self, *argv):
        return subprocess.run([self.c.program("sandboxer-egress"), *argv], capture_output=True, check=False, text=True)

    def set(self, policy):
        """Whether the policy is taken: the check and the worker agree on it."""
        self.file.write_text(json.dumps(policy), encoding="utf-8")
        said = json.loads(self.tool("--check", str(self.file)).stdout)
        body = self.box.set_policy(policy, APPLIED if said["valid"] else FAILED)
        if not said["valid"]:
            check(said["problem"].partition("network_policies")[2].encode()[:60] in body,
                  f"the check says {said['problem']}, the worker {body!r}")
        return said["valid"]

    def explain(self, request):
        method, target, fields, to = request
        argv = ["--explain", str(self.file), "--to", to, "--method", method, "--path", target, "--binary", self.box.program]
        for field in fields:
            if field.lower().startswith("upgrade: "):
                argv += ["--upgrade", field.split(": ")[1]]
        done = self.tool(*argv)
        check(done.returncode == 0, f"{argv}: {done.stderr}")
        return json.loads(done.stdout)

    def heard(self):
        """Of the connections with bytes on them, the bytes."""
        return [head for origin in self.origins for head in origin.heard if head]

    def compare(self, request, said, way):
        before = len(self.heard())
        found = getattr(self.way, way)(request)
        self.compared += 1
        where = f"{request} by {way}: explain says {said['verdict']} {said.get('code')} {said.get('rule')}, the worker {found}"
        if said["verdict"] in ALLOWING:
            check(found == "passed", where)
            line = f"{request[0]} {request[1]} HTTP/1.1\r\n".encode()
            check(any(head.startswith(line) for head in self.heard()), f"{where}; not as it was written")
        else:
            check(found[0] == "denied" and (found[1] is None or found[1:] == (said["code"], said.get("rule", ""))), where)
            equal(len(self.heard()), before, f"requests that got out: {where}")

    def judge(self, request, ways=WAYS):
        said = self.explain(request)
        for origin in self.origins:
            origin.heard = [b"" for _ in origin.heard]
        for way in ways:
            self.compare(request, said, way)
        return said


# ---- policies and requests that are made up ----

PATHS = ("/a", "/a/b", "/a/*", "/a/**", "/**", "/b", "/B/*", "/{a,b}/c", "/a/[a-c]", "/secret", "/secret/**", "/a%20b",
         "/items*", "/*/b", "/a/", "/a%3Bx=1", "**")
METHODS = ("GET", "POST", "PUT", "DELETE", "*", "HEAD", "PROPFIND", "TRACE", "get")
QUERIES = ({"x": "1"}, {"x": "*"}, {"x": {"any": ["1", "2*"]}, "y": "a"}, {"x.y": "**"})
PARTS = ("a", "b", "c", "A", "secret", "Secret", "items", "a%20b", "%61", "a;x=1", ";x", "..", ".", "", "a.", "%2e", "%2e%2e", "..;x",
         "a+b", "a%2Fb", "%zz", "a%3Bx=1", "%C3%A4", "a%5cb", "a|b", "%25", "a%2e")
PAIRS = ("x=1", "x=2", "x=23", "X=1", "x[]=1", "y=a", "x.y=1", "x_y=1", "x", "%78=1", "x=%zz", "_method=PUT", "y=1;x=2", "a=b", "=", "x=+1")
SENT = ("GET", "GET", "GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "PROPFIND", "TRACE", "get", "Post", "head", "propfind")
PROGRAMS = ("/**", "/**", "/**", "/usr/bin/curl", "/usr/bin/c*", "/usr/bin/git")
FIELDS = ((), (), (), (), (), ("Upgrade: websocket", "Connection: Upgrade"), ("Upgrade: h2c",), ("X-HTTP-Method-Override: PUT",))


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, share):
        return self.random.random() < share

    def rule(self, deny):
        made = {}
        if not deny or self.chance(0.6):
            made["method"] = self.random.choice(METHODS)
        if not deny or self.chance(0.8) or not made:
            made["path"] = self.random.choice(PATHS)
        if self.chance(0.25):
            made["query"] = self.random.choice(QUERIES)
        return made

    def endpoint(self):
        made = {"host": self.random.choice(HOSTS), "ports": self.random.sample(PORTS, self.random.choice((1, 2)))}
        if self.chance(0.08):
            made = {"ports": made["ports"], "allowed_ips": ["93.184.216.0/24"]}
        if self.chance(0.25):
            return made
        made["protocol"] = "rest"
        if self.chance(0.5):
            made["access"] = self.random.choice(("read-only", "read-write", "full", "full"))
        else:
            made["rules"] = [{"allow": self.rule(False)} for _ in range(self.random.randint(1, 3))]
        if self.chance(0.6):
            made["deny_rules"] = [self.rule(True) for _ in range(self.random.randint(1, 3))]
        if self.chance(0.2):
            made["path"] = self.random.choice(("/a/**", "/b*", "/**", "/A/*"))
        if self.chance(0.15):
            made["enforcement"] = "audit"
        if self.chance(0.2):
            made["allow_encoded_slash"] = True
        if self.chance(0.05):
            made["ports"] = [443, 80]
        return made

    def policy(self):
        entries = {f"entry{i}": {"endpoints": [self.endpoint() for _ in range(self.random.randint(1, 3))],
                                 "binaries": [{"path": self.random.choice(PROGRAMS)}]}
                   for i in range(self.random.randint(1, 2))}
        made = {"version": 1, "network_policies": entries}
        if self.chance(0.15):  # of addresses that no name here has: explanations look nothing up
            made["unlisted"] = self.random.choice(({"access": "public"}, {"access": "public", "denied_ips": [PUBLIC_TOO]},
                                                   {"allowed_ips": [PUBLIC_TOO]}))
        return made

    def destination(self, policy):
        """One of the policy's, mostly. Names cost lookups, of which a sandbox has a budget: most are addresses."""
        known = [f"{e.get('host', PUBLIC)}:{port}" for entry in policy["network_policies"].values() for e in entry["endpoints"]
                 for port in e["ports"] if e.get("host", NAME) != NAME or self.chance(0.1)]
        if known and self.chance(0.85):
            return self.random.choice(known)
        return f"{NAME if self.chance(0.1) else self.random.choice((PUBLIC, PUBLIC_TOO))}:{self.random.choice(PORTS)}"

    def request(self, policy):
        path = "/" + "/".join(self.random.choice(PARTS) for _ in range(self.random.choice((0, 1, 1, 1, 2, 2, 3, 4))))
        if self.chance(0.4):
            path += "?" + self.random.choice("&&&;").join(self.random.choice(PAIRS) for _ in range(self.random.randint(1, 3)))
        return (self.random.choice(SENT), path, self.random.choice(FIELDS), self.destination(policy))


@test(seconds=120 + 2 * SECONDS)
def an_explanation_is_what_the_worker_does(c):
    seed = SEED * 2 + (c.name == "plain")
    maker, end = Maker(seed), time.monotonic() + SECONDS / 2
    valid = made = 0
    verdicts = {}
    with World() as w, Box(w, c, {"version": 1}) as box:
        judge = Judge(c, w, box)
        try:
            while made < POLICIES or time.monotonic() < end:
                policy = maker.policy()
                made += 1
                if not judge.set(policy):
                    continue
                valid += 1
                for _ in range(REQUESTS):
                    said = judge.judge(maker.request(policy))
                    verdicts[said["code"]] = verdicts.get(said["code"], 0) + 1
        except Failure as failure:
            raise Failure(f"SEED={SEED}, policy {made}: {json.dumps(policy)}: {failure}") from failure
    diagnose(f"SEED={SEED}: {judge.compared} comparisons, {valid} of {made} policies, {verdicts}")
    check(judge.compared >= 1000 and valid < made, "there are valid policies and others")
    check({"allowed", "request_denied", "request_denied_by_rule", "method_denied", "path_invalid"} <= set(verdicts),
          f"verdicts of all kinds: {verdicts}")


# ---- spellings ----

def rest(**more):
    return {"version": 1, "network_policies": {"web": {"endpoints": [
        {"host": PUBLIC, "port": 80, "protocol": "rest", "access": "full", **more}], **ANYBODY}}}


def forms():
    """Targets as clients put them on the wire, in every odd way that the grammar has."""
    pieces = ("a", "a;x=1", "a;", ";x", "a//b", "a/./b", "a/../b", "./a", "a/.", "a/..", "%61", "%7Ea", "a%2Fb", "a%5Cb", "a%3Bb", "a%3Fb",
              "a%23b", "a+b", "a%2Bb", "a%20b", "a%25b", "a%252Fb", "a%00b", "a%0Ab", "%C3%A4", "%ff", "a%", "a%2", "a%zz", "a|b", "a^b", "a:b",
              "a@b", "a,b", "a=b", "a&b", "a'b", "a(b)", "a*b", "a!b", "a$b", "a~b", "...", "a.", ".a", "a..b", "..;x/a")
    yield from (f"/{piece}" for piece in pieces)
    yield from (f"/dir/{piece}/" for piece in pieces)
    yield from (f"//{piece}" for piece in pieces)
    yield from (f"/dir?{piece}" for piece in pieces)
    yield from ("/", "//", "///", "/?", "/??", "/a?b=c;d=e&f", "/a?b=%zz", "/a?b[]=1", "/%2e%2e/a", "/a/%2E%2e/b", "/..", "/a?_method=PUT")


@test
def a_path_is_sent_as_it_was_written_or_refused(c):
    with World() as w, Box(w, c, {"version": 1}) as box:
        judge = Judge(c, w, box)
        check(judge.set(rest()), "the policy")
        found = {}
        for number, target in enumerate(forms()):
            said = judge.judge(("GET", target, (), f"{PUBLIC}:80"), ways=(WAYS[number % 3],))  # compares what arrives, byte by byte
            found.setdefault(said["verdict"], []).append(target)
        diagnose(f"{len(found['allowed'])} unchanged, {len(found['denied'])} refused")
        check(len(found["allowed"]) > 120, f"legal paths pass: refused are {found['denied']}")
        check({"/a;x=1", "/a//b", "/a/../b", "/a+b", "/%7Ea", "//a", "/dir/a|b/"} <= set(found["allowed"]), f"{found['denied']}")


SPELLINGS = (
    "/admin", "/admin/", "/admin//", "/admin.", "/admin..", "/Admin", "/ADMIN", "//admin", "/./admin", "/x/../admin", "/%61dmin", "/admin%20",
    "/admin+", "/admin;x", "/admin;x=1/", "/admin%3Bx", "/admin/.", "/admin/x/..", "/;/admin", "/admin%2f", "/admin%5c", "/admin%00", "/admin#",
    "/secrets", "/secrets/", "/secrets/x", "/Secrets/x", "/secrets;v=1/x", "/secrets./x", "/secrets%2Fx", "//secrets//x",
    "/items?x=2", "/items?y=1&x=2", "/items?y=1;x=2", "/items?x[]=2", "/items?x%5B%5D=2", "/items?X=2", "/items?x=1&x=2", "/items?%78=2",
    "/items?x=2+", "/items/?x=2", "/ITEMS?x=2", "/items?y=1;_method=DELETE", "/items?_method=DELETE", "/items?a=b&amp;x=2", "/items?+x=2")


@test
def a_rule_that_denies_holds_in_every_spelling(c):
    policy = rest(deny_rules=[{"path": "/admin"}, {"path": "/secrets/**"}, {"path": "/items", "query": {"x": "2"}}], allow_encoded_slash=True)
    with World() as w, Box(w, c, {"version": 1}) as box:
        judge = Judge(c, w, box)
        check(judge.set(policy), "the policy")
        for number, target in enumerate(SPELLINGS):
            if "#" in target:
                continue  # no target of a request: 400 before any policy
            said = judge.judge(("GET", target, (), f"{PUBLIC}:80"), ways=(WAYS[number % 3],))
            check(said["verdict"] == "denied", f"{target}: {said}")
        for target in ("/administrator", "/secret", "/items?x=3", "/items", "/x/admin", "/admin/x"):
            equal(judge.judge(("GET", target, (), f"{PUBLIC}:80"))["verdict"], "allowed", target)


# ---- the document ----

def example():
    """The first block of the document that is a policy."""
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    first = lines.index("    version: 1")
    last = next(n for n in range(first, len(lines)) if lines[n] and not lines[n].startswith("    "))
    return "\n".join(line[4:] for line in lines[first:last]) + "\n"


@test
def the_example_of_the_document_does_what_it_says(c):
    with World() as w:
        w.dns.names.update({name: [PUBLIC] for name in (NAME, "packages.example.org", "a.files.example.org")})
        web, secure = w.origin(PUBLIC, 80, answer_once), w.secure(c.dir, name="packages.example.org")
        policy = c.write("example.yaml", example())
        c.cli("egress", "check", policy).expect(0)
        proxy = w.proxy(c, example())
        for method, path, expected in (("GET", "/repos/x", "allowed"), ("HEAD", "/repos/x/y", "allowed"), ("GET", "/users", "request_denied"),
                                       ("POST", "/repos/x/issues?draft=true", "allowed"), ("POST", "/repos/x/issues", "request_denied"),
                                       ("GET", "/repos/x/secrets/y", "request_denied_by_rule"), ("GET", "/repos/x/secrets", "request_denied_by_rule")):
            argv = ("egress", "explain", policy, "--to", f"{NAME}:80", "--method", method, "--path", path, "-o", "json")
            equal(json.loads(c.cli(*argv).expect((0, 1)).out)["code"], expected, f"explain: {method} {path}")
            found = proxy.raw(f"{method} http://{NAME}{path} HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n")
            equal("allowed" if found.status == 200 else found.json["error"], expected, f"the proxy: {method} {path}")
        equal(web.connections, 3, "requests at the origin")
        with Box(w, c, {"version": 1}) as box:
            box.set_file(example())
            for program, status in (("/usr/bin/python3.11", 200), ("/usr/bin/curl", 403)):
                box.program = program
                for host in ("packages.example.org", "a.files.example.org"):
                    client, found = box.tunnel(f"{host}:443")
                    client.close()
                    equal(found.status, status, f"{host} by {program}")
        check(secure.connections >= 1, "the tunnel reached its origin")


main()
