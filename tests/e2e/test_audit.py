#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Every no has an id under which it is on record: of each way to ask, in each verdict; and what counts as asking."""

from daemon import Daemon
from harness import check, equal, main, test, wait_for
from mcp import META, TRANSPORTS, Lines
from peer import Peer, decide, master_token
from tcp import serving

ONCE = {"only": "root", "because": "the daemon is the same for everybody"}

EFFECTS = {"list": "none", "read": "read", "create": "write", "write": "write", "exec": "execute", "install": "network", "destroy": "destroy"}
CODES = {"deny": -32000, "rate_limit": -32001, "require_approval": -32002}


def rules(more=""):
    """Of all tools alike."""
    return "version: 1\napprovals: {pending_per_peer: 100}\ntools:\n" + "".join(
        f"  sandbox_{name}: {{tier: 1, effect: {effect}{', creates: true' if name == 'create' else ''}{more}}}\n"
        for name, effect in EFFECTS.items())


VERDICTS = (("deny", ", role: master"), ("require_approval", ", approval: master"), ("rate_limit", ", rate: {calls: 1, per: 1h}"))


def put_in_force(c, d, more=""):
    c.write("bundle.yaml", rules(more))
    d.api.post("/v1/trust/reload", {}).expect(200)


def on_record(d, ids, what):
    def missing():
        return set(ids) - {e["detail"].get("audit") for e in d.api.get("/v1/events?limit=1000").expect(200).json["events"]}
    check(all(i.startswith("aud_") for i in ids), f"{what}: ids: {ids}")
    equal(len(set(ids)), len(ids), f"{what}: ids are each one's own")
    wait_for(lambda: not missing(), f"{what}: on record: {missing()}")


# --- MCP ---

def ways(box):
    """(method, parameters, whether the very same can be done later)."""
    calls = {"list": {}, "read": {"sandbox_id": box, "path": "/etc/hostname"}, "create": {}, "write": {"sandbox_id": box, "path": "/tmp/x", "content": ""},
             "exec": {"sandbox_id": box, "command": "true"}, "install": {"sandbox_id": box, "manager": "pip", "packages": ["x"]}, "destroy": {"sandbox_id": box}}
    for name, arguments in calls.items():
        yield "tools/call", {"name": f"sandbox_{name}", "arguments": arguments}, True
    yield "resources/list", {}, True
    yield "resources/read", {"uri": f"sandbox://{box}/files/etc/hostname"}, True
    for rest in ("", "/events", "/logs", "/policy"):
        yield "resources/read", {"uri": f"sandbox://{box}{rest}"}, False
        yield "resources/subscribe", {"uri": f"sandbox://{box}{rest}"}, False
    yield "completion/complete", {"ref": {"type": "ref/resource", "uri": "sandbox://{id}"}, "argument": {"name": "id", "value": ""}}, False


def wanted(verdict, can_wait):
    return "deny" if verdict == "require_approval" and not can_wait else verdict


@test(**ONCE)
def each_way_to_ask_over_mcp(c):
    with Daemon(c, config=f"trust: {{bundle: '{c.write('bundle.yaml', rules())}'}}") as d:
        for verdict, more in VERDICTS:
            for how in TRANSPORTS:
                put_in_force(c, d)
                with how(c, d) as m:
                    m.begin()
                    box, ids = m.tool("sandbox_create")["sandbox_id"], []
                    put_in_force(c, d, more)
                    if verdict == "rate_limit":  # what there is, is used up
                        for name in EFFECTS:
                            m.ask("tools/call", name=f"sandbox_{name}", arguments={})
                    for method, params, can_wait in ways(box):
                        error = m.ask(method, **params).get("error", {})
                        want = wanted(verdict, can_wait)
                        equal([error.get("code"), error.get("data", {}).get("kind")], [CODES[want], want], f"{method} {params}: {error}")
                        equal("request_id" in error["data"], want == "require_approval", f"{method} {params}: what waits")
                        ids.append(error["data"]["audit_id"])
                    on_record(d, ids, f"{verdict} {how}")


@test(**ONCE)
def what_is_listened_to_without_a_session(c):
    with Daemon(c, config=f"trust: {{bundle: '{c.write('bundle.yaml', rules())}'}}") as d:
        with Lines(c, d) as m:
            box = m.ask("tools/call", name="sandbox_create", arguments={}, _meta=META)["result"]["structuredContent"]["sandbox_id"]
            uris, missing = [f"sandbox://{box}{rest}" for rest in ("", "/events", "/logs", "/policy")], f"sandbox://{box}/files/x"

            def listen():
                m.start("subscriptions/listen", notifications={"resourceSubscriptions": [*uris, missing]}, _meta=META)
                return m.next()["params"]
            equal(listen()["notifications"], {"resourceSubscriptions": uris}, "what is acknowledged")
            put_in_force(c, d, ", role: master")
            said = listen()
            equal(said["notifications"], {}, "what is acknowledged to an apprentice")
            refused = said["_meta"]["sandboxer/refused"]
            equal([(r["uri"], r["kind"]) for r in refused], [(uri, "deny") for uri in (*uris, missing)], "what is refused")
            on_record(d, [r["audit_id"] for r in refused], "of a subscription")


@test(**ONCE)
def watching_and_completing_count_as_calls(c):
    bundle = c.write("bundle.yaml", rules(", rate: {calls: 3, per: 1h}"))
    with Daemon(c, config=f"trust: {{bundle: '{bundle}'}}") as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        watch = {"uri": f"sandbox://{box}"}
        complete = {"ref": {"type": "ref/resource", "uri": "sandbox://{id}"}, "argument": {"name": "id", "value": ""}}
        equal(list(m.ask("resources/subscribe", **watch)["result"]), ["_meta"], "a subscription")
        equal(m.ask("completion/complete", **complete)["result"]["completion"]["values"], [box], "a completion")
        equal([b["sandbox_id"] for b in m.tool("sandbox_list")["sandboxes"]], [box], "a list")
        for method, params in (("resources/subscribe", watch), ("completion/complete", complete), ("resources/list", {})):
            equal(m.ask(method, **params)["error"]["data"]["kind"], "rate_limit", method)
        complete["argument"] = {"name": "language", "value": "py"}  # which is nobody's secret
        equal(m.ask("completion/complete", **complete)["result"]["completion"]["values"], ["python"], "a language")


# --- REST ---

def requests(box):
    at = f"/v1/sandboxes/{box}"
    return (("GET", "/v1/sandboxes", None), ("GET", at, None), ("POST", "/v1/sandboxes", {}), ("POST", f"{at}/processes", {"argv": ["true"]}),
            ("GET", f"{at}/processes", None), ("GET", f"{at}/files?path=/etc/hostname", None), ("PUT", f"{at}/files?path=/tmp/x", b"x"), ("DELETE", at, None))


@test(**ONCE)
def each_way_to_ask_over_rest(c):
    with Daemon(c, config=f"trust: {{bundle: '{c.write('bundle.yaml', rules())}'}}") as d:
        for verdict, more in VERDICTS:
            put_in_force(c, d)
            peer, ids = Peer(d.api), []
            box, spare = peer.create(), peer.create()
            put_in_force(c, d, more)
            if verdict == "rate_limit":
                for request in requests(spare):
                    peer.request(*request)
            for method, path, body in requests(box):
                answer = peer.request(method, path, body).expect(429 if verdict == "rate_limit" else 403)
                said = answer.json
                equal([said["kind"], said["rpc_code"]], [verdict, CODES[verdict]], f"{method} {path}: {said}")
                equal(answer.headers["Sandboxer-Audit"], said["audit_id"], f"{method} {path}: its head")
                ids.append(said["audit_id"])
            if verdict == "require_approval":  # what cannot be shown to a master
                said = peer.request("PUT", f"/v1/sandboxes/{box}/files?path=/tmp/x", b"x" * (600 << 10)).expect(403, code="denied").json
                equal(said["kind"], "deny", f"what cannot wait: {said}")
                ids.append(said["audit_id"])
            on_record(d, ids, verdict)


@test(**ONCE)
def what_is_not_for_peers_and_what_is_no_peer(c):
    with serving(c) as (d, _, token):
        holder, _ = token("read", "create", "files")
        session = holder.post("/v1/peers").expect(201).json["token"]
        mine = holder.post("/v1/sandboxes", Sandboxer_Peer=session).expect(201).json["sandbox_id"]
        other = d.create()
        ids = []

        def refused(status, method, path, body=None, **headers):
            answer = holder.request(method, path, body, Sandboxer_Peer=headers.pop("peer", session), **headers).expect(status)
            ids.append(answer.headers["Sandboxer-Audit"])
            return answer
        for status, method, path, body in (
                (403, "GET", "/v1/tokens", None), (403, "GET", "/v1/backup", None), (403, "POST", "/v1/peers", {}), (403, "POST", "/mcp", {}),
                (403, "POST", f"/v1/sandboxes/{mine}/processes", {"argv": ["true"]}), (403, "DELETE", f"/v1/sandboxes/{mine}", None),
                (404, "GET", f"/v1/sandboxes/{other}", None), (400, "POST", "/v1/sandboxes", {"wings": 2}), (400, "GET", "/v1/sandboxes?wings=2", None)):
            equal(refused(status, method, path, body).json["audit_id"], ids[-1], f"{method} {path}")
        for wrong in ("", "sbp_wrong", session[:-1]):
            refused(401, "GET", "/v1/sandboxes", peer=wrong)
        # Clients of others' interfaces are told in a field of the head, which leaves their bodies as they know them.
        equal(refused(403, "DELETE", f"/sandboxes/{mine}", X_API_KEY=holder.token).json["code"], 403, "E2B's")
        equal(refused(403, "DELETE", f"/daytona/sandbox/{mine}").json["statusCode"], 403, "Daytona's")
        refused(401, "GET", "/daytona/sandbox", peer="sbp_wrong")
        answer = holder.get("/v1/sandboxes", Authorization="Bearer sbt_forged").expect(401)
        ids.append(answer.headers["Sandboxer-Audit"])
        on_record(d, ids, "refusals")
        check(holder.get("/v1/sandboxes", Sandboxer_Peer=session).expect(200).headers["Sandboxer-Audit"] not in ids, "what is allowed has an id, too")


@test(**ONCE)
def decisions_that_are_not_ones_own(c):
    with Daemon(c, config=f"trust: {{bundle: '{c.write('bundle.yaml', rules(', approval: master'))}'}}") as d:
        peer, master = Peer(d.api), master_token(d)
        request, ids = peer.held(), []
        for status, token in ((403, None), (401, "sbt_forged")):
            ids.append(decide(d, request, "approve", token).expect(status).json["audit_id"])
        decide(d, request, "reject", master, reason="no").expect(200)
        ids.append(decide(d, request, "approve", master).expect(404, 409).json["audit_id"])
        on_record(d, ids, "decisions")


main()
