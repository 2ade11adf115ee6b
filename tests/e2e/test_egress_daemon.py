#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Egress through a daemon: what its sandboxes reach, and that nothing else does, come what may."""

import concurrent.futures
import contextlib
import hashlib
import json
import os
import signal
import sqlite3

from client import Client
from daemon import PROFILE, PROFILES, Daemon
from egress_world import OUTSIDE, PUBLIC, PUBLIC_TOO, RESOLVER, World, echo
from harness import Skip, check, equal, main, test, wait_for

CONFIG = f"egress: {{workers: 1, resolvers: ['{RESOLVER}']}}"
MANY = 100  # more than are handed over at once
NAME, OTHER = "api.example.com", "other.example.com"
NETWORK = f"network: {{egress: [{{host: {NAME}, port: 80}}]}}\n"

# Without a proxy, as any program that has never heard of one.
RAW = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
s.sendall(b"ping")
print(s.recv(4).decode())
"""


def started(c, w, config=CONFIG, **more):
    """A daemon inside the world."""
    d = Daemon(c, config=config, **more)
    w.dns.names.update({NAME: [PUBLIC], OTHER: [PUBLIC_TOO]})
    return d


class Inside:
    """A daemon whose every start is in the world's namespace."""

    def __init__(self, c, w, config=CONFIG):
        self.d = started(c, w, config)
        spawn = self.d.spawn
        self.d.spawn = lambda *args, **options: w.inside.run(lambda: spawn(*args, **options))

    def __enter__(self):
        return self.d.__enter__()

    def __exit__(self, *what):
        return self.d.__exit__(*what)


def curl(d, box, url, *flags):
    return d.api.run(box, ["curl", "-sS", "-m", "20", *flags, url]).expect(200).json


def reaches(d, box, url, *flags):
    seen = curl(d, box, url, *flags)
    equal((seen["exit_code"], seen["stdout"]), (0, "hello\n"), f"{url} in {box}: {seen}")


def refused(d, box, url, *flags):
    seen = curl(d, box, url, "-f", *flags)
    check(seen["exit_code"] != 0, f"{url} in {box}: {seen}")


def allowed(d, *items, **more):
    return d.create(egress={"allow": list(items)}, **more)


def workers(d):
    return d.parts("sandboxer-egres")


def put(d, box, policy):
    return d.api.request("PUT", f"/v1/sandboxes/{box}/egress", policy.encode())


def policy_of(host, port):
    return f"version: 1\nnetwork_policies: {{a: {{endpoints: [{{host: {host}, port: {port}}}], " \
           f"binaries: [{{path: /**}}]}}}}\n"


@test
def what_is_allowed_is_reached_and_nothing_else(c):
    with World() as w:
        w.http(PUBLIC, 80)
        other = w.http(PUBLIC_TOO, 80)
        w.origin(PUBLIC, 7, echo)
        with Inside(c, w) as d:
            box = allowed(d, f"{NAME}:80,7")
            reaches(d, box, f"http://{NAME}/")
            reaches(d, box, f"http://{NAME}/", "--noproxy", "*")
            refused(d, box, f"http://{OTHER}/")
            refused(d, box, f"http://{OTHER}/", "--noproxy", "*")
            refused(d, box, f"http://{PUBLIC_TOO}/", "--noproxy", "*")
            seen = d.api.run(box, ["python3", "-c", RAW, NAME, "7"]).json
            equal(seen["stdout"], "ping\n", f"raw TCP: {seen}")
            check(other.connections == 0, "the other origin was reached")
            check((OTHER, "A") not in w.dns.asked, f"a name that is not allowed was asked for: {w.dns.asked}")
            wait_for(lambda: d.get(box)["egress"]["denied"] >= 3, "denials are counted")
            shown = d.get(box)["egress"]
            equal((shown["generation"], shown["in_force"], shown["endpoints"]), (1, 1, 1), "egress")
            check(shown["allowed"] >= 3 and shown["bytes_in"] > 0, f"counters: {shown}")


@test
def without_egress_there_is_no_network(c):
    with World() as w:
        web = w.http(PUBLIC, 80)
        with Inside(c, w) as d:
            box = d.create()
            refused(d, box, f"http://{PUBLIC}/")
            check("egress" not in d.get(box), "egress is shown")
            d.api.get(f"/v1/sandboxes/{box}/egress").expect(409, code="conflict")
            put(d, box, policy_of(NAME, 80)).expect(409, code="conflict")
            equal(workers(d), [], "workers that nobody needs")
            equal(web.connections, 0, "connections")


@test
def a_policy_that_cannot_be_kept_is_refused(c):
    with World() as w:
        with Inside(c, w) as d:
            for egress in ({"allow": ["not a host"]}, {"policy": "version: 7"}, {"policy": {"version": 1, "x": 1}}):
                d.api.post("/v1/sandboxes", {"egress": egress}).expect(400, code="invalid")
            d.api.post("/v1/sandboxes", {"egress": {}, "capabilities": {"network": False}}).expect(400)
            box = allowed(d, f"{NAME}:80")
            answer = put(d, box, "version: 1\nnetwork_policies: {a: {endpoints: [{host: 'x y', port: 80}], binaries: [{path: '/**'}]}}\n")
            check("endpoints[0].host" in answer.expect(400, code="invalid").json["detail"], str(answer))
            equal(d.get(box)["egress"]["generation"], 1, "generation")
            for text, valid in ((policy_of(NAME, 80), True), ("version: 1\nnope: 1\n", False)):
                answer = d.api.request("POST", "/v1/egress/check", text.encode()).expect(200)
                equal(answer.json["valid"], valid, f"verdict: {answer}")
            for to, verdict in ((f"{NAME}:80", "allowed"), (f"{OTHER}:80", "denied"), (NAME, "denied")):
                answer = d.api.post("/v1/egress/explain", {"policy": policy_of(NAME, 80), "to": to}).expect(200)
                equal(answer.json["verdict"], verdict, f"{to}: {answer}")
            d.api.post("/v1/egress/explain", {"policy": "x: 1", "to": NAME}).expect(400, code="invalid")
            d.api.post("/v1/egress/explain", {"policy": policy_of(NAME, 80), "to": "a b"}).expect(400)


MIRROR, LAB = "mirror.corp.example", "a.lab.example"
PLACED = f"egress: {{workers: 1, resolvers: ['{RESOLVER}'], names: ['{MIRROR}:443,8443={OUTSIDE}', '*.lab.example:80=10.77.0.0/30']}}"
WAYS = [], ["--noproxy", "*"]


@test
def a_name_is_reached_where_the_configuration_places_it(c):
    """With TLS and without a lookup, by the name alone; in a range, where the lookup says."""
    with World() as w:
        w.dns.names.update({MIRROR: [PUBLIC_TOO], LAB: [OUTSIDE], "b.lab.example": ["10.77.0.9"]})
        mirror, lab = w.secure(c.dir, MIRROR, OUTSIDE), w.http(OUTSIDE, 80)
        trust = ["--cacert", "/tmp/authority.pem"]
        with Inside(c, w, PLACED) as d:
            box = allowed(d, f"{MIRROR}:443,8080", f"{LAB}:80", "b.lab.example:80")
            d.api.run(box, ["sh", "-c", 'echo "$0" >/tmp/authority.pem', mirror.certificate.read_text()]).expect(200)
            for way in WAYS:
                reaches(d, box, f"https://{MIRROR}/", *trust, *way)
                reaches(d, box, f"http://{LAB}/", *way)
                refused(d, box, "http://b.lab.example/", *way)
            equal((mirror.connections, lab.connections), (len(WAYS), len(WAYS)), "connections")
            check(not any(name == MIRROR for name, _ in w.dns.asked), f"the name was looked up: {w.dns.asked}")
            endpoints = d.api.get(f"/v1/sandboxes/{box}/egress").expect(200).json["policy"]["network_policies"]["allow"]["endpoints"]
            equal([(e["host"], e["ports"], e.get("allowed_ips", [])) for e in endpoints],
                  [(MIRROR, [443], [OUTSIDE]), (LAB, [80], ["10.77.0.0/30"]), ("b.lab.example", [80], ["10.77.0.0/30"]), (MIRROR, [8080], [])],
                  "endpoints")
            put(d, box, policy_of(MIRROR, 443)).expect(200)
            reaches(d, box, f"https://{MIRROR}/", *trust)
            said = d.api.request("POST", "/v1/egress/explain", {"policy": policy_of(MIRROR, 443), "to": f"{MIRROR}:443"}).expect(200).json
            equal(said["verdict"], "allowed", f"what explain says: {said}")


@test
def package_managers_reach_a_mirror_that_the_configuration_places(c):
    """Its name stands in a variable of the profile; without the configuration it is refused for where it is."""
    variables = {"pip3": "PIP_INDEX_URL", "npm": "NPM_CONFIG_REGISTRY", "go": "GOPROXY"}
    found = [name for program, name in variables.items() if os.path.exists(f"/usr/bin/{program}")]
    if not found:
        raise Skip(f"none of {', '.join(variables)} is in /usr/bin")
    profile = PROFILE.format(id="profile.packages", **PROFILES["profile.pooled"]) + f"env: {{{found[0]}: 'https://{MIRROR}/simple'}}\n"
    c.write("daemon/profiles/packages.yaml", profile)
    with World() as w:
        w.dns.names[MIRROR] = [OUTSIDE]
        mirror = w.secure(c.dir, MIRROR, OUTSIDE)
        with Inside(c, w, PLACED) as d:
            box = d.create(profile="profile.packages", egress={"packages": True})
            for way in WAYS:
                reaches(d, box, f"https://{MIRROR}/simple", "-k", *way)
            equal((mirror.connections, (MIRROR, "A") in w.dns.asked), (len(WAYS), False), "connections, and whether it was looked up")
        with Inside(c, w) as d:
            box = d.create(profile="profile.packages", egress={"packages": True})
            said = curl(d, box, f"https://{MIRROR}/simple", "-k")
            check(said["exit_code"] != 0 and MIRROR in d.api.get(f"/v1/sandboxes/{box}/egress/denials").expect(200).data.decode(), f"{said}")
        equal(mirror.connections, len(WAYS), "connections without the entry")


@test
def a_new_policy_holds_at_once_and_ends_what_it_forbids(c):
    with World() as w:
        w.http(PUBLIC_TOO, 80)
        origin = w.origin(PUBLIC, 7, echo)
        with Inside(c, w) as d:
            box = allowed(d, f"{NAME}:7")
            hold = "import socket,sys\ns = socket.create_connection((sys.argv[1], 7), 5)\ns.sendall(b'x')\n" \
                   "s.recv(1)\ns.settimeout(30)\ntry: print(len(s.recv(1)))\nexcept OSError as e: print(e.errno)\n"
            d.api.post(f"/v1/sandboxes/{box}/processes",
                       {"argv": ["python3", "-c", hold, NAME], "background": True}).expect(200, 201, 202)
            wait_for(lambda: origin.bytes == b"x", "the tunnel stands")
            answer = put(d, box, policy_of(OTHER, 80)).expect(200).json
            equal((answer["generation"], answer["in_force"]), (2, 2), "generations")
            wait_for(lambda: origin.closed == 1, "the tunnel is closed")
            reaches(d, box, f"http://{OTHER}/")
            equal([e["type"] for e in d.api.get(f"/v1/sandboxes/{box}/events").json["events"]].count("egress.policy"),
                  1, "events")
            got = d.api.get(f"/v1/sandboxes/{box}/egress").expect(200).json
            equal(list(got["policy"]["network_policies"]), ["a"], "the policy")


@test
def two_sandboxes_have_two_policies(c):
    with World() as w:
        w.http(PUBLIC, 80)
        w.http(PUBLIC_TOO, 80)
        with Inside(c, w) as d:
            one, two = allowed(d, f"{NAME}:80"), allowed(d, f"{OTHER}:80")
            reaches(d, one, f"http://{NAME}/")
            reaches(d, two, f"http://{OTHER}/")
            refused(d, one, f"http://{OTHER}/")
            refused(d, two, f"http://{NAME}/")
            put(d, one, policy_of(OTHER, 80)).expect(200)
            reaches(d, one, f"http://{OTHER}/")
            refused(d, two, f"http://{NAME}/")


@test
def the_profile_says_what_its_sandboxes_reach(c):
    with World() as w:
        w.http(PUBLIC, 80)
        w.http(PUBLIC_TOO, 80)
        with Inside(c, w) as d:
            c.write("daemon/profiles/net.yaml", PROFILE.format(id="profile.net", **{
                **PROFILES["profile.pooled"], "pool": 1}) + NETWORK)
            d.stop()
            d.start()
            wait_for(lambda: d.api.get("/v1/inspect/host").json["pool_ready"] >= 3, "the pool is filled")
            box = d.create(profile="profile.net")
            reaches(d, box, f"http://{NAME}/")
            refused(d, box, f"http://{OTHER}/")
            more = allowed(d, f"{OTHER}:80", profile="profile.net")
            reaches(d, more, f"http://{NAME}/")
            reaches(d, more, f"http://{OTHER}/")
            none = d.create(profile="profile.net", capabilities={"network": False})
            refused(d, none, f"http://{NAME}/")


@test
def a_dead_worker_is_replaced_and_nothing_passes_meanwhile(c):
    with World() as w:
        w.http(PUBLIC, 80)
        with Inside(c, w) as d:
            box = allowed(d, f"{NAME}:80")
            reaches(d, box, f"http://{NAME}/")
            old = workers(d)
            equal(len(old), 1, "workers")
            status = dict(line.split(":", 1) for line in open(f"/proc/{old[0]}/status"))
            check(int(status["Uid"].split()[0]) not in (0, 61741), "a worker is nobody else's user")
            equal(int(status["CapPrm"], 16), 0, "its capabilities")
            os.kill(old[0], signal.SIGKILL)
            wait_for(lambda: workers(d) not in (old, []), "another worker")
            wait_for(lambda: d.get(box)["egress"]["in_force"] == 1, "the policy is in force again")
            reaches(d, box, f"http://{NAME}/")
            refused(d, box, f"http://{OTHER}/")


@test
def many_sandboxes_find_their_way_to_the_next_worker(c):
    with World() as w:
        w.http(PUBLIC, 80)
        with Inside(c, w) as d:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                boxes = list(pool.map(lambda n: allowed(d, f"{NAME}:80", f"n{n}.example.com:80"), range(MANY)))
            old = workers(d)
            os.kill(old[0], signal.SIGKILL)
            wait_for(lambda: workers(d) not in (old, []), "another worker")
            wait_for(lambda: all(d.get(box)["egress"]["in_force"] == 1 for box in boxes), "all have their policies")
            for box in boxes[::20]:
                reaches(d, box, f"http://{NAME}/")
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(d.destroy, boxes))


@test
def the_network_is_back_after_the_daemon_was_killed(c):
    with World() as w:
        w.http(PUBLIC, 80)
        w.http(PUBLIC_TOO, 80)
        with Inside(c, w) as d:
            box = allowed(d, f"{NAME}:80")
            put(d, box, policy_of(OTHER, 80)).expect(200)
            reaches(d, box, f"http://{OTHER}/")
            d.kill()
            d.start()
            wait_for(lambda: d.get(box)["egress"]["in_force"] == 2, "the policy is in force again")
            reaches(d, box, f"http://{OTHER}/")
            refused(d, box, f"http://{NAME}/")


@test
def a_stored_policy_that_is_no_longer_valid_lets_nothing_through(c):
    """A row of an older version's store, whose endpoint this version knows to be useless."""
    rest = f"version: 1\nnetwork_policies: {{a: {{endpoints: [{{host: {NAME}, port: 80, protocol: rest, access: full}}]}}}}\n"
    with World() as w:
        web = w.http(PUBLIC, 80)
        with Inside(c, w) as d:
            box, other = allowed(d, f"{NAME}:80"), allowed(d, f"{NAME}:80")
            put(d, box, rest).expect(200)
            reaches(d, box, f"http://{NAME}/")
            d.stop()
            with contextlib.closing(sqlite3.connect(next(d.state.glob("**/*.db")))) as db, db:
                changed = db.execute("UPDATE egress SET policy = replace(policy, '\"ports\":[80]', '\"ports\":[443]') "
                                     "WHERE policy LIKE '%rest%'").rowcount
            equal(changed, 1, "rows that became an older version's")
            d.start()
            wait_for(lambda: d.get(other)["egress"]["in_force"] == 1, "the other sandbox's policy is in force")
            reaches(d, other, f"http://{NAME}/")
            before = web.connections
            wait_for(lambda: "nothing can pass on port 443" in curl(d, box, f"http://{NAME}/")["stdout"], "a refusal with its reason")
            check("policy_missing" in curl(d, box, f"http://{NAME}/")["stdout"], "the refusal's code")
            refused(d, box, f"http://{NAME}/", "--noproxy", "*")
            equal(web.connections, before, "connections to the origin")
            equal(d.get(box)["egress"]["in_force"], 0, "the generation in force")
            check("nothing can pass on port 443" in d.log_path.read_text(errors="replace"), "the reason is in the log")
            log = d.api.get(f"/v1/sandboxes/{box}/egress/log").expect(200).data
            check(b"nothing can pass on port 443" in log, f"the reason is on record: {log[-600:]}")
            put(d, box, rest).expect(200)
            reaches(d, box, f"http://{NAME}/")


USELESS = "nothing can pass on port 443"  # why the policy below is invalid


def spoil(d, where):
    """Turns a row into one that an older version may have written: its endpoint is invalid."""
    with contextlib.closing(sqlite3.connect(next(d.state.glob("**/*.db")))) as db, db:
        return db.execute("UPDATE egress SET policy = replace(policy, '\"ports\":[80]', '\"ports\":[443]') WHERE sandbox = ?", (where,)).rowcount


def says_why(cli, d, box, why, generation):
    """Everywhere a person looks: which sandbox, which rule, why, what to do."""
    remedy = f"sandboxer egress set {box} FILE"
    for argv, code in ((("get", box), 0), (("egress", "get", box), 0), (("egress", "check", box), 1), (("egress", "explain", box, "--to", f"{NAME}:80"), 2)):
        said = cli(*argv).expect(code)
        for word in (*why, remedy):
            check(word in said.text + said.notes, f"{argv} does not mention {word!r}: {said}")
    for seen in (cli.json("get", box)["egress"], cli.json("egress", "get", box)):
        equal((seen["generation"], seen["in_force"]), (generation, 0), "generations")
        check(all(word in seen["problem"] for word in (*why, remedy)), seen["problem"])
    lines = [line for line in d.log_path.read_text(errors="replace").splitlines() if "egress.policy_failed" in line and box in line]
    equal(len(lines), 1, f"lines of the log about {box}: {lines}")
    check(all(word in lines[0] for word in (*why, remedy)), lines[0])


@test
def a_stored_policy_that_does_not_load_is_explained(c):
    rest = f"version: 1\nnetwork_policies: {{a_rule: {{endpoints: [{{host: {NAME}, port: 80, protocol: rest, access: full}}]}}}}\n"
    with World() as w:
        w.http(PUBLIC, 80)
        with Inside(c, w) as d:
            cli = Client(d)
            good = d.create(egress={"policy": rest})
            broken, lost, paused = boxes = [d.create(egress={"policy": rest}) for _ in range(3)]
            equal(cli("egress", "check", good).expect(0).text.count(NAME), 1, "a sandbox's policy can be checked")
            cli("egress", "explain", good, "--to", f"{NAME}:80").expect(0)
            cli("egress", "explain", good, "--to", "other.example:80").expect(1)
            d.api.post(f"/v1/sandboxes/{paused}/pause").expect(200)
            d.stop()
            equal((spoil(d, broken), spoil(d, paused)), (1, 1), "rows that became an older version's")
            with contextlib.closing(sqlite3.connect(next(d.state.glob("**/*.db")))) as db, db:
                equal(db.execute("DELETE FROM egress WHERE sandbox = ?", (lost,)).rowcount, 1, "rows that are lost")
            d.log_path.write_bytes(b"")
            d.start()
            wait_for(lambda: d.get(good)["egress"]["in_force"] == 1, "the other sandbox's policy is in force")
            for box in (broken, lost):  # the worker has looked at them, too
                refused(d, box, f"http://{NAME}/")
            for box, why in zip(boxes, (("a_rule", USELESS), ("no policy",), ("a_rule", USELESS))):
                says_why(cli, d, box, why, 1)
            check("problem" not in d.get(good)["egress"], f"{d.get(good)['egress']}")
            d.api.post(f"/v1/sandboxes/{paused}/resume").expect(200)
            refused(d, paused, f"http://{NAME}/")
            says_why(cli, d, paused, ("a_rule", USELESS), 1)
            # What is advised helps.
            valid = c.write("valid.yaml", rest)
            for box in boxes:
                cli("egress", "set", box, valid).expect(0)
                reaches(d, box, f"http://{NAME}/")
                check("problem" not in d.get(box)["egress"], f"{d.get(box)['egress']}")
                cli("egress", "check", box).expect(0)


@test
def a_rule_for_a_program_is_for_that_program(c):
    with World() as w:
        w.http(PUBLIC, 80)
        origin = w.origin(PUBLIC, 7, echo)
        with Inside(c, w) as d:
            box = d.create(egress={"policy": f"version: 1\nnetwork_policies: {{a: {{endpoints: [{{host: {NAME}, "
                                             "ports: [7, 80]}], binaries: [{path: /usr/bin/curl}]}}\n"})
            for _ in range(3):
                reaches(d, box, f"http://{NAME}/")
                reaches(d, box, f"http://{NAME}/", "--noproxy", "*")
            seen = d.api.run(box, ["python3", "-c", RAW, NAME, "7"]).json
            check(seen["exit_code"] != 0, f"another program: {seen}")
            equal(origin.bytes, b"", "what the origin heard of it")
            log = d.state / "daemon/egress" / f"{box}.jsonl"
            wait_for(lambda: "/usr/bin/curl" in log.read_text(), "the program is on record")
            digest = hashlib.sha256(open("/usr/bin/curl", "rb").read()).hexdigest()
            check(digest in log.read_text().lower(), f"its hash is on record: {log.read_text()}")


@test
def every_decision_is_on_record(c):
    with World() as w:
        w.http(PUBLIC, 80)
        with Inside(c, w) as d:
            box = allowed(d, f"{NAME}:80")
            reaches(d, box, f"http://{NAME}/")
            refused(d, box, f"http://{OTHER}/")
            log = d.state / "daemon/egress" / f"{box}.jsonl"
            wait_for(lambda: len(log.read_text().splitlines()) >= 2, "two lines")
            equal(log.stat().st_mode & 0o777, 0o600, "mode")
            hosts = [json.loads(line) for line in log.read_text().splitlines()]
            check(any(OTHER in json.dumps(h) for h in hosts), f"the denial: {hosts}")
            path = f"/v1/sandboxes/{box}/egress"
            equal(d.api.get(f"{path}/log").expect(200).data.decode(), log.read_text(), "the log")
            equal(d.api.get(f"{path}/log?tail=1").lines, hosts[-1:], "its last line")
            found = d.api.get(f"{path}/denials").expect(200).json["denials"]
            equal([(x["host"], x["port"], x["code"]) for x in found], [(OTHER, 80, "policy_denied")], "denials")
            connection, response = d.api.open("GET", f"{path}/log?follow=true&tail=1")
            equal(json.loads(response.readline()), hosts[-1], "where it begins")
            refused(d, box, "http://third.example.com/")
            check("third.example.com" in response.readline().decode(), "what came while it was followed")
            d.destroy(box)
            response.read()
            connection.close()
            d.api.get(f"{path}/log").expect(200)
            d.api.get(f"/v1/sandboxes/{d.create()}/egress/log").expect(404, code="not_found")


main()
