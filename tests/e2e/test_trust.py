#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Peers, the policy for tools, and what waits for a master."""

import base64
import concurrent.futures
import contextlib
import os
import signal
import time

from client import Client
from daemon import PROFILE, PROFILES, Cut, Daemon
from harness import check, equal, main, test, wait_for
from peer import Peer, decide, master_token
from tcp import Tcp, serving

ONCE = {"only": "root", "because": "the daemon is the same for everybody"}

HELD = """\
version: 1
approvals: {{expiry: {expiry}}}
tools:
  sandbox_list: {{tier: 4, effect: none}}
  sandbox_create: {{tier: 2, effect: write, creates: true}}
"""


@contextlib.contextmanager
def holding(c, expiry="1h", more=""):
    """A daemon under a policy that holds calls."""
    bundle = c.write("bundle.yaml", HELD.format(expiry=expiry))
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'{more}}}") as d:
        yield d, Client(d)


@test
def a_peer_has_its_own_sandboxes_and_takes_them_with_it(c):
    with Daemon(c) as d:
        one, two, other = Peer(d.api), Peer(d.api), d.create()
        equal(one.role, "journeyman", "role")
        mine = one.create()
        equal([s["sandbox_id"] for s in one.request("GET", "/v1/sandboxes").expect(200).json["sandboxes"]], [mine], "list")
        for peer, box in ((two, mine), (one, other)):
            peer.request("GET", f"/v1/sandboxes/{box}").expect(404, code="not_found")
            peer.request("DELETE", f"/v1/sandboxes/{box}").expect(404, code="not_found")
        answer = one.api.post(f"/v1/sandboxes/{mine}/processes", {"argv": ["echo", "hi"]},
                              {"Accept": "application/json", "Sandboxer-Peer": one.token}).expect(200).json
        equal((answer["exit_code"], answer["stdout"]), (0, "hi\n"), "exec")
        cli = Client(d)
        shown = {p["id"]: p for p in cli.json("peers", "list")["peers"]}
        equal((shown[one.id]["sandboxes"], shown[two.id]["sandboxes"]), (1, 0), "sandboxes of peers")
        check("token" not in shown[one.id], "a token is shown")
        cli("peers", "end", one.id).expect(0)
        one.request("GET", "/v1/sandboxes").expect(401, code="unauthenticated")
        wait_for(lambda: d.get(mine)["state"] == "destroyed", "its sandbox goes with it")
        equal(d.get(other)["state"], "ready", "another's")
        wait_for(lambda: cli.lines("peers", "list", "-q") == [two.id], "it is gone")


@test(only="root", because="a session is of the user who began it, and tests begin it as root")
def the_command_line_can_be_a_peers(c):
    with Daemon(c) as d:
        peer, other = Peer(d.api), d.create()
        cli = Client(d, SANDBOXER_PEER=peer.token)
        mine = cli.create()
        equal(d.get(mine)["labels"], {"peer": peer.id}, "whose it is")
        equal(cli.lines("list", "-q"), [mine], "what it sees")
        equal(cli.sh(mine, "echo hello").expect(0).text, "hello", "what it runs")
        cli("get", other).expect(3, says="no sandbox")
        cli("peers", "list").expect(5, says="not available to peer sessions")
        cli("create", "--allow", "example.com:443").expect(5)
        for options in ((), ("--allow", "example.com:1"), ("--strict",), ("--untrusted", "/dev/null")):
            equal(cli("run", *options, "--", "echo", "ran").expect(125, says="use 'create' and 'exec'").text, "", f"run {options}")
        wait_for(lambda: events_of(d, "peer.refused"), "the refusal is on record")
        cli("destroy", mine).expect(0)
        Client(d, SANDBOXER_PEER="sbp_wrong")("list").expect(5, says="no such session")
        Client(d, SANDBOXER_PEER="a\nb")("list").expect((2, 125), says="SANDBOXER_PEER is not a valid token")


@test
def the_end_of_a_peer_survives_the_daemon(c):
    with Daemon(c) as d:
        peer = Peer(d.api)
        box = peer.create()
        d.kill()
        d.start()
        equal(peer.request("GET", f"/v1/sandboxes/{box}").expect(200).json["state"], "ready", "after a crash")
        d.api.delete(f"/v1/peers/{peer.id}").expect(204)
        d.kill()
        d.start()
        peer.request("GET", "/v1/sandboxes").expect(401)
        wait_for(lambda: d.get(box)["state"] == "destroyed", "the next daemon finishes it")


@test
def silence_ends_a_peer(c):
    with Daemon(c, config="trust: {silence: 5s}") as d:
        quiet, loud = Peer(d.api), Peer(d.api)
        box = quiet.create()

        def gone():
            d.api.post(f"/v1/peers/{loud.id}/heartbeat").expect(204)
            return d.get(box)["state"] == "destroyed"

        wait_for(gone, "the silent one's sandbox goes", seconds=40)
        loud.request("GET", "/v1/sandboxes").expect(200)


@test
def what_is_no_session_is_refused(c):
    with Daemon(c) as d:
        peer = Peer(d.api)
        for token in ("", "sbp_wrong", peer.token[:-1], peer.token + "0", peer.id):
            d.api.get("/v1/sandboxes", **{"Sandboxer-Peer": token}).expect(401, code="unauthenticated")
        for method, path in (("GET", "/v1/tokens"), ("POST", "/v1/tokens"), ("GET", "/v1/peers"), ("GET", "/metrics"),
                             ("POST", "/v1/trust/reload"), ("POST", "/v1/peers"), ("GET", "/v1/approvals")):
            peer.request(method, path, {} if method == "POST" else None).expect(403, code="denied")


@test
def the_policy_is_asked_and_its_refusals_are_on_record(c):
    with Daemon(c) as d:
        peer = Peer(d.api)
        for capabilities, field in (({"memory_mb": 4097}, "memory_mb"), ({"cpu_quota": 9}, "cpu_quota"),
                                    ({"duration_s": 1801}, "duration_s"), ({"wings": 2}, "wings")):
            answer = peer.request("POST", "/v1/sandboxes", {"capabilities": capabilities}).expect(400, code="invalid").json
            check(field in answer["detail"], f"{field} is not named: {answer['detail']}")

        def denied():
            return [e["detail"]["peer"] for e in d.api.get("/v1/events?limit=1000").expect(200).json["events"] if e["type"] == "peer.refused"]
        wait_for(lambda: len(denied()) >= 4, "the refusals are on record")
        equal(denied(), [peer.id] * 4, "events")
        equal(d.list(), [], "sandboxes")
        passed = [peer.request("GET", "/v1/sandboxes").expect(200).headers["Sandboxer-Audit"] for _ in range(2)]
        check(all(i.startswith("aud_") for i in passed) and len(set(passed)) == 2, f"each that passed has an id of its own: {passed}")
        missing = peer.request("DELETE", "/v1/sandboxes/sbx_00000000000000000001").expect(404)
        equal(missing.headers["Sandboxer-Audit"], missing.json["audit_id"], "passed, and refused for another reason")
        check(d.api.get("/v1/sandboxes").expect(200).headers["Sandboxer-Audit"] is None, "nobody asked about others")


@test
def limits_hold_across_restarts(c):
    bundle = c.write("bundle.yaml", "version: 1\nlimits: {journeyman: {sandboxes_per_hour: 2}}\n"
                                    "tools:\n  sandbox_create: {tier: 2, effect: write, creates: true}\n"
                                    "  sandbox_destroy: {tier: 2, effect: destroy}\n")
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'}}") as d:
        peer = Peer(d.api)
        peer.create()
        peer.request("DELETE", f"/v1/sandboxes/{peer.create()}").expect(200)
        for _ in range(2):
            answer = peer.request("POST", "/v1/sandboxes", {}).expect(429, code="quota").json
            equal((answer["kind"], answer["rule"]), ("rate_limit", "limits.journeyman.sandboxes_per_hour"), "the verdict")
            d.kill()
            d.start()
        d.api.delete(f"/v1/peers/{peer.id}").expect(204)
        Peer(d.api).request("POST", "/v1/sandboxes", {}).expect(429, code="quota")  # whoever registers again is the same
        d.kill()
        d.start()
        Peer(d.api).request("POST", "/v1/sandboxes", {}).expect(429, code="quota")


@test
def nobody_decides_what_they_asked_for(c):
    with holding(c) as (d, cli):
        peer, secret = Peer(d.api), master_token(d)
        request = peer.held()
        equal(cli.lines("approvals", "list", "-q"), [request], "what waits")
        answer = decide(d, request, "approve").expect(403, code="denied").json
        check("cannot approve your own request" in answer["detail"], f"{answer}")
        decide(d, request, "reject", reason="no").expect(403)
        decide(d, request, "approve", token="sbt_forged").expect(401)
        plain = d.api.post("/v1/tokens", {"name": "j", "verbs": ["read"]}).expect(201).json["token"]
        decide(d, request, "approve", token=plain).expect(403, code="denied")
        cli("approvals", "approve", request, "--uses", "3", env={"SANDBOXER_MASTER": secret}).expect((1, 2, 125), says="uses: needs 'grant'")
        equal(cli.json("approvals", "show", request)["state"], "pending", "state")
        cli("approvals", "approve", request, env={"SANDBOXER_MASTER": secret}).expect(0)
        cli("approvals", "approve", request, env={"SANDBOXER_MASTER": secret}).expect((3, 4))
        shown = cli.json("approvals", "show", request)
        check(shown["decided_by"].startswith("tok_") and shown["state"] != "pending", f"it was decided: {shown}")


@test
def a_rejection_says_why(c):
    with holding(c) as (d, cli):
        peer, secret = Peer(d.api), master_token(d)
        request = peer.held()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(peer.request, "GET", f"/v1/approvals/{request}?wait=60")
            decide(d, request, "reject", token=secret).expect(400, code="invalid")  # without a reason
            cli("approvals", "reject", request, "--reason", "not now", env={"SANDBOXER_MASTER": secret}).expect(0)
            told = waiting.result().expect(200).json
        equal((told["state"], told["reason"]), ("rejected", "not now"), "what the peer hears")
        equal(cli.lines("approvals", "list", "-q"), [], "what waits")
        check(request in cli.lines("approvals", "list", "--all", "-q"), "it is on record")


@test
def what_waits_survives_and_what_is_approved_is_not_lost(c):
    with holding(c) as (d, cli):
        peer, secret = Peer(d.api), {"SANDBOXER_MASTER": master_token(d)}
        first, second = peer.held(), peer.held()
        d.kill()
        d.start(SANDBOXER_DIE_AT="trust.approved:1")
        equal(sorted(cli.lines("approvals", "list", "-q")), sorted([first, second]), "what waits")
        cli("approvals", "approve", first, env=secret).expect((1, 3, 6, 125))
        d.wait()
        d.start()
        check(cli.json("approvals", "show", first)["state"] in ("approved", "running", "done"), "the approval is on disk")
        equal(cli.json("approvals", "show", second)["state"], "pending", "the other")
        cli("approvals", "approve", first, env=secret).expect((3, 4))


@test
def another_policy_invalidates_and_a_wrong_one_changes_nothing(c):
    with holding(c) as (d, cli):
        peer, secret = Peer(d.api), {"SANDBOXER_MASTER": master_token(d)}
        request = peer.held()
        version = cli.json("trust", "show")["version"]
        c.write("bundle.yaml", "version: 1\ntools:\n  sandbox_list: {tier: 9, effect: none}\n")
        cli("trust", "validate", "bundle.yaml").expect(1, out=None)
        verdict = cli.json("trust", "validate", "bundle.yaml", code=1)
        check("line 3" in verdict["problem"] and "tools.sandbox_list.tier" in verdict["problem"], f"{verdict}")
        cli("trust", "reload").expect(2, says="line 3")
        shown = cli.json("trust", "show")
        equal(shown["version"], version, "the last good one")
        check("line 3" in shown["problem"], f"the problem is not shown: {shown}")
        c.write("bundle.yaml", HELD.format(expiry="2h"))
        check(cli.json("trust", "reload")["version"] != version, "the version moves")
        cli("approvals", "approve", request, env=secret).expect((3, 4))
        wait_for(lambda: cli.json("approvals", "show", request)["state"] == "invalid", "it is invalid")


@test
def what_nobody_decides_expires(c):
    with holding(c, expiry="1s") as (d, cli):
        request = Peer(d.api).held()
        wait_for(lambda: cli.json("approvals", "show", request)["state"] == "expired", "it expires")


@test
def explain_says_what_and_why(c):
    with Daemon(c) as d:
        cli = Client(d)
        args = '{"sandbox_id":"sbx_4k7","command":"ls"}'
        cli("trust", "explain", "sandbox_exec", args).expect(0)
        shown = cli("trust", "explain", "sandbox_exec", args, "--network").expect(1).text
        for word in ("require_approval", "tools.sandbox_exec.when.network.approval", "tier 4", "-32002"):
            check(word in shown, f"{word} is not said: {shown}")
        told = cli.json("trust", "explain", "sandbox_exec", args, "--role", "apprentice", code=1)
        equal((told["verdict"], told["rule"]), ("deny", "tools.sandbox_exec.role"), "the verdict")
        equal([x["outcome"] for x in told["checks"]], ["passed"] * 3 + ["decided"] + ["not reached"] * 4, "checks")
        for network in (True, False):
            box = d.create(capabilities={"network": network})
            args = f'{{"sandbox_id":"{box}","command":"ls"}}'
            told = cli.json("trust", "explain", "sandbox_exec", args, code=int(network))
            equal(told["verdict"], "require_approval" if network else "allow", f"of the sandbox that it names, network {network}")
        cli("trust", "explain", "sandbox_exec", "{").expect((1, 2, 125), says="arguments")
        cli("trust", "explain", "no_such_tool").expect(1)


@test
def roles_come_from_tokens_and_gateways_only_lower_them(c):
    with serving(c, config="gateway: {trust: journeyman}\ntrust: {role: journeyman}") as (d, _, token):
        equal(Peer(d.api, client="master").role, "journeyman", "whatever the client says")
        for role in ("apprentice", "journeyman", "master"):
            holder, _ = token(role=role)
            equal(holder.post("/v1/peers").expect(201).json["role"], role, "a token's")
            equal(holder.post("/v1/peers", X_Trust_Level="master").expect(201).json["role"], "apprentice", "of no gateway")
            equal(d.api.request("POST", "/v1/peers", {}, {"X-Trust-Level": role}).expect(201).json["role"], "apprentice", "of the socket")
        gateway, _ = token(role="master", gateway=True)
        for said, role in (("master", "journeyman"), ("journeyman", "journeyman")):
            equal(gateway.post("/v1/peers", X_Trust_Level=said).expect(201).json["role"], role, f"a gateway says {said}")
        gateway.post("/v1/peers", X_Trust_Level="apprentice").expect(403)  # which may only look
        low, _ = token("admin", role="journeyman")
        low.post("/v1/tokens", {"name": "x", "role": "master"}).expect(403, code="denied")

GATED = """\
version: 1
tools:
  sandbox_list: {tier: 0, effect: none}
  sandbox_create: {tier: 4, effect: write, creates: true}
  sandbox_exec: {tier: 4, effect: execute}
  sandbox_write: {tier: 4, effect: write}
  sandbox_read: {tier: 4, effect: read}
  sandbox_destroy: {tier: 4, effect: write}
"""


def approved(d, peer, method, path, body=None):
    """A request that is held, is made again when it is approved: what that answered."""
    answer = peer.request(method, path, body).expect(403, code="denied").json
    equal(answer["kind"], "require_approval", "the verdict")
    decide(d, answer["request_id"], "approve", peer.master).expect(200)

    def over():
        record = d.api.get(f"/v1/approvals/{answer['request_id']}").expect(200).json
        return record if record["state"] == "done" else None
    return wait_for(over, "it has run")


@test
def what_was_asked_over_http_runs_as_it_was_asked(c):
    bundle = c.write("bundle.yaml", GATED)
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'}}") as d:
        peer = Peer(d.api)
        peer.master = master_token(d)
        # Fields that no tool has.
        made = approved(d, peer, "POST", "/v1/sandboxes",
                        {"labels": {"made": "late"}, "env": {"GREETING": "hello"}, "ttl": 77, "consumer": {"run_id": "r-7"}})
        equal((made["failed"], made["request"]), (False, "POST /v1/sandboxes"), f"the create: {made}")
        box = made["result"]["sandbox_id"]
        record = d.get(box)
        equal(record["labels"].get("made"), "late", "its label")
        equal([s["sandbox_id"] for s in peer.request("GET", "/v1/sandboxes").expect(200).json["sandboxes"]], [box], "whose it is")
        equal(len(d.list()), 1, "sandboxes")
        at = f"/v1/sandboxes/{box}"
        ran = approved(d, peer, "POST", f"{at}/processes", {"argv": ["/bin/sh", "-c", "echo $GREETING $MORE"], "env": {"MORE": "there"}})
        equal((ran["failed"], ran["result"]["stdout"], ran["result"]["exit_code"]), (False, "hello there\n", 0), "the exec")
        behind = approved(d, peer, "POST", f"{at}/processes", {"argv": ["sleep", "600"], "background": True, "tag": "late"})
        equal((behind["result"]["tag"], behind["result"]["state"]), ("late", "running"), "in the background")
        data = bytes(range(256)) * 1000
        written = approved(d, peer, "PUT", f"{at}/files?path=%2Ftmp%2Fa%20file&mode=0640", data)
        equal((written["failed"], written["args"]["path"]), (False, "/tmp/a file"), f"the write: {str(written)[:500]}")
        equal(d.api.get(f"{at}/files?path=/tmp/a%20file").expect(200).data, data, "what was written")
        equal(d.api.get(f"{at}/files/stat?path=/tmp/a%20file").expect(200).json["mode"], "0640", "its mode")
        read = approved(d, peer, "GET", f"{at}/files?path=/tmp/a%20file")
        equal(base64.b64decode(read["result"]["content"]), data, "what was read")
        wrong = approved(d, peer, "POST", f"{at}/processes", {"argv": ["true"], "timeout": "never"})
        equal(wrong["failed"], True, "one that is wrong")
        check("timeout" in wrong["result"]["detail"], f"why: {wrong['result']}")
        # One name says one thing, and what nobody would read cannot be smuggled past a master.
        evil = base64.b64encode(b'{"argv":["touch","/tmp/evil"]}').decode()
        for more in ({"content": evil}, {"sandbox_id": "sbx_other"}, {"wings": 2}):
            peer.request("POST", f"{at}/processes", {"argv": ["true"], **more}).expect(400, code="invalid")
        approved(d, peer, "DELETE", at)
        wait_for(lambda: d.get(box)["state"] == "destroyed", "it is gone")


@test
def a_key_makes_one_sandbox_also_when_it_was_held(c):
    bundle = c.write("bundle.yaml", GATED)
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'}}") as d:
        peer = Peer(d.api)
        peer.master = master_token(d)
        key = {"Sandboxer-Peer": peer.token, "Idempotency-Key": "once"}
        peer.request = lambda method, path, body: d.api.request(method, path, body, key)
        boxes = {approved(d, peer, "POST", "/v1/sandboxes", {})["result"]["sandbox_id"] for _ in range(2)}
        equal((len(boxes), len(d.list())), (1, 1), "sandboxes")


@test
def what_waits_is_its_peers_alone_and_not_without_end(c):
    bundle = c.write("bundle.yaml", GATED + "approvals: {pending_per_peer: 100}\n")
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'}}") as d:
        one, two = Peer(d.api), Peer(d.api)
        request = one.request("POST", "/v1/sandboxes", {}).expect(403).json["request_id"]
        one.request("GET", f"/v1/approvals/{request}").expect(200)
        two.request("GET", f"/v1/approvals/{request}").expect(404, code="not_found")
        # As long as a body may be; by all peers of one user together.
        long = {"env": {"A": "x" * 900_000}}
        answers = [(one, two)[n % 2].request("POST", "/v1/sandboxes", long) for n in range(12)]
        refused = [a for a in answers if a.code == "quota"]
        check(0 < len(refused) < 12, f"refused: {[(a.status, a.code) for a in answers]}")
        check("wait for a master" in refused[0].json["detail"], f"why: {refused[0].json}")
        listed = d.api.get("/v1/approvals").expect(200)
        check(len(listed.data) < 100_000, "a list has long arguments")
        equal(len(listed.json["approvals"]), 13 - len(refused), "calls that wait")
        d.kill()
        d.start()
        equal(len(d.api.get("/v1/approvals").expect(200).json["approvals"]), 13 - len(refused), "after a crash")


@test
def limits_count_when_an_approved_call_runs(c):
    bundle = c.write("bundle.yaml", GATED + "limits: {journeyman: {concurrent: 1}}\n")
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'}}") as d:
        peer = Peer(d.api)
        master = master_token(d)
        held = [peer.request("POST", "/v1/sandboxes", {}).expect(403).json["request_id"] for _ in range(3)]
        for request in held:
            decide(d, request, "approve", master).expect(200)

        def over():
            records = [d.api.get(f"/v1/approvals/{request}").expect(200).json for request in held]
            return records if all(r["state"] == "done" for r in records) else None
        records = wait_for(over, "they have run")
        equal(sorted(r["failed"] for r in records), [False, True, True], f"what came of them: {records}")
        equal(len(d.list()), 1, "sandboxes")


@test
def minutes_that_are_used_up_end_what_lives(c):
    bundle = c.write("bundle.yaml", "version: 1\nlimits: {journeyman: {minutes_per_day: 1}}\n"
                     "tools: {sandbox_create: {tier: 2, effect: write, creates: true}, sandbox_list: {tier: 0, effect: none}}\n")
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'}}") as d:
        peer, other = Peer(d.api), d.create()
        boxes = [peer.create(ttl="1h") for _ in range(6)]  # together they live ten seconds
        wait_for(lambda: all(d.get(box)["state"] == "destroyed" for box in boxes), "they are ended", seconds=60)
        check("minute" in d.get(boxes[0])["reason"], f"why: {d.get(boxes[0])['reason']}")
        equal(d.get(other)["state"], "ready", "another's")
        answer = peer.request("POST", "/v1/sandboxes", {}).expect(429).json
        check("minute" in answer["detail"], f"why: {answer}")


@test
def a_grant_is_for_one_network_however_it_is_named(c):
    with Daemon(c) as d:
        peer = Peer(d.api)
        master = master_token(d)
        asked = {"capabilities": {"network": ["example.com:1"]}}
        request = peer.request("POST", "/v1/sandboxes", asked).expect(403).json["request_id"]
        decide(d, request, "approve", master, grant="10m").expect(200)
        wait_for(lambda: d.api.get(f"/v1/approvals/{request}").expect(200).json["state"] == "done", "it has run")
        peer.create(**asked)
        for more in ({"egress": {"allow": ["evil.example:443"]}}, {"profile": "profile.short"},
                     {"capabilities": {"network": ["example.com:2"]}}):
            answer = peer.request("POST", "/v1/sandboxes", {**asked, **more}).expect(403).json
            equal(answer["kind"], "require_approval", f"with {more}")


@test(**ONCE)
def death_on_the_way_makes_no_request_twice(c):
    bundle = c.write("bundle.yaml", GATED)
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'}}") as d:
        peer, master = Peer(d.api), master_token(d)
        for point, state, made in (("trust.approved:1", "done", 1), ("replay.begun:1", "interrupted", 0), ("trust.ran:1", "interrupted", 1)):
            before = len(d.list())
            request = peer.request("POST", "/v1/sandboxes", {}).expect(403).json["request_id"]
            d.stop()
            d.start(SANDBOXER_DIE_AT=point)
            with contextlib.suppress(Cut):
                decide(d, request, "approve", master)
            d.wait()
            d.start()
            equal(outcome(d, request)["state"], state, f"{point}: its state")
            equal(len(d.list()) - before, made, f"{point}: how often it was made")
            decide(d, request, "approve", master).expect(404, 409)


@test
def what_cannot_be_shown_to_a_master_is_not_held(c):
    bundle = c.write("bundle.yaml", GATED.replace("sandbox_create: {tier: 4", "sandbox_create: {tier: 2"))
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'}}") as d:
        peer = Peer(d.api)
        box = peer.create()
        answer = peer.request("PUT", f"/v1/sandboxes/{box}/files?path=/tmp/big", b"x" * (600 << 10)).expect(403, code="denied")
        equal(answer.json["kind"], "deny", "the verdict")
        check("grant" in answer.json["detail"], f"what to do: {answer.json}")
        equal(d.api.get("/v1/approvals").expect(200).json["approvals"], [], "held calls")


@test
def a_ticket_is_nobodys_but_ours(c):
    """Requests are made again with a secret; who says one does not get in by it."""
    with serving(c) as (d, port, _):
        for ticket in ("", "0" * 40, "f" * 40):
            Tcp(port, "wrong").get("/v1/sandboxes", **{"Sandboxer-Approved": ticket}).expect(401)
            d.api.get("/v1/sandboxes", **{"Sandboxer-Approved": ticket}).expect(200)  # by its user, as always


def hold_create(holder):
    """Of a peer of its own: its id."""
    session = holder.post("/v1/peers").expect(201).json["token"]
    return holder.post("/v1/sandboxes", Sandboxer_Peer=session).expect(403).json["request_id"]


def events_of(d, kind):
    return [e for e in d.api.get("/v1/events?limit=1000").expect(200).json["events"] if e["type"] == kind]


def outcome(d, request):
    return wait_for(lambda: (r := d.api.get(f"/v1/approvals/{request}").expect(200).json)["state"] in ("done", "invalid", "interrupted") and r, "it is over")


@test(**ONCE)
def what_waits_goes_with_its_token(c):
    bundle = c.write("bundle.yaml", GATED)
    with serving(c, config=f"trust: {{bundle: '{bundle}'}}") as (d, _, token):
        master = master_token(d)
        for how, ttl in (("its token was revoked", "1h"), ("its token expired", "8s")):
            holder, identity = token(ttl=ttl)
            request = hold_create(holder)
            if "revoked" in how:
                d.api.delete(f"/v1/tokens/{identity}").expect(200, 204)
            record = outcome(d, request)
            equal([record["state"], record["reason"]], ["invalid", "its peer has ended"], f"{how}: {record}")
            decide(d, request, "approve", master).expect(404, 409)
            wait_for(lambda how=how: [e["reason"] for e in events_of(d, "peer.ended")][-1:] == [how], f"the peer ended: {how}")
            equal(d.list(), [], f"{how}: sandboxes")


def approve_and_outlive(d, request, token, over):
    """The daemon is to stop or die on its way to running it: then the token's time passes. False: it had passed before."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        decision = pool.submit(decide, d, request, "approve", token)
        wait_for(lambda: decision.done() or d.stopped, "it is on its way")
        stopped = d.stopped
        wait_for(lambda: time.time() > over, "the token's time is over", seconds=60)
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        with contextlib.suppress(Cut):
            return decision.result().status == 200
        return True


@test(**ONCE)
def a_token_that_ends_on_the_way_runs_nothing(c):
    bundle = c.write("bundle.yaml", GATED)
    with serving(c, config=f"trust: {{bundle: '{bundle}'}}") as (d, port, token):
        master, listen = master_token(d), ("--listen", f"127.0.0.1:{port}")

        def attempt(ttl, **hook):
            holder, _ = token(ttl=f"{ttl}s")
            over = time.time() + ttl + 1
            request = hold_create(holder)
            d.stop()
            d.start(args=listen, **hook)
            reached = approve_and_outlive(d, request, master, over)
            if reached and "SANDBOXER_DIE_AT" in hook:
                d.wait()
            else:
                if reached:
                    outcome(d, request)  # a daemon that is told to end would say of what it runs that it was interrupted
                d.stop()
            d.start(args=listen)
            return reached and outcome(d, request)

        def reached(**hook):
            """Whatever is slow here, some time is long enough."""
            return next(record for ttl in (4, 8, 16, 32) if (record := attempt(ttl, **hook)))
        record = reached(SANDBOXER_STOP_AT="replay.begun:1")
        equal([record["state"], record["failed"]], ["done", True], f"made again without a token: {record}")
        check("no longer known" in record["result"]["detail"], f"why: {record}")
        record = reached(SANDBOXER_DIE_AT="trust.approved:1")
        equal([record["state"], record["reason"]], ["invalid", "its peer has ended"], f"taken up without a token: {record}")
        check("its token no longer exists" in [e["reason"] for e in events_of(d, "peer.ended")], "why the peer ended")
        equal(d.list(), [], "sandboxes")


@test
def a_peer_has_the_network_that_it_declares(c):
    d = Daemon(c)
    c.write("daemon/profiles/out.yaml", PROFILE.format(id="profile.out", **PROFILES["profile.sandbox-canary"])
            + "network: {egress: [{host: b.test, port: 80}]}\n")
    with d:
        peer = Peer(d.api)
        box = peer.create(profile="profile.out")
        check("egress" not in d.get(box), f"a network that nobody was asked about: {d.get(box)}")
        peer.request("POST", "/v1/sandboxes", {"egress": {"allow": ["a.test"]}}).expect(403, code="denied")
        for capabilities in ({"network": True}, {"network": ["a.test"]}):
            answer = peer.request("POST", "/v1/sandboxes", {"profile": "profile.out", "capabilities": capabilities})
            equal(answer.expect(403).json["kind"], "require_approval", f"{capabilities}")
        check("egress" in d.get(d.create(profile="profile.out")), "others have what the profile says")
        box = d.create(capabilities={"network": ["a.test:8443"]})
        check("a.test" in str(d.api.get(f"/v1/sandboxes/{box}/egress").expect(200).json), "hosts are what it may reach")
        d.api.post("/v1/sandboxes", {"capabilities": {"network": "a.test"}}).expect(400, code="invalid")
        d.api.post("/v1/sandboxes", {"capabilities": {"network": [1]}}).expect(400, code="invalid")


main()
