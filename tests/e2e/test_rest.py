#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""The REST interface against a real daemon: every route, what it refuses, and its streams."""

import hashlib
import http.client
import io
import json
import os
import re
import sqlite3
import tarfile

from daemon import ANSWER_SECONDS, Connection, Daemon
from harness import REPO, check, equal, main, test, wait_for
from mcp import Lines
from tcp import free_port


class Answer:
    def __init__(self, what, status, headers, body):
        self.what, self.status, self.headers, self.body = what, status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def lines(self):
        return [json.loads(line) for line in self.body.splitlines()]

    def expect(self, status, code=None, says=""):
        """The status and, of a problem, that it is a proper one with this code and these words."""
        check(self.status == status, f"{self.what}: status is {self.status}, not {status}: {self.body[:400]!r}")
        if status >= 400:
            equal(self.headers.get("Content-Type"), "application/problem+json", f"{self.what}: type")
            equal(self.json["status"], status, f"{self.what}: status in the problem")
        if code:
            equal(self.json["code"], code, f"{self.what}: code")
        check(says in self.body.decode(errors="replace"), f"{self.what}: does not say {says!r}: {self.body[:400]!r}")
        return self


class Rest:
    """A daemon, on TCP too if there is a port, and its routes by path."""

    def __init__(self, c, port=None):
        self.daemon, self.port = Daemon(c), port

    def __enter__(self):
        self.daemon.start(args=[f"--listen=127.0.0.1:{self.port}"] if self.port else [])
        return self

    def __exit__(self, *how):
        return self.daemon.__exit__(*how)

    def connect(self, tcp=False):
        if tcp:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECONDS)
        return Connection(str(self.daemon.socket), ANSWER_SECONDS)

    def ask(self, method, path, body=None, headers=None, tcp=False):
        connection = self.connect(tcp)
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return Answer(f"{method} {path}", answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.ask("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.ask("POST", path, {} if body is None else body, **options)

    def put(self, path, body=b"", **options):
        return self.ask("PUT", path, body, **options)

    def delete(self, path, **options):
        return self.ask("DELETE", path, **options)

    def create(self, **request):
        """Creates a sandbox: its path."""
        answer = self.post("/v1/sandboxes", request).expect(201)
        equal(answer.json["state"], "ready", "the state")
        return f"/v1/sandboxes/{answer.json['sandbox_id']}"

    def run(self, box, *argv, **request):
        """A program to its end, as one JSON answer."""
        return self.post(f"{box}/processes", {"argv": list(argv), **request},
                         headers={"Accept": "application/json"}).expect(200).json


# ---- the daemon about itself ----


@test
def health_version_metrics_and_description(c):
    with Rest(c) as d:
        equal(d.get("/healthz").expect(200).json, {"status": "ok"}, "health")
        equal(d.get("/version").expect(200).json["name"], "sandboxer", "name")
        metrics = d.get("/metrics").expect(200).body.decode()
        check('sandboxer_sandboxes{state="ready"} 0' in metrics, "metrics without sandboxes by state")
        api = d.get("/openapi.json").expect(200).json
        equal(api["openapi"], "3.1.0", "version of OpenAPI")
        operations = [o for path in api["paths"].values() for o in path.values()]
        equal(len({o["operationId"] for o in operations}), len(operations), "distinct operations")
        texts = {(method, path): list(o["requestBody"]["content"]) for path, ways in api["paths"].items()
                 for method, o in ways.items() if "requestBody" in o}
        for way in (("put", "/v1/sandboxes/{id}/egress"), ("post", "/v1/egress/check"), ("post", "/v1/profiles/validate"),
                    ("post", "/v1/trust/validate")):
            equal(texts[way], ["application/yaml"], f"media types of {way}")
        references = set(_references(api))
        for name in references:
            check(name.split("/")[-1] in api["components"]["schemas"], f"{name} is not described")


def _references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        node = list(node.values())
    for item in node if isinstance(node, list) else ():
        yield from _references(item)


@test
def a_head_is_answered_at_once(c):
    """Also where the body has no end: the connection is free for the next request."""
    sse = {"Accept": "text/event-stream"}
    with Rest(c) as d:
        box = d.create()
        n = d.post(f"{box}/processes", {"argv": ["sleep", "1000"], "background": True}).expect(201).json["process"]
        connection = d.connect()
        for path, headers, status in (
                ("/v1/events", sse, 200), (f"{box}/events", sse, 200), (f"{box}/events?after=999999&wait=60", {}, 200),
                (f"{box}/processes/{n}/attach", {}, 200), (f"{box}/processes/99/attach", {}, 404),
                (f"{box}/logs?follow=true", {}, 200), (f"{box}/logs", {}, 200), (f"{box}/files/watch?path=/tmp", {}, 200),
                (f"{box}/files?path=/etc/passwd", {}, 200), (f"{box}/files?path=/none", {}, 404),
                (f"{box}/files/tar?path=/etc", {}, 200), (f"{box}/files/list?path=/", {}, 200), (box, {}, 200)):
            for method, target, fields, wanted in (("HEAD", path, headers, status), ("GET", "/healthz", {}, 200)):
                connection.request(method, target, headers=fields)
                answer = connection.getresponse()
                answer.read()
                equal(answer.status, wanted, f"{method} {target} after HEAD {path}")
        connection.close()
        d.post(f"{box}/processes/{n}/signal", {"signal": "KILL"}).expect(200)


TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": dict, "array": list, "null": type(None)}


def described(api, value, schema, where):
    """The value is what its schema in the description says."""
    if "$ref" in schema:
        schema = api["components"]["schemas"][schema["$ref"].split("/")[-1]]
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    check(any(isinstance(value, TYPES[t]) for t in types), f"{where} is {value!r}, not {types}")
    check(value in schema.get("enum", [value]), f"{where} is {value!r}, none of {schema.get('enum')}")
    if isinstance(value, dict):
        missing = set(schema.get("required", ())) - set(value)
        check(not missing, f"{where} has no {missing}")
        for key, inner in value.items():
            if key in schema.get("properties", {}):
                described(api, inner, schema["properties"][key], f"{where}.{key}")
    for i, inner in enumerate(value if isinstance(value, list) else ()):
        described(api, inner, schema["items"], f"{where}[{i}]")


@test
def answers_are_as_described(c):
    with Rest(c) as d:
        api = d.get("/openapi.json").expect(200).json
        box = d.create()
        started = d.post(f"{box}/processes", {"argv": ["sleep", "1000"], "background": True}).expect(201).json
        run = d.run(box, "sh", "-c", "exit 3")
        other = d.post("/v1/sandboxes", {"ttl": "1h"}).expect(201).json
        again = d.post(f"/v1/sandboxes/{other['sandbox_id']}/recreate", {}).expect(201).json
        lines = d.post(f"{box}/processes", {"argv": ["true"]}).expect(200).body.splitlines()
        for value in (other, again):
            equal(value["quote"], d.post("/v1/estimate", {"ttl": "1h"}).expect(200).json, "the quote")
        for value in (d.get(box), *d.get("/v1/sandboxes").json["sandboxes"], d.delete(f"/v1/sandboxes/{again['sandbox_id']}")):
            check("quote" not in (value if isinstance(value, dict) else value.json), f"a quote that nobody asked for: {value}")
        for value, name in ((d.get(box).json, "Sandbox"), (again, "Sandbox"), (d.get("/v1/sandboxes").json, "SandboxList"), (started, "Process"),
                            (d.get(f"{box}/processes").json, "ProcessList"), (run, "Collected"),
                            (json.loads(lines[0])["process"], "Process"), (d.post("/v1/estimate", {}).json, "Quote"),
                            (d.get("/v1/inspect/stale").json, "StaleList")):
            described(api, value, {"$ref": f"#/components/schemas/{name}"}, name)
        equal((run["process"]["state"], run["process"]["background"], run["exit_code"]), ("exited", False, 3), "what ran")


# The tables of columns in src/cli and what describes their rows: a schema; the file that writes them, where no daemon does or
# they are lines of a log; a member that the command line adds before a schema. "": rows of the command line's own.
COLUMNS = {
    "answer.c": {"sandbox_columns": "Sandbox", "changed_columns": "Sandbox", "stats_columns": "Sandbox", "event_columns": "Event", "process_columns": "Process", "stale_columns": "Stale",
                 "workspace_change_columns": "SyncChange"},
    "verbs/agent.c": {"recipe_columns": "src/domain/agent/recipe.c"},
    "approval_watch.c": {"watch_columns": "Approval"},
    "top.c": {"denial_columns": "Event", "approval_columns": "Approval"},
    "verbs/approvals.c": {"columns": "Approval"},
    "verbs/audit_commands.c": {"command_columns": "Command"},
    "verbs/audit.c": {"head_columns": "AuditHead", "problem_columns": "AuditProblem"},
    "verbs/daemon.c": {"status_columns": "Daemon"},
    "verbs/diff.c": {"columns": "Change"},
    "verbs/doctor.c": {"columns": ""},
    "verbs/egress.c": {"endpoint_columns": "src/engine/egress/explain.c", "verdict_columns": "EgressExplanation", "policy_columns": "Egress",
                       "log_columns": "src/engine/egress/audit_event.c", "denial_columns": "EgressDenial"},
    "verbs/expire.c": {"due_columns": "Due"},
    "verbs/extend_ttl.c": {"columns": "Sandbox"},
    "verbs/label.c": {"columns": "Sandbox"},
    "verbs/hosts.c": {"columns": "Host"},
    "verbs/image.c": {"columns": "Image"},
    "verbs/inspect.c": {"host_columns": "HostTelemetry"},
    "verbs/list.c": {"change_columns": "Event"},
    "verbs/peers.c": {"columns": "Peer"},
    "verbs/profiles.c": {"columns": "Profile", "usable_columns": "Profile", "problem_columns": "ProfileProblem"},
    "verbs/secrets.c": {"columns": "Key"},
    "verbs/selftest.c": {"columns": "", "attack_columns": ""},
    "verbs/snapshots.c": {"columns": "Snapshot"},
    "verbs/token.c": {"columns": "NewToken"},
    "verbs/undo.c": {"columns": "Checkpoint"},
    "verbs/trust.c": {"columns": "Trust", "problem_columns": "TrustVerdict", "verdict_columns": "TrustExplanation"},
    "verbs/version.c": {"columns": "daemon.Version"},
}


def column_tables():
    """Every table of columns in src/cli: file, name, paths."""
    cli = REPO / "src/cli"
    for file in sorted(cli.rglob("*.c")):
        for name, rows in re.findall(r"const struct column (\w+)\[\] = \{(.*?)\};", file.read_text(), re.S):
            yield str(file.relative_to(cli)), name, re.findall(r'COLUMN\("[^"]*",\s*"([^"]*)"', rows)


@test
def columns_of_the_command_line_are_fields_of_answers(c):
    with Rest(c) as d:
        schemas = d.get("/openapi.json").expect(200).json["components"]["schemas"]
    for file, table, paths in column_tables():
        check(table in COLUMNS.get(file, ()), f"{table} of {file} is not in COLUMNS: which schema do its rows have?")
        rows = COLUMNS[file][table]
        for path in filter(None, paths if rows else ()):
            where = f"{table} of {file} shows {path}, which {rows} does not have"
            if rows.endswith(".c"):
                written = re.findall(r'\\?"(\w+)\\?"', (REPO / rows).read_text())
                check(set(path.split(".")) <= set(written), where)
                continue
            added, _, name = rows.rpartition(".")
            if added and not path.startswith(f"{added}."):
                continue
            check(has_field(schemas, schemas[name], path.removeprefix(f"{added}.").split(".")), where)


def has_field(schemas, schema, path):
    """Whether the schema has the member, or says nothing of members."""
    for name in path:
        if "properties" not in schema:
            return True
        if name not in schema["properties"]:
            return False
        schema = schema["properties"][name]
        schema = schemas[schema["$ref"].split("/")[-1]] if "$ref" in schema else schema
    return True


# The schema of REST that a tool's result is of, and the members that it does not have, with the reason.
RESULTS = {
    "sandbox_create": "Sandbox",
    "sandbox_exec": "Collected",
    "sandbox_install": "Collected",
    "sandbox_destroy": "Sandbox",
    "sandbox_list": "SandboxList",
    "sandbox_read": None,   # REST answers with the bytes of the file, without JSON
    "sandbox_write": None,  # … and with no body
}
OWN_MEMBERS = {
    "sandbox_create": {
        "isolation_level": "of the backend's vector, by which clients of the MCP interface choose providers",
        "cold_start_ms": "as above", "language_support": "as above", "egress_policy": "as above", "attestation": "as above",
        "provider": "the interface's name for REST's extension", "provider_version": "of the backend, not of a sandbox",
    },
    "sandbox_destroy": {"kept_snapshot": "REST has it in the object `kept`, with reason and time"},
    "sandbox_exec": {"duration_ms": "of the call, which a client of REST measures itself",
                     "hint": "changes on the host since the copy of a session's workspace, which REST has none of"},
    "sandbox_install": {"duration_ms": "of the call, which a client of REST measures itself", "hint": "as of sandbox_exec"},
    "sandbox_list": {"provider_version": "of the backend, not of a sandbox", "sandboxes.provider": "REST's extension",
                     "next_cursor": "the protocol's name for a cursor; REST calls it next"},
}


def members(schema, at=""):
    """Every member of a schema, of lists and objects in it too: sandboxes.state."""
    for name, inner in schema.get("properties", {}).items():
        yield at + name
        yield from members(inner.get("items", inner), f"{at}{name}.")


@test
def results_of_tools_have_the_fields_of_answers(c):
    with Rest(c) as d, Lines(c, d.daemon) as m:
        schemas = d.get("/openapi.json").expect(200).json["components"]["schemas"]
        m.begin()
        tools = {t["name"]: t["outputSchema"] for t in m.ask("tools/list")["result"]["tools"] if "outputSchema" in t}
    equal(set(tools) - set(RESULTS), set(), "tools without a schema of REST in RESULTS")
    for tool, result in tools.items():
        if not RESULTS[tool]:
            continue
        known = set(all_members(schemas, schemas[RESULTS[tool]]))
        own = OWN_MEMBERS.get(tool, {})
        for member in members(result):
            check((member in known) != (member in own), f"{tool} has {member}: in {RESULTS[tool]} {member in known}, an exception {member in own}")


def all_members(schemas, schema, at=""):
    schema = schemas[schema["$ref"].split("/")[-1]] if "$ref" in schema else schema
    for name, inner in schema.get("properties", {}).items():
        yield at + name
        if at.count(".") < 2:
            yield from all_members(schemas, inner.get("items", inner), f"{at}{name}.")


@test
def what_is_not_there_or_not_understood(c):
    with Rest(c) as d:
        d.get("/nope").expect(404, "not_found")
        d.ask("PUT", "/healthz").expect(405)
        d.get("/healthz?x=1").expect(400, "invalid", says="no parameter 'x'")
        d.get("/v1/sandboxes?limit=-1").expect(400, "invalid", says="limit")
        d.get("/v1/sandboxes?limit=1&limit=2").expect(400, "invalid")
        d.get("/v1/sandboxes?state=nope").expect(400, "invalid", says="nope")
        d.get("/v1/sandboxes?cursor=x").expect(400, "invalid")
        d.get("/v1/sandboxes/sbx_nope").expect(404, "not_found")
        d.ask("POST", "/v1/sandboxes", b"{").expect(400, "invalid")
        d.post("/v1/sandboxes", {"nope": 1}).expect(400, "invalid", says="nope")
        d.post("/v1/sandboxes", {"profile": "profile.nope"}).expect(404, "not_found")
        d.get("/v1/events?after=x").expect(400, "invalid")
        d.get("/v1/profiles/profile.nope").expect(404, "not_found")
        d.delete("/v1/tokens/nope").expect(404, "not_found")


@test
def a_backup_is_a_store(c):
    with Rest(c) as d:
        d.create()
        path = c.dir / "copy.db"
        path.write_bytes(d.get("/v1/backup").expect(200).body)
        with sqlite3.connect(path) as db:
            check(db.execute("select count(*) from events").fetchone()[0] >= 3, "the copy has no events")


# ---- sandboxes ----


@test
def a_sandbox_from_begin_to_end(c):
    with Rest(c) as d:
        box = d.create(labels={"team": "x"}, ttl="10m")
        shown = d.get(box).expect(200).json
        equal(shown["labels"], {"team": "x"}, "labels")
        equal(shown["owner"], f"uid:{os.getuid()}", "owner")
        listed = d.get("/v1/sandboxes?label=team%3Dx").expect(200).json["sandboxes"]
        equal([b["sandbox_id"] for b in listed], [shown["sandbox_id"]], "those with the label")
        equal(d.get("/v1/sandboxes?label=team%3Dy").json["sandboxes"], [], "those with another")
        longer = d.post(f"{box}/extend-ttl", {"duration": "20m"}).expect(200).json
        check(longer["expires_at"] > shown["expires_at"], "it was not extended")
        d.post(f"{box}/extend-ttl", {"duration": "x"}).expect(400, "invalid")
        equal(d.post("/v1/expire").expect(200).json, {"due": [], "applied": False}, "what is due")
        again = d.post(f"{box}/recreate").expect(201).json
        equal(again["recreated_from"], shown["sandbox_id"], "where it is from")
        equal(d.delete(box).expect(200).json["state"], "destroyed", "state")
        d.delete(box).expect(200)
        d.get(f"{box}/files?path=/etc/passwd").expect(409, "conflict")


@test
def creating_twice_with_one_key(c):
    with Rest(c) as d:
        key = {"Idempotency-Key": "k1"}
        first = d.post("/v1/sandboxes", {}, headers=key).expect(201).json
        equal(d.post("/v1/sandboxes", {}, headers=key).expect(200).json["sandbox_id"], first["sandbox_id"], "the second")
        d.post("/v1/sandboxes", {"ttl": "5m"}, headers=key).expect(409, "conflict")


@test
def profiles_and_prices(c):
    with Rest(c) as d:
        ids = {p["id"]: p for p in d.get("/v1/profiles").expect(200).json["profiles"]}
        check(ids["profile.sandbox-canary"]["available"], "the canary is not available")
        equal(d.get("/v1/profiles/profile.sandbox-canary").expect(200).json["id"], "profile.sandbox-canary", "id")
        equal(d.post("/v1/estimate").expect(200).json["currency"], "micro-credits", "currency")
        bad = d.ask("POST", "/v1/profiles/validate", b"id: profile.x\nversion: 1\nttl: { default: 2x }\n").expect(200).json
        equal((bad["valid"], bad["problems"][0]["line"], bad["problems"][0]["field"]), (False, 3, "ttl.default"), "verdict")
        good = d.ask("POST", "/v1/profiles/validate", b"id: profile.x\nversion: 1\nextension: ext.local\n").json
        check("valid" in good, "no verdict")


# ---- files ----


@test
def files_are_written_read_and_looked_at(c):
    with Rest(c) as d:
        box = d.create()
        d.put(f"{box}/files?path=/tmp/a&mode=0600", b"hello").expect(204)
        equal(d.get(f"{box}/files?path=/tmp/a").expect(200).body, b"hello", "content")
        stat = d.get(f"{box}/files/stat?path=/tmp/a").expect(200).json
        equal((stat["name"], stat["kind"], stat["size"], stat["mode"]), ("a", "file", 5, "0600"), "stat")
        d.post(f"{box}/files/mkdir", {"path": "/tmp/d/e", "mode": "0750"}).expect(204)
        d.post(f"{box}/files/rename", {"from": "/tmp/a", "to": "/tmp/d/b"}).expect(204)
        entries = d.get(f"{box}/files/list?path=/tmp/d").expect(200).json["entries"]
        equal(sorted((e["name"], e["kind"]) for e in entries), [("b", "file"), ("e", "dir")], "entries")
        equal(d.get(f"{box}/files/list?path=/tmp/d/e").expect(200).json, {"entries": []}, "an empty directory")
        d.delete(f"{box}/files?path=/tmp/d").expect(204)
        d.get(f"{box}/files/stat?path=/tmp/d").expect(404, "not_found")


@test
def refused_file_operations_say_why(c):
    with Rest(c) as d:
        box = d.create()
        d.get(f"{box}/files?path=/none").expect(404, "not_found", says="ENOENT")
        d.get(f"{box}/files?path=/tmp").expect(400, "invalid")
        d.get(f"{box}/files").expect(400, "invalid", says="path")
        d.get(f"{box}/files?path=relative").expect(400, "invalid", says="absolute")
        d.get(f"{box}/files/list?path=/etc/passwd").expect(400, "invalid", says="ENOTDIR")
        d.put(f"{box}/files?path=/tmp/x&mode=9", b"").expect(400, "invalid", says="mode")
        d.put(f"{box}/files?path=/none/x", b"").expect(404, "not_found")
        d.put(f"{box}/files/tar?path=/tmp", b"junk").expect(400, "invalid")
        d.post(f"{box}/files/mkdir", {"path": "x"}).expect(400, "invalid", says="path")
        d.post(f"{box}/files/rename", {"from": "/none", "to": "/tmp/x"}).expect(404, "not_found")
        d.delete(f"{box}/files?path=/none").expect(404, "not_found")
        d.get(f"{box}/files/watch?path=/none").expect(404, "not_found")


@test
def big_files_stream_both_ways(c):
    data = bytes(range(256)) * (1 << 16)  # 16 MiB
    with Rest(c) as d:
        box = d.create()
        d.put(f"{box}/files?path=/tmp/big", data).expect(204)
        equal(hashlib.sha256(d.get(f"{box}/files?path=/tmp/big").body).digest(), hashlib.sha256(data).digest(), "hash")


@test
def an_upload_that_breaks_off_changes_nothing(c):
    with Rest(c) as d:
        box = d.create()
        d.put(f"{box}/files?path=/tmp/a", b"old").expect(204)
        connection = d.connect()
        connection.putrequest("PUT", f"{box}/files?path=/tmp/a")
        connection.putheader("Content-Length", "1000000")
        connection.endheaders()
        connection.send(b"new" * 1000)
        wait_for(lambda: len(d.get(f"{box}/files/list?path=/tmp").json["entries"]) == 2, "the upload has begun")
        connection.close()
        wait_for(lambda: len(d.get(f"{box}/files/list?path=/tmp").json["entries"]) == 1, "the rest is gone")
        equal(d.get(f"{box}/files?path=/tmp/a").body, b"old", "content")


@test
def trees_travel_as_tar(c):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("dir/file")
        member.size = 5
        tar.addfile(member, io.BytesIO(b"hello"))
    with Rest(c) as d:
        box = d.create()
        d.put(f"{box}/files/tar?path=/tmp", archive.getvalue()).expect(204)
        with tarfile.open(fileobj=io.BytesIO(d.get(f"{box}/files/tar?path=/tmp/dir").expect(200).body)) as tar:
            equal(tar.extractfile("dir/file").read(), b"hello", "content")


@test
def a_watch_tells_changes(c):
    with Rest(c) as d:
        box = d.create()
        connection = d.connect()
        connection.request("GET", f"{box}/files/watch?path=/tmp")
        answer = connection.getresponse()
        equal(answer.status, 200, "status")
        for _ in range(2):
            d.put(f"{box}/files?path=/tmp/w", b"x").expect(204)
        d.post(f"{box}/files/rename", {"from": "/tmp/w", "to": "/tmp/v"}).expect(204)
        seen = []
        while ("move", "v") not in seen:
            event = json.loads(answer.readline())
            seen.append((event["event"], event["name"]))
        # Of the temporaries that become the file nothing is told.
        equal([k for i, k in enumerate(seen) if k != (seen[i - 1] if i else None)], [("create", "w"), ("attrib", "w"), ("modify", "w"), ("move", "w"), ("move", "v")], "what is told, of each run of the same")
        connection.close()


@test
def a_write_keeps_mode_and_link(c):
    with Rest(c) as d:
        box = d.create()
        d.run(box, "sh", "-c", "cd /tmp; echo old >script; chmod 755 script; ln -s script link")
        d.put(f"{box}/files?path=/tmp/link", b"new").expect(204)
        equal(d.run(box, "sh", "-c", "cd /tmp; stat -c %a script; readlink link; cat script")["stdout"], "755\nscript\nnew", "the script")
        d.put(f"{box}/files?path=/tmp/link&mode=0600", b"new").expect(204)
        equal(d.run(box, "stat", "-c", "%a", "/tmp/script")["stdout"], "600\n", "a mode that was given")


# ---- processes ----


@test
def a_program_in_one_answer_and_in_lines(c):
    with Rest(c) as d:
        box = d.create()
        result = d.run(box, "sh", "-c", "echo out; echo err >&2; exit 3")
        equal((result["exit_code"], result["stdout"], result["stderr"]), (3, "out\n", "err\n"), "result")
        equal(d.run(box, "printf", r"\377")["stdout_b64"], "/w==", "bytes")
        equal(d.run(box, "sh", "-c", '[ "$PWD" = "$HOME" ] && echo "at home"', cwd="")["stdout"], "at home\n", "an empty directory")
        lines = d.post(f"{box}/processes", {"argv": ["sh", "-c", "kill -9 $$"]}).expect(200).lines
        equal((lines[0]["event"], lines[-1]["event"], lines[-1]["signal"]), ("started", "exited", "KILL"), "lines")
        check(d.run(box, "sleep", "100", timeout="100ms")["timed_out"], "it did not time out")
        d.post(f"{box}/processes", {"argv": ["/none"]}).expect(404, "not_found", says="ENOENT")
        d.post(f"{box}/processes", {"argv": []}).expect(400, "invalid")
        d.post(f"{box}/processes", {"argv": ["true"], "nope": 1}).expect(400, "invalid")


@test
def a_client_that_leaves_takes_its_program_along(c):
    with Rest(c) as d:
        box = d.create()
        connection = d.connect()
        connection.request("POST", f"{box}/processes", json.dumps({"argv": ["sleep", "1000"]}))
        answer = connection.getresponse()
        check("started" in answer.readline().decode(), "it does not run")
        answer.close()
        connection.close()
        wait_for(lambda: d.run(box, "sh", "-c", "grep -l sleep /proc/[0-9]*/comm")["stdout"] == "", "it ends")


@test
def background_processes(c):
    with Rest(c) as d:
        box = d.create()
        started = d.post(f"{box}/processes", {"argv": ["sh", "-c", "echo one; echo two >&2; cat"], "background": True,
                                              "stdin": True}).expect(201).json
        at = f"{box}/processes/{started['process']}"
        equal(d.get(at).expect(200).json["state"], "running", "state")
        equal([p["process"] for p in d.get(f"{box}/processes").json["processes"]], [started["process"]], "list")
        wait_for(lambda: len(d.get(f"{box}/logs").lines) == 2, "two lines")
        d.post(f"{at}/stdin", b"three\n").expect(204)
        wait_for(lambda: len(d.get(f"{box}/logs").lines) == 3, "three lines")
        equal([line["line"] for line in d.get(f"{box}/logs?tail=1").lines], ["three"], "the last line")
        equal(d.get(f"{box}/logs?process=999").expect(200).body, b"", "of another process")
        d.post(f"{at}/resize", {"rows": 1, "cols": 1}).expect(409, "conflict")
        d.post(f"{at}/signal", {"signal": "NOPE"}).expect(400, "invalid")
        d.post(f"{at}/stdin?close=true", b"four\n").expect(204)
        lines = d.get(f"{at}/attach").expect(200).lines
        equal("".join(e["data"] for e in lines if e["event"] == "stdout"), "one\nthree\nfour\n", "stdout")
        equal(lines[-1]["event"], "exited", "the last word")
        equal(d.get(at).json["exit_code"], 0, "exit code")
        d.post(f"{at}/signal", {"signal": "TERM"}).expect(409, "conflict")
        d.get(f"{box}/processes/999").expect(404, "not_found")
        d.get(f"{box}/processes/new").expect(400, "invalid", says="WebSocket")


@test
def a_signalled_process_and_followed_logs(c):
    with Rest(c) as d:
        box = d.create()
        connection = d.connect()
        connection.request("GET", f"{box}/logs?follow=true")
        logs = connection.getresponse()
        p = d.post(f"{box}/processes", {"argv": ["sh", "-c", "echo here; sleep 1000"], "background": True}).json["process"]
        equal(json.loads(logs.readline()), {"process": p, "stream": "stdout", "line": "here"}, "the followed line")
        d.post(f"{box}/processes/{p}/signal", {"signal": "TERM", "scope": "tree"}).expect(200)
        wait_for(lambda: d.get(f"{box}/processes/{p}").json["state"] == "exited", "it ends")
        d.delete(box).expect(200)
        equal(logs.read(), b"", "the end of the logs")
        connection.close()


# ---- events ----


@test
def events_in_pages_and_as_a_stream(c):
    with Rest(c) as d:
        box = d.create()
        page = d.get(f"{box}/events").expect(200).json
        equal([e["to"] for e in page["events"]], ["requested", "provisioning", "ready"], "moves")
        first = d.get("/v1/events?limit=1").json
        equal(len(first["events"]), 1, "a page of one")
        rest = d.get(f"/v1/events?after={first['next']}").json["events"]
        equal([e["seq"] for e in first["events"] + rest], [e["seq"] for e in page["events"]], "no gap")
        connection = d.connect()
        connection.request("GET", f"{box}/events",
                           headers={"Accept": "text/event-stream", "Last-Event-ID": str(page["events"][1]["seq"])})
        stream = connection.getresponse()
        equal(stream.headers["Content-Type"], "text/event-stream", "type")
        d.delete(box).expect(200)
        seen = []
        while not seen or seen[-1]["type"] != "sandbox.destroyed":
            line = stream.readline().decode()
            if line.startswith("data: "):
                seen.append(json.loads(line[6:]))
        equal([e["to"] for e in seen], ["ready", "destroying", "destroyed"], "moves of the stream")
        connection.close()
        last = seen[-1]["seq"]
        equal(d.get(f"/v1/events?after={last}").json, {"events": [], "next": last}, "nothing new")
        equal(d.get(f"/v1/events?after={last}&wait=1").json["events"], [], "nothing new, after a while")
        d.get("/v1/events?wait=1000").expect(400, "invalid")


# ---- hosts, tokens, who asks ----


@test
def hosts_come_and_go(c):
    with Rest(c) as d:
        equal([h["name"] for h in d.get("/v1/hosts").expect(200).json["hosts"]], ["local"], "hosts")
        d.post("/v1/hosts", {"name": "a", "address": "u@b"}).expect(201)
        d.post("/v1/hosts", {"name": "a", "address": "u@b"}).expect(409, "conflict")
        d.post("/v1/hosts", {"name": "b", "address": "-oProxyCommand=x"}).expect(400, "invalid", says="address")
        d.delete("/v1/hosts/a").expect(204)
        d.delete("/v1/hosts/a").expect(404, "not_found")
        d.delete("/v1/hosts/local").expect(409, "conflict")
        check(d.get("/v1/inspect/host").expect(200).json["cpus"] >= 1, "no processors")
        equal(d.get("/v1/inspect/stale").expect(200).json["stale"], [], "what is left")
        equal(d.post("/v1/reap-stale", {"apply": True}).expect(200).json["applied"], True, "applied")


def token(d, **request):
    made = d.post("/v1/tokens", {"name": "t", **request}).expect(201).json
    return made["id"], {"Authorization": f"Bearer {made['token']}"}


@test
def tokens_do_what_they_say(c):
    with Rest(c, port=free_port()) as d:
        box = d.create(labels={"team": "x"})
        other = d.create()
        d.get("/v1/sandboxes", tcp=True).expect(401, "unauthenticated")
        d.get("/v1/sandboxes", tcp=True, headers={"Authorization": "Bearer sbt_x"}).expect(401, "unauthenticated")
        d.get("/healthz", tcp=True).expect(200)
        reader, auth = token(d, verbs=["read"], labels={"team": "x"})
        equal([f"/v1/sandboxes/{b['sandbox_id']}" for b in d.get("/v1/sandboxes", tcp=True, headers=auth).expect(200).json["sandboxes"]],
              [box], "what it sees")
        d.get(other, tcp=True, headers=auth).expect(404, "not_found")
        d.get(f"{box}/events", tcp=True, headers=auth).expect(200)
        equal({e["sandbox_id"] for e in d.get("/v1/events", tcp=True, headers=auth).expect(200).json["events"]},
              {box.rsplit("/", 1)[1]}, "events of all that it sees")
        d.delete(box, tcp=True, headers=auth).expect(403, "denied", says="destroy")
        d.get(f"{box}/files?path=/etc/passwd", tcp=True, headers=auth).expect(403, "denied")
        d.get("/v1/backup", tcp=True, headers=auth).expect(403, "denied")
        d.delete(f"/v1/tokens/{reader}").expect(204)
        d.get("/v1/sandboxes", tcp=True, headers=auth).expect(401, "unauthenticated")
        _, admin = token(d, verbs=["admin", "read"])
        d.post("/v1/tokens", {"name": "more", "verbs": ["exec"]}, tcp=True, headers=admin).expect(403, "denied")
        d.post("/v1/tokens", {"name": "same", "verbs": ["read"]}, tcp=True, headers=admin).expect(201)
        d.post("/v1/tokens", {"name": "x", "verbs": ["nope"]}).expect(400, "invalid", says="nope")


@test
def a_web_page_cannot_reach_us(c):
    with Rest(c, port=free_port()) as d:
        _, auth = token(d, verbs=["read"])
        good = f"127.0.0.1:{d.port}"
        d.get("/v1/sandboxes", tcp=True, headers={**auth, "Host": good}).expect(200)
        d.get("/v1/sandboxes", tcp=True, headers={**auth, "Host": f"localhost:{d.port}"}).expect(200)
        d.get("/v1/sandboxes", tcp=True, headers={**auth, "Host": good, "Origin": f"http://{good}"}).expect(200)
        for headers in ({"Host": f"evil.example:{d.port}"}, {"Host": "127.0.0.1"}, {"Host": good, "Origin": "http://evil.example"},
                        {"Host": good, "Origin": "null"}):
            d.get("/v1/sandboxes", tcp=True, headers={**auth, **headers}).expect(403, "denied")
            d.get("/healthz", tcp=True, headers=headers).expect(403, "denied")


@test
def trust_only_goes_down(c):
    with Rest(c, port=free_port()) as d:
        box = d.create()
        _, plain = token(d, verbs=["read", "destroy"])
        _, gateway = token(d, verbs=["read", "destroy"], gateway=True)
        level = {"X-Trust-Level": "apprentice"}
        d.delete(box, tcp=True, headers={**gateway, **level}).expect(403, "denied")
        d.get(box, tcp=True, headers={**gateway, **level}).expect(200)
        d.delete(box, tcp=True, headers={**gateway, "X-Trust-Level": "nonsense"}).expect(403, "denied")
        d.delete(box, tcp=True, headers={**plain, "X-Trust-Level": "master"}).expect(200)  # ignored: its own rights count


# ---- what a client can do to us ----


MUCH = 20_000_000
WRITES_MUCH = f"head -c {MUCH} /dev/zero | tr '\\0' x"


def peak_memory(pid):
    with open(f"/proc/{pid}/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


@test
def slow_and_leaving_clients_cost_no_memory(c):
    with Rest(c) as d:
        box = d.create()
        before = peak_memory(d.daemon.plane)
        connection = d.connect()
        connection.request("POST", f"{box}/processes", json.dumps({"argv": ["/bin/sh", "-c", WRITES_MUCH]}))
        answer = connection.getresponse()
        answer.readline()
        for _ in range(5):  # while this reader stands, others are served
            d.daemon.works(box.rpartition("/")[2])
        total = 0
        for line in answer:
            event = json.loads(line)
            total += len(event.get("data", ""))
        equal((total, event["event"]), (MUCH, "exited"), "bytes")
        more = peak_memory(d.daemon.plane) - before
        check(more < MUCH / 2, f"the daemon took {more} bytes")
        for _ in range(20):
            connection = d.connect()
            connection.request("GET", f"{box}/files?path=/dev/../usr/bin/python3")
            connection.close()
        d.get("/healthz").expect(200)


main()
