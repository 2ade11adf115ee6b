#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""A token is its own peer: the policy for tools, limits and visibility hold on every interface."""

import concurrent.futures

from e2b import Box, Served, frames
from harness import check, equal, main, test, wait_for
from mcp import Stateless
from peer import Peer, decide, master_token
from tcp import Tcp, serving

HELD = """\
version: 1
tools:
  sandbox_list: {tier: 4, effect: none}
  sandbox_create: {tier: 2, effect: write, creates: true}
"""

PLAIN = ["read", "create", "exec", "files", "extend", "destroy"]  # of no administrator
HOST = "example.com"
NETWORKED = {"egress": {"allow": [f"{HOST}:443"]}}
AT_ONCE = 200


class Holder:
    """A token, and how it is used on every interface."""

    def __init__(self, served, **request):
        made = served.d.api.post("/v1/tokens", {"name": "t", "verbs": PLAIN, **request}).expect(201).json
        self.served, self.id, self.key = served, made["id"], made["token"]
        self.web = Tcp(served.port, self.key)
        self.mcp = Stateless(served.d, self.web)

    def rest(self, method, path, body=None, **headers):
        return self.web.request(method, path, body, **headers)

    def e2b(self, method, path, body=None, **headers):
        return self.served.ask(method, path, body, X_API_KEY=self.key, **headers)

    def daytona(self, method, path, body=None, **headers):
        return self.served.ask(method, f"/daytona/{path}", body, Authorization=f"Bearer {self.key}", **headers)

    def make(self, interface, network=False):
        """Asks for a sandbox: the answer's status, or the code of JSON-RPC, and its id."""
        if interface == "REST":
            answer = self.rest("POST", "/v1/sandboxes", NETWORKED if network else {})
        elif interface == "E2B":
            more = {"allow_internet_access": False, **({"network": {"allowOut": [HOST]}} if network else {})}
            answer = self.e2b("POST", "/v2/sandboxes", {"templateID": "base", **more})
        elif interface == "Daytona":
            answer = self.daytona("POST", "sandbox", {"domainAllowList": HOST} if network else {"networkBlockAll": True})
        else:
            arguments = {"capabilities": {"network": [f"{HOST}:443"]}} if network else {}
            said = self.mcp.ask("tools/call", name="sandbox_create", arguments=arguments)
            return (said["error"]["code"], said) if "error" in said else (201, said["result"]["structuredContent"]["sandbox_id"])
        body = answer.json if answer.data and answer.status < 500 else {}
        return answer.status, body.get("sandbox_id") or body.get("sandboxID") or body.get("id") or answer.data


def denied(d):
    return [e for e in d.api.get("/v1/events?limit=1000").expect(200).json["events"] if e["type"].startswith(("trust.", "approval.requested"))]


class Session(Peer):
    """A session below a token."""

    def __init__(self, holder):
        self.holder = holder
        made = holder.post("/v1/peers", {"client": "test"}).expect(201).json
        self.id, self.token, self.role = made["id"], made["token"], made["role"]

    def request(self, method, path, body=None):
        return self.holder.request(method, path, body, Sandboxer_Peer=self.token)


@test
def labels_bind_peers_held_calls_and_tokens(c):
    """Two tokens of one owner, with the labels team=a and team=b."""
    bundle = c.write("bundle.yaml", HELD)
    with serving(c, config=f"trust: {{bundle: '{bundle}'}}") as (d, _, token):
        a, _ = token("read", "destroy", labels={"team": "a"})
        b, _ = token("read", "create", "destroy", "exec", labels={"team": "b"})
        peer = Session(b)
        box = peer.create(env={"API_KEY": "hunter2"})
        held = peer.held()
        a.get(f"/v1/approvals/{held}").expect(404)
        a.get(f"/v1/approvals/{held}?wait=1").expect(404)
        for path in ("/v1/approvals", "/v1/approvals?all=true"):
            equal(a.get(path).expect(200).json["approvals"], [], f"{path} of another team")
            equal([x["request_id"] for x in b.get(path).expect(200).json["approvals"]], [held], path)
        equal(a.get("/v1/peers").expect(200).json["peers"], [], "peers of another team")
        a.delete(f"/v1/peers/{peer.id}").expect(404)
        a.post(f"/v1/peers/{peer.id}/heartbeat").expect(404)
        equal(d.get(box)["state"], "ready", "the sandbox of the other team")
        master, _ = token("read", role="master", labels={"team": "a"})
        master.post(f"/v1/approvals/{held}/approve").expect(404)
        d.api.post(f"/v1/approvals/{held}/reject", {"reason": "no"}, {"Sandboxer-Master": master.token}).expect(404)
        equal(master.get("/v1/approvals").expect(200).json["approvals"], [], "held calls, as a labelled master sees them")
        maker, _ = token("read", "admin", labels={"team": "a"})
        other = d.api.post("/v1/tokens", {"name": "b", "verbs": ["read"], "labels": {"team": "b"}}).expect(201).json
        check(other["id"] not in [t["id"] for t in maker.get("/v1/tokens").expect(200).json["tokens"]], "a token of the other team is listed")
        maker.delete(f"/v1/tokens/{other['id']}").expect(404)
        b.delete(f"/v1/peers/{peer.id}").expect(204)
        wait_for(lambda: d.get(box)["state"] == "destroyed", "the sandbox ends with its peer")


@test
def the_peer_of_a_token_is_not_a_session(c):
    with serving(c) as (d, _, token):
        holder, known = token("read", "create", "destroy", "exec")
        peer_id = known if isinstance(known, str) else known["id"]
        d.api.delete(f"/v1/peers/{peer_id}").expect(404)
        d.api.post(f"/v1/peers/{peer_id}/heartbeat").expect(404)
        holder.get("/v1/sandboxes").expect(200)


@test
def a_session_of_a_token_with_many_labels_sees_no_others(c):
    with serving(c) as (d, _, token):
        holder, _ = token("read", "create", "destroy", "exec", labels={f"label{i}": "x" for i in range(32)})
        box = holder.post("/v1/sandboxes", {}).expect(201).json["sandbox_id"]
        listed = Session(holder).request("GET", "/v1/sandboxes").expect(200).json["sandboxes"]
        equal([b["sandbox_id"] for b in listed], [], "sandboxes that a session sees")
        equal([b["sandbox_id"] for b in holder.get("/v1/sandboxes").expect(200).json["sandboxes"]], [box], "those of its token")


@test
def an_apprentice_gets_no_network_and_no_programs_on_any_interface(c):
    with Served(c) as s:
        low = Holder(s, role="apprentice")
        for interface in ("REST", "E2B", "Daytona"):
            status, said = low.make(interface, network=True)
            equal(status, 403, f"a network by {interface}: {said}")
        equal(low.make("MCP", network=True)[0], -32000, "a network by MCP")
        equal(s.d.list(), [], "sandboxes")
        status, box = low.make("REST")
        equal(status, 201, f"an apprentice may create: {box}")
        inside = Box(s, box, low.e2b("POST", f"/sandboxes/{box}/connect", {}).expect(200).json["envdAccessToken"])
        path, tool = f"/v1/sandboxes/{box}", f"toolbox/{box}/process"
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13", "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
        for name, answer in (
                ("exec", low.rest("POST", f"{path}/processes", {"argv": ["true"]})),
                ("background", low.rest("POST", f"{path}/processes", {"argv": ["true"], "background": True})),
                ("websocket", low.rest("GET", f"{path}/processes/new", **upgrade)),
                ("ssh", low.rest("POST", f"{path}/ssh", {"public_key": "x"}, Connection="Upgrade", Upgrade="sandboxer-ssh")),
                ("port", low.rest("GET", f"{path}/ports/80", **upgrade)),
                ("snapshot", low.rest("POST", f"{path}/snapshot", {})),
                ("envd", inside.rpc("process.Process/SendSignal", {"process": {"pid": 1}, "signal": "SIGNAL_SIGKILL"})),
                ("envd's port", inside.ask("GET", "/", **{"E2b-Sandbox-Port": "8080"})),
                ("code", inside.ask("POST", "/execute", {"code": "1"}, **{"E2b-Sandbox-Port": "49999"})),
                ("Daytona's exec", low.daytona("POST", f"{tool}/execute", {"command": "true"})),
                ("Daytona's session", low.daytona("POST", f"{tool}/session", {"sessionId": "a"})),
                ("Daytona's terminal", low.daytona("GET", f"{tool}/pty/create-connect?id=a", **upgrade)),
                ("Daytona's git", low.daytona("GET", f"toolbox/{box}/git/status?path=/")),
                ("Daytona's link", low.daytona("GET", f"sandbox/{box}/ports/80/preview-url"))):
            equal(answer.status, 403, f"{name}: {answer.data}")
        with inside.start("true") as response:
            equal([m.get("error", {}).get("code") for _, m in frames(response)], ["permission_denied"], "envd's exec")
        said = low.mcp.ask("tools/call", name="sandbox_exec", arguments={"sandbox_id": box, "command": "true"})
        equal(said["error"]["code"], -32000, f"MCP: {said}")
        low.rest("GET", f"{path}/files?path=/etc/hostname").expect(200)
        low.rest("DELETE", path).expect(200)
        found = [e for e in denied(s.d) if e["type"] == "trust.denied"]
        check(len(found) > 15 and all(e["actor"]["id"] == low.id for e in found), f"each refusal is on record with the token: {found[:2]}")


@test
def no_header_avoids_the_question(c):
    with Served(c) as s:
        low, other = Holder(s, role="apprentice"), Holder(s)
        session = Session(other.web)
        for name in ("Sandboxer_Peer", "sandboxer_peer", "SANDBOXER_PEER"):
            for value in ("", "x", session.token, session.id, low.id, low.key):
                answer = low.rest("POST", "/v1/sandboxes", NETWORKED, **{name: value})
                equal(answer.status, 401, f"{name}: {value}: {answer.data}")
        for headers in ({"X_Trust_Level": "master"}, {"Sandboxer_Master": low.key}, {"Sandboxer_Approved": "x"}, {"X_API_KEY": low.key}):
            equal(low.rest("POST", "/v1/sandboxes", NETWORKED, **headers).status, 403, f"{headers}")
        equal(s.ask("POST", "/v1/sandboxes", NETWORKED, X_API_KEY=low.key).status, 401, "E2B's header is none of ours")
        equal(s.ask("POST", "/sandboxes", {"templateID": "base", "allow_internet_access": False, "network": {"allowOut": [HOST]}},
                    Authorization=f"Bearer {low.key}").status, 403, "a bearer on E2B's")
        equal(low.rest("POST", "/v1/sandboxes", NETWORKED, E2b_Sandbox_Id="sbx_x").status, 403, "a header of envd's")


@test
def approving_a_network_covers_that_sandbox_and_no_other_network_or_token(c):
    with Served(c) as s:
        master, one, two = master_token(s.d), Holder(s), Holder(s)

        def approve(answer, token=master):
            request = answer.expect(403).json["request_id"]
            decide(s.d, request, "approve", token).expect(200)
            return s.d.api.get(f"/v1/approvals/{request}?wait=60").expect(200).json["result"]
        box = approve(one.rest("POST", "/v1/sandboxes", NETWORKED))["sandbox_id"]
        path, run = f"/v1/sandboxes/{box}", {"argv": ["echo", "hi"]}
        for _ in range(2):
            equal(one.rest("POST", f"{path}/processes", run, Accept="application/json").expect(200).json["stdout"], "hi\n", "covered")
        inside = Box(s, box, one.e2b("POST", f"/sandboxes/{box}/connect", {}).expect(200).json["envdAccessToken"])
        equal(inside.rpc("process.Process/SendSignal", {"process": {"pid": 999999}, "signal": "SIGNAL_SIGKILL"}).status, 404, "covered by E2B's too")
        equal(one.daytona("GET", f"toolbox/{box}/git/status?path=/").status == 403, False, "and by Daytona's")
        equal(two.rest("POST", f"{path}/processes", run).expect(403).json["kind"], "require_approval", "another token")
        stranger = Box(s, box, two.e2b("POST", f"/sandboxes/{box}/connect", {}).expect(200).json["envdAccessToken"])
        with stranger.start("true") as response:
            equal([m.get("error", {}).get("code") for _, m in frames(response)], ["permission_denied"], "another token's envd")
        wider = {"allow": [f"{HOST}:443", "example.org:443"]}
        for answer in (one.rest("PUT", f"{path}/egress", wider), one.rest("POST", f"{path}/fork", {"count": 1})):
            equal(answer.expect(403).json["kind"], "require_approval", "more is asked again")
        equal(one.e2b("PUT", f"/sandboxes/{box}/network", {"allowOut": ["example.org"]}).status, 403, "E2B's way to it")
        equal(one.daytona("POST", f"sandbox/{box}/network-settings", {"domainAllowList": "example.org"}).status, 403, "Daytona's")
        s.d.api.request("PUT", f"{path}/egress", wider).expect(200)  # by an administrator
        equal(one.rest("POST", f"{path}/processes", run).expect(403).json["kind"], "require_approval", "within another network")
        approve(one.rest("PUT", f"{path}/egress", {"allow": [f"{HOST}:443"]}))
        one.rest("POST", f"{path}/processes", run).expect(200)
        s.d.stop()
        s.start()
        one.rest("POST", f"{path}/processes", run).expect(200)
        made = one.e2b("POST", "/v2/sandboxes", {"templateID": "base", "allow_internet_access": False, "network": {"allowOut": [HOST]}})
        equal(made.status, 403, "E2B's create is held")
        request = made.json["message"].split("approvals approve ")[1].split("'")[0]
        decide(s.d, request, "approve", master).expect(200)
        result = s.d.api.get(f"/v1/approvals/{request}?wait=60").expect(200).json["result"]
        check("envdAccessToken" not in result, "a secret in what a master sees")
        one.rest("POST", f"/v1/sandboxes/{result['sandboxID']}/processes", run).expect(200)


@test
def limits_are_one_count_over_all_interfaces(c):
    with Served(c) as s:
        holder = Holder(s, limits={"concurrent": 3, "sandboxes_per_hour": 5})
        boxes = [holder.make(i) for i in ("REST", "E2B", "Daytona")]
        check(all(status in (200, 201) for status, _ in boxes), f"three: {boxes}")
        for life in range(2):
            for interface in ("REST", "E2B", "Daytona"):
                equal(holder.make(interface)[0], 429, f"a fourth, by {interface}")
            equal(holder.make("MCP")[0], -32001, "a fourth, by MCP")
            holder.rest("POST", f"/v1/sandboxes/{boxes[0][1]}/fork", {"count": 1}).expect(429)
            if not life:
                s.d.stop()
                s.start()
        for _, box in boxes[:2]:
            holder.rest("DELETE", f"/v1/sandboxes/{box}").expect(200)
        equal([holder.make("MCP")[0], holder.make("REST")[0]], [201, 201], "room again")
        _, box = boxes[2]
        holder.rest("DELETE", f"/v1/sandboxes/{box}").expect(200)
        equal(holder.make("E2B")[0], 429, "more than five in an hour")
        check(any(e["actor"]["id"] == holder.id for e in denied(s.d) if e["type"] == "trust.rate_limited"), "on record")


@test
def a_token_shows_its_limits_and_what_it_has_approved(c):
    with Served(c) as s:
        maker = Holder(s, verbs=[*PLAIN, "admin"], limits={"concurrent": 2}, capabilities={"network": ["a.example:443", "b.example"]}, role="journeyman")
        admin = s.d.api.get("/v1/tokens").expect(200).json["tokens"]
        own = next(t for t in admin if t["id"] == maker.id)
        equal([own["limits"], own["capabilities"]["network"]], [{"concurrent": 2}, ["a.example:443", "b.example"]], "shown")


@test
def a_preset_suits_an_sdk(c):
    with Served(c) as s:
        key = s.key()["E2B_API_KEY"]
        shown = s.d.api.get("/v1/tokens").expect(200).json["tokens"][0]
        equal([shown["preset"], shown["capabilities"]["network"]], ["e2b", "public"], "what it is")
        box = s.create(key, network={"allowOut": [HOST], "denyOut": ["0.0.0.0/0"]})
        equal(box.rpc("process.Process/SendSignal", {"process": {"pid": 999999}, "signal": "SIGNAL_SIGKILL"}).status, 404, "no approval for a call")
        s.ask("PUT", f"/sandboxes/{box.id}/network", {"allowOut": ["example.org"]}, X_API_KEY=key).expect(204)
        Tcp(s.port, key).post("/v1/sandboxes", NETWORKED).expect(201)
        Tcp(s.port, key).post("/v1/tokens", {"name": "x"}).expect(403)


@test(only="root", because="the daemon is the same for everybody")
def two_hundred_sandboxes_of_an_sdk_at_once(c):
    with Served(c) as s:
        key = s.key()["E2B_API_KEY"]

        def make(_):
            return s.ask("POST", "/v2/sandboxes", {"templateID": "base", "allow_internet_access": False}, X_API_KEY=key)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            made = list(pool.map(make, range(AT_ONCE)))
        refused = [a.data for a in made if a.status != 201]
        equal(refused, [], f"{len(refused)} were refused")
        ids = [a.json["sandboxID"] for a in made]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            gone = list(pool.map(lambda i: s.ask("DELETE", f"/sandboxes/{i}", X_API_KEY=key).status, ids))
        equal(set(gone), {204}, "all of them end")


@test
def a_revoked_key_takes_its_access_tokens_with_it(c):
    with Served(c) as s:
        key = s.key()["E2B_API_KEY"]
        box = s.create(key, allow_internet_access=False)
        box.ask("GET", "/health").expect(204)
        token = s.d.api.get("/v1/tokens").expect(200).json["tokens"][0]["id"]
        s.d.api.delete(f"/v1/tokens/{token}").expect(204)
        box.ask("GET", "/health").expect(401)
        box.rpc("process.Process/List", {}).expect(401)
        again = s.key()["E2B_API_KEY"]
        told = s.ask("POST", f"/sandboxes/{box.id}/connect", {}, X_API_KEY=again).expect(200).json["envdAccessToken"]
        Box(s, box.id, told).rpc("process.Process/List", {}).expect(200)  # another key of the owner connects


@test
def an_external_enforcement_point_gets_a_live_verdict(c):
    with Served(c) as s:
        low, holder, master = Holder(s, role="apprentice"), Holder(s, limits={"concurrent": 0}), master_token(s.d)

        def evaluate(who, tool, **more):
            return who.rest("POST", "/v1/trust/evaluate", {"tool": tool, **more}).expect(200).json
        exec_ = {"sandbox_id": "sbx_00000000000000000000"}
        said = evaluate(low, "sandbox_exec", args=exec_)
        equal([said["verdict"], said["tier"], said["approval_token"]], ["deny", 2, None], "an apprentice's")
        check(said["audit_id"].startswith("aud_") and "apprentice" in said["reason"], f"{said}")
        equal(evaluate(holder, "sandbox_exec", args=exec_)["verdict"], "allow", "a journeyman's")
        equal(evaluate(holder, "sandbox_create")["verdict"], "rate_limit", "a limit")
        held = evaluate(holder, "sandbox_exec", args=exec_, capabilities={"network": True})
        equal([held["verdict"], held["tier"]], ["require_approval", 4], "with a network")
        decide(s.d, held["approval_token"], "approve", master).expect(200)
        done = s.d.api.get(f"/v1/approvals/{held['approval_token']}?wait=60").expect(200).json
        equal([done["state"], done["result"]["verdict"]], ["done", "allow"], "approved")
        s.d.api.post("/v1/trust/evaluate", {"tool": "sandbox_list"}).expect(400)


@test
def the_environment_overrides_the_configuration(c):
    bundle = c.write("bundle.yaml", HELD)
    with Served(c) as s:
        s.d.stop()
        s.start(BOJ_POLICY_BUNDLE=str(bundle), BOJ_POLICY_MODE="audit", BOJ_POLICY_FAIL_MODE="closed")
        shown = s.d.api.get("/v1/trust").expect(200).json
        equal([shown["source"], shown["mode"], shown["failure"]], [str(bundle), "audit", "closed"], "what is in force")
        Holder(s).rest("GET", "/v1/sandboxes").expect(200)


main()
