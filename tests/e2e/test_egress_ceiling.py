#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Egress ceilings: how far the policies of tenants may reach, at every interface, and what the worker denies again."""

import contextlib
import json
import sqlite3

import daytona
import e2b
from client import Client
from daemon import PROFILE, PROFILES, Daemon
from harness import check, equal, main, test, wait_for
from host_page import page, reads
from mcp import Stateless
from tcp import Tcp, serving

LOCAL = ["127.0.0.1:{port}", "[::1]:{port}", "0.0.0.0:{port}", "127.0.0.2:{port}", "[::ffff:127.0.0.1]:{port}", "10.1.2.3:443",
         "192.168.0.1:443", "172.16.3.4:443", "100.64.0.1:443", "169.254.7.7:443", "[fd00::1]:443", "[fe80::1]:443"]
NEVER = ["169.254.169.254:80", "[fd00:ec2::254]:80", "8.8.8.8:6443"]

OPEN = {"network": "public"}  # a token's capabilities: public destinations need no approval, so that the ceiling alone refuses


def policy(place):
    host, _, port = place.rpartition(":")
    host = host.strip("[]")
    return {"version": 1, "network_policies": {"a": {"endpoints": [{"host": host, "port": int(port), "allowed_ips": [host]}],
                                                     "binaries": [{"path": "/**"}]}}}


def refused(answer, *words):
    answer.expect(403, code="denied")
    for word in words:
        check(word in answer.json["detail"], f"{word!r} is not in {answer}")


def approve(d, master, request):
    """Approves a call that is held, and waits until it has run."""
    master.post(f"/v1/approvals/{request}/approve").expect(200, 202)
    return d.api.get(f"/v1/approvals/{request}?wait=60").expect(200).json


@test
def a_tenant_grants_itself_nothing_that_is_not_public(c):
    with page() as port, serving(c) as (d, _, token):
        tenant, _ = token("read", "create", "exec", capabilities=OPEN)
        for place in (x.format(port=port) for x in LOCAL):
            refused(tenant.post("/v1/sandboxes", {"egress": {"allow": [place]}}), "egress.local", "administrator")
            refused(tenant.post("/v1/sandboxes", {"egress": {"policy": policy(place)}}), "egress.local")
        for address in ("10.1.2.3", "192.168.1.0/32", "fd00::1"):
            refused(tenant.post("/v1/sandboxes", {"egress": {"allow_out": [address]}}), "egress.local")
        box = tenant.post("/v1/sandboxes", {"egress": {"allow": ["api.example.com:443"]}}).expect(201).json["sandbox_id"]
        for place in (x.format(port=port) for x in LOCAL):
            refused(tenant.request("PUT", f"/v1/sandboxes/{box}/egress", {"allow": [place]}), "egress.local")
            refused(tenant.request("PUT", f"/v1/sandboxes/{box}/egress", policy(place)), "egress.local")
        for place in NEVER:
            for who in (tenant, d.api):
                equal(who.request("POST", "/v1/sandboxes", {"egress": {"allow": [place]}}).status, 400, f"status of {place}")
        equal(tenant.get(f"/v1/sandboxes/{box}/egress").expect(200).json["generation"], 1, "generation")


@test
def names_and_loopback_are_held_to_the_ceiling(c):
    """A name with its address, and the names of the machine's loopback: for administrators, and where the configuration has them."""
    with page() as port, page() as other, serving(c, config=f"egress: {{local: ['127.0.0.1:{port}']}}") as (d, _, token):
        tenant, _ = token("read", "create", "exec", capabilities=OPEN)
        beyond = [f"localhost:{other}", f"host.sandboxer.internal:{other}", f"mirror.example.com:{other}=127.0.0.1",
                  "mirror.example.com:443=10.1.2.3", "*.example.com:443=10.1.0.0/24"]
        for item in beyond:
            refused(tenant.post("/v1/sandboxes", {"egress": {"allow": [item]}}), "egress.local", "administrator")
            d.api.request("POST", "/v1/sandboxes", {"egress": {"allow": [item]}}).expect(201)
        equal(tenant.post("/v1/sandboxes", {"egress": {"allow_out": ["localhost"]}}).status, 400, "localhost in a list")
        within = [f"localhost:{port}", f"host.sandboxer.internal:{port}", f"mirror.example.com:{port}=127.0.0.1"]
        for item in within:  # which is not public, so a master would approve it
            equal(tenant.post("/v1/sandboxes", {"egress": {"allow": [item]}}).expect(403).json["kind"], "require_approval", item)
        box = d.api.request("POST", "/v1/sandboxes", {"egress": {"allow": [f"localhost:{port}", within[2]]}}).expect(201).json["sandbox_id"]
        script = "".join(f"curl -s -m 20 {way} http://{name}:{port}/; " for way in ("", "--noproxy '*'")
                         for name in ("127.0.0.1", "localhost", "host.sandboxer.internal", "mirror.example.com"))
        done = d.api.request("POST", f"/v1/sandboxes/{box}/processes", {"argv": ["sh", "-c", script]},
                             headers={"Accept": "application/json"}).expect(200).json
        equal(json.dumps(done).count("the host's page"), 8, f"answers in {done}")


@test
def names_that_the_configuration_places_are_within_the_ceiling(c):
    """For tenants, too: the name is all that they write. It grants them no other address, and no other port."""
    profile = PROFILE.format(id="profile.mirror", **PROFILES["profile.pooled"])
    with page() as port, page() as other:
        c.write("daemon/profiles/mirror.yaml", profile + f"network: {{most: profile, egress: [{{host: mirror.example.com, port: {port}}}]}}\n")
        for most in ("public", "listed"):
            config = f"egress: {{most: {most}, names: ['mirror.example.com:{port}=127.0.0.1']}}"
            with serving(c, config=config) as (d, _, token):
                tenant, _ = token("read", "create", "exec", capabilities=OPEN)
                master, _ = token("read", "create", "exec", "admin", role="master")
                held = tenant.post("/v1/sandboxes", {"egress": {"allow": [f"mirror.example.com:{port}"]}}).expect(403).json
                equal(held["kind"], "require_approval", f"as it is not public, a master approves: {held}")
                box = approve(d, master, held["request_id"])["result"]["sandbox_id"]
                done = reads(tenant, box, port, "mirror.example.com").expect(200).json
                check("the host's page" in json.dumps(done), f"{done}")
                for item in (f"mirror.example.com:{other}=127.0.0.1", f"127.0.0.1:{other}", f"mirror.example.com:{port}=127.0.0.2"):
                    refused(tenant.post("/v1/sandboxes", {"egress": {"allow": [item]}}), "egress.local" if most == "public" else "")
                box = d.create(profile="profile.mirror")
                done = reads(d.api, box, port, "mirror.example.com").expect(200).json
                check("the host's page" in json.dumps(done), f"of a profile whose ceiling is itself: {done}")


@test
def administrators_and_configured_places_pass(c):
    with page() as port:
        with serving(c, config=f"egress: {{local: ['127.0.0.1:{port}']}}") as (d, _, token):
            tenant, _ = token("read", "create", "exec", capabilities=OPEN)
            master, _ = token("read", "create", "exec", "admin", role="master")
            made = {"egress": {"allow": [f"127.0.0.1:{port}"]}}
            box = d.api.request("POST", "/v1/sandboxes", made).expect(201).json["sandbox_id"]
            # The ceiling lets the tenant ask for it; as it is not public, a master approves.
            held = tenant.post("/v1/sandboxes", made).expect(403).json
            equal(held["kind"], "require_approval", "within the ceiling")
            approved = approve(d, master, held["request_id"])
            for who, box in ((d.api, box), (tenant, approved["result"]["sandbox_id"])):
                done = reads(who, box, port).expect(200).json
                check("the host's page" in json.dumps(done), f"{done}")
            refused(tenant.post("/v1/sandboxes", {"egress": {"allow": [f"127.0.0.1:{port - 1}"]}}), f"127.0.0.1:{port - 1} is a loopback")
            d.api.request("POST", "/v1/sandboxes", {"egress": {"allow": [f"127.0.0.1:{port - 1}"]}}).expect(201)
            # An administrator's token with the verb is one; without it, it is a tenant's.
            admin, _ = token("read", "create", "admin")
            box = admin.post("/v1/sandboxes", {"egress": {"allow": ["10.1.2.3:443"]}}).expect(201).json["sandbox_id"]
            # What an administrator has set, a tenant cannot set again.
            refused(tenant.request("PUT", f"/v1/sandboxes/{box}/egress", {"allow": ["10.1.2.3:443"]}), "egress.local")


@test
def clients_of_e2b_and_daytona_have_the_same_ceiling(c):
    with e2b.Served(c) as s:
        key = s.key()["E2B_API_KEY"]
        made = {"templateID": "base", "network": {"allowOut": ["10.1.2.3"], "denyOut": ["0.0.0.0/0"]}}
        equal(s.ask("POST", "/v2/sandboxes", made, X_API_KEY=key).status, 403, "status of E2B's create")
        box = s.ask("POST", "/v2/sandboxes", {"templateID": "base", "network": {"denyOut": ["8.8.8.8"]}}, X_API_KEY=key).expect(201).json
        asked = s.ask("PUT", f"/sandboxes/{box['sandboxID']}/network", {"allowOut": ["10.1.2.3"]}, X_API_KEY=key)
        equal(asked.status, 403, "status of E2B's change")
        check("egress.local" in asked.data.decode(), f"{asked}")
    with daytona.Served(c) as s:
        key = s.key()["DAYTONA_API_KEY"]
        equal(s.api("POST", "sandbox", {"networkAllowList": "10.1.2.3/32"}, key=key).status, 403, "status of Daytona's create")
        box = s.api("POST", "sandbox", {"networkAllowList": "8.8.8.8/32"}, key=key).expect(200).json["id"]
        asked = s.api("POST", f"sandbox/{box}/network-settings", {"networkAllowList": "192.168.0.1/32"}, key=key)
        equal(asked.status, 403, "status of Daytona's change")


@test
def tools_for_models_have_it_too(c):
    with page() as port, serving(c) as (d, _, token):
        holder, _ = token("read", "create", "exec", role="master")
        client = Stateless(d, holder)
        answer = client.ask("tools/call", name="sandbox_create", arguments={"capabilities": {"network": [f"127.0.0.1:{port}"]}})
        if "error" in answer and answer["error"]["data"].get("request_id"):  # a master approves, within the ceiling
            held = answer["error"]["data"]["request_id"]
            master, _ = token("read", "create", "exec", "admin", role="master")
            answer = approve(d, master, held)
        check("egress.local" in json.dumps(answer), f"{answer}")
        equal(d.list(), [], "sandboxes")


@test
def each_ceiling_counts_and_is_named(c):
    config = "egress: {most: listed, listed: ['**.example.com:443', '8.8.8.0/24:53']}"
    with serving(c, config=config) as (d, _, token):
        tenant, _ = token("read", "create", capabilities=OPEN)

        def ask(**egress):
            return tenant.post("/v1/sandboxes", {"egress": egress})
        for item in ("a.example.com", "*.example.com", "**.x.example.com:443", "8.8.8.8:53"):
            ask(allow=[item]).expect(201)
        for item in ("example.com", "a.example.com:80", "a.example.org", "8.8.8.8:54", "9.8.8.8:53"):
            refused(ask(allow=[item]), "'listed' of configuration egress.most")
        refused(ask(deny_out=["9.9.9.9"]), "every public destination", "egress.most")
        d.api.request("POST", "/v1/sandboxes", {"egress": {"allow": ["a.example.org"]}}).expect(201)
    d = Daemon(c)
    c.write("daemon/profiles/closed.yaml", PROFILE.format(id="profile.closed", **PROFILES["profile.sandbox-canary"])
            + "network: {most: profile, egress: [{host: 10.9.9.9, port: 443, allowed_ips: [10.9.9.9]}, {host: web.example.com, port: 443}]}\n")
    with d.start():
        d.create(profile="profile.closed")
        d.create(profile="profile.closed", egress={"allow": ["web.example.com:443"]})
        refused(d.api.request("POST", "/v1/sandboxes", {"profile": "profile.closed", "egress": {"allow": ["b.example.com"]}}),
                "'profile' of network.most of profile.closed")


@test
def a_token_has_a_ceiling_and_passes_it_on(c):
    with serving(c) as (d, _, token):
        closed, _ = token("read", "create", "admin", egress="profile", capabilities=OPEN)
        refused(closed.post("/v1/sandboxes", {"egress": {"allow": ["a.example.com"]}}), "'profile' of the token's egress")
        made = closed.post("/v1/tokens", {"name": "child", "verbs": ["read", "create"], "egress": "public"}).expect(201).json
        equal(made["egress"], "profile", "the ceiling of a token that it made")
        refused(Tcp(closed.port, made["token"]).post("/v1/sandboxes", {"egress": {"allow": ["a.example.com"]}}), "the token's egress")
        none, _ = token("read", "create", egress="none")
        refused(none.post("/v1/sandboxes", {"egress": {"allow": ["a.example.com"]}}), "allows no network")
        none.post("/v1/sandboxes", {}).expect(201)
        open_, _ = token("read", "create", capabilities=OPEN)
        box = open_.post("/v1/sandboxes", {"egress": {"allow": ["a.example.com"]}}).expect(201).json["sandbox_id"]
        shown = open_.get(f"/v1/sandboxes/{box}/egress").expect(200).json["ceiling"]
        equal((shown["reach"], shown["from"]), ("public", "configuration egress.most"), "the ceiling that is shown")


@test
def the_worker_denies_what_an_older_policy_allows(c):
    """A row of the store from before there were ceilings, of a sandbox that is a tenant's."""
    with page() as port, serving(c) as (d, tcp, token):
        box = d.api.request("POST", "/v1/sandboxes", {"egress": {"allow": [f"127.0.0.1:{port}"]}}).expect(201).json["sandbox_id"]
        check("the host's page" in json.dumps(reads(d.api, box, port).expect(200).json), "an administrator's is served")
        d.stop()
        with contextlib.closing(sqlite3.connect(next(d.state.glob("**/*.db")))) as db, db:
            db.execute("UPDATE egress SET admin = 0, most = 0")
        d.start(args=("--listen", f"127.0.0.1:{tcp}"))
        wait_for(lambda: d.get(box)["egress"]["in_force"] == 1, "the policy is in force again")
        done = json.dumps(reads(d.api, box, port).expect(200).json)
        check("the host's page" not in done and "ceiling_denied" in done, done)


@test
def explain_names_the_ceiling(c):
    with serving(c) as (d, _, token):
        tenant, _ = token("read")
        asked = {"policy": json.dumps(policy("127.0.0.1:8099")), "to": "127.0.0.1:8099"}
        answer = tenant.post("/v1/egress/explain", asked).expect(200).json
        equal((answer["verdict"], answer["code"], answer["ceiling"], answer["ceiling_from"]),
              ("denied", "ceiling_denied", "public", "configuration egress.most"), "a tenant's answer")
        answer = d.api.request("POST", "/v1/egress/explain", asked).expect(200).json
        equal((answer["verdict"], answer["ceiling"]), ("allowed", "local"), "an administrator's answer")
        path = c.write("policy.json", json.dumps(policy("127.0.0.1:8099")))
        said = Client(d)("egress", "explain", path, "--to", "127.0.0.1:8099", "--ceiling").expect(0).text
        check("local" in said and "administrators" in said, said)
        checked = tenant.post("/v1/egress/check", json.loads(asked["policy"])).expect(200).json
        check(not checked["valid"] and "egress.local" in checked["problem"], f"{checked}")


main()
