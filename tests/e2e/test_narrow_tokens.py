#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""A token that may do less does not get more by another route: programs, variables, keys, numbers of the machine."""

import contextlib
import hashlib
import json
import os
import sqlite3
import subprocess

from client import Client
from e2b import Box, Served
from harness import PLAIN as USER
from harness import BUILD, check, equal, main, test, wait_for
from tcp import OTHERS, Tcp

VERBS = ["read", "create", "exec", "files", "extend", "destroy"]  # of no administrator
EVIL = "/tmp/evil"
PROGRAMS = ("sh", "find", "grep", "perl", "python3", "chmod", "chown", "chgrp", "mkdir", "mktemp", "cat", "mv", "rm", "bash")


class Holder:
    """A token, and how it is used on every interface."""

    def __init__(self, served, **request):
        made = served.d.api.post("/v1/tokens", {"name": "t", "verbs": VERBS, **request}).expect(201).json
        self.served, self.id, self.key = served, made["id"], made["token"]

    def rest(self, method, path, body=None, **headers):
        return self.served.ask(method, f"/v1/{path}", body, Authorization=f"Bearer {self.key}", **headers)

    def daytona(self, method, path, body=None, **headers):
        return self.served.ask(method, f"/daytona/{path}", body, Authorization=f"Bearer {self.key}", **headers)

    def e2b(self, method, path, body=None, **headers):
        return self.served.ask(method, path, body, X_API_KEY=self.key, **headers)


def lay_trap(who, box, directory):
    """Programs that leave a mark when they run, by the names of those that a file tool could call."""
    who.daytona("POST", f"toolbox/{box}/files/folder?path={directory}&mode=755").expect(200)
    for name in PROGRAMS:
        text = b"#!/bin/sh\necho \"$0\" >>/tmp/ran\nexit 0\n"
        who.rest("PUT", f"sandboxes/{box}/files?path={directory}/{name}&mode=0755&user=user", text).expect(200, 201, 204)


@test
def file_tools_run_no_program_of_the_sandbox(c):
    with Served(c) as s:
        low, other = Holder(s, role="apprentice"), Holder(s, verbs=["files"])
        box = low.rest("POST", "sandboxes", {"profile": "profile.base", "env": {"PATH": f"{EVIL}:/usr/bin:/bin"}}).expect(201).json["sandbox_id"]
        low.rest("POST", f"sandboxes/{box}/processes", {"argv": ["true"]}).expect(403)
        lay_trap(low, box, EVIL)
        files = f"sandboxes/{box}/files"
        low.daytona("POST", f"toolbox/{box}/files/folder?path=/home/user/a/b&mode=755").expect(200)
        for path, text in (("one.txt", b"first\nsome text\n"), ("b/two.txt", b"text\0binary\n"), ("b/three.md", b"no match\nmore text here, text")):
            low.rest("PUT", f"{files}?path=/home/user/a/{path}&user=user", text).expect(200, 201, 204)
        for who in (low, other):
            def tool(method, path, body=None, holder=who):
                return holder.daytona(method, f"toolbox/{box}/files/{path}", body)
            equal(sorted(tool("GET", "search?path=/home/user/a&pattern=t*.[tm]*").expect(200).json["files"]),
                  ["/home/user/a/b/three.md", "/home/user/a/b/two.txt"], "names that match")
            equal(tool("GET", "search?path=/home/user/a&pattern=a").expect(200).json["files"], ["/home/user/a"], "the directory itself")
            found = sorted((m["file"], m["line"], m["content"]) for m in tool("GET", "find?path=/home/user/a&pattern=text").expect(200).json)
            equal(found, [("/home/user/a/b/three.md", 2, "more text here, text"), ("/home/user/a/one.txt", 2, "some text")], "lines, and none of a binary")
            equal([m["line"] for m in tool("GET", "find?path=/home/user/a/one.txt&pattern=first").expect(200).json], [1], "in one file")
            for path, status in (("search?path=/none&pattern=x", 404), ("find?path=/none&pattern=x", 404), ("search?path=/tmp&pattern=[", 400), ("search?path=/tmp", 400)):
                tool("GET", path).expect(status)
            tool("POST", "permissions?path=/home/user/a/one.txt&mode=640").expect(200)
            equal(tool("GET", "info?path=/home/user/a/one.txt").expect(200).json["permissions"], "0640", "the mode")
            for query, status in (("path=/none&mode=600", 404), ("path=/home/user/a/one.txt&mode=9", 400), ("path=/home/user/a/one.txt&mode=77777", 400),
                                  ("path=/home/user/a/one.txt&owner=nobody-of-that-name", 400), ("path=/home/user/a/one.txt&group=nobody-of-that-name", 400)):
                tool("POST", f"permissions?{query}").expect(status)
            if c.root:
                tool("POST", "permissions?path=/home/user/a/one.txt&owner=user&group=user").expect(200)
                tool("POST", "permissions?path=/home/user/a/one.txt&owner=root").expect(403)
                tool("POST", "permissions?path=/etc/passwd&mode=777").expect(403)
            replaced = tool("POST", "replace", {"files": ["/home/user/a/one.txt", "/none", "/home/user/a"], "pattern": "t\nsome", "newValue": "t:\\1 $&\nsome"}).expect(200).json
            equal([r["success"] for r in replaced], [True, False, False], f"what was replaced: {replaced}")
            equal(tool("GET", "download?path=/home/user/a/one.txt").expect(200).data, b"first:\\1 $&\nsome text\n", "the file")
            equal(tool("GET", "info?path=/home/user/a/one.txt").expect(200).json["permissions"], "0640", "the mode stays")
            low.rest("PUT", f"{files}?path=/home/user/a/one.txt&user=user", b"first\nsome text\n").expect(200, 201, 204)
        inside = Box(s, box, low.e2b("POST", f"/sandboxes/{box}/connect", {}).expect(200).json["envdAccessToken"])
        compose = {"source_paths": ["/home/user/a/one.txt", "/home/user/a/b/three.md"], "destination": "/home/user/new/er/all", "username": "user"}
        inside.ask("POST", "/files/compose", {**compose, "source_paths": ["/home/user/a/one.txt", "/none"]}).expect(404)
        equal(inside.ask("POST", "/files/compose", compose).expect(200).json["name"], "all", "the new file")
        equal(low.rest("GET", f"{files}?path=/home/user/new/er/all&user=user").expect(200).data, b"first\nsome text\nno match\nmore text here, text", "all of it")
        low.rest("GET", f"{files}?path=/home/user/a/one.txt&user=user").expect(404)
        low.rest("GET", f"{files}?path=/tmp/ran&user=user").expect(404)  # nothing ran
        equal(s.d.get(box)["state"], "ready", "no program has made it active")


@test
def commands_of_a_template_have_no_variables_of_the_caller(c):
    """The caller of a create does not choose what they run, so it gets no PATH or exported function into them."""
    with Served(c) as s:
        maker = Holder(s, verbs=[*VERBS, "admin"])
        made = maker.e2b("POST", "/v3/templates", {"name": "t"}).expect(202).json
        place = f"/templates/{made['templateID']}/builds/{made['buildID']}"
        for verbs in (["read", "create"], ["read", "create", "files"]):  # a build that another token announced
            Holder(s, verbs=verbs).e2b("POST", f"/v2{place}", {"fromTemplate": "base", "steps": [{"type": "RUN", "args": ["true"]}]}).expect(403)
        steps = [{"type": "ENV", "args": ["COLOUR", "green"]}]
        maker.e2b("POST", f"/v2{place}", {"fromTemplate": "base", "steps": steps, "startCmd": "env >/tmp/env; exec sleep 777", "readyCmd": "test -s /tmp/env"}).expect(202)

        def build():
            return maker.e2b("GET", f"{place}/status").expect(200).json
        wait_for(lambda: build()["status"] in ("ready", "error"), "the build ends")
        equal(build()["status"], "ready", f"{build()}")
        low = Holder(s, role="apprentice")
        box = low.e2b("POST", "/v2/sandboxes", {"templateID": "t", "envVars": {"COLOUR": "blue", "BASH_FUNC_env%%": "() { touch /tmp/ran; }", "EXTRA": "x"}}).expect(201).json["sandboxID"]
        files = f"sandboxes/{box}/files?user=user&path="
        said = low.rest("GET", f"{files}/tmp/env").expect(200).data.decode().splitlines()
        check("COLOUR=green" in said and not any(line.startswith("EXTRA=") for line in said), f"the start command's variables: {said}")
        low.rest("GET", f"{files}/tmp/ran").expect(404)


@test
def values_of_variables_are_for_callers_that_may_run_programs(c):
    with Served(c) as s:
        holder, same, reader = Holder(s), Holder(s), Holder(s, verbs=["read"])
        low, few = Holder(s, role="apprentice"), Holder(s, verbs=["read", "files", "extend"])
        box = holder.rest("POST", "sandboxes", {"profile": "profile.base", "env": {"API_KEY": "hunter2"}}).expect(201).json["sandbox_id"]
        holder.daytona("POST", f"toolbox/{box}/process/pty", {"id": "t", "envs": {"API_KEY": "hunter2"}}).expect(200, 201)
        for who, value in ((holder, "hunter2"), (low, "")):
            inside = Box(s, box, who.e2b("POST", f"/sandboxes/{box}/connect", {}).expect(200, 201).json["envdAccessToken"])
            listed = inside.rpc("process.Process/List", {}).expect(200).json["processes"]
            equal([p["config"]["envs"]["API_KEY"] for p in listed], [value], "envd's list")
        for who, value in ((holder, "hunter2"), (same, "hunter2"), (reader, ""), (low, ""), (few, "")):
            for path in (f"sandbox/{box}", "sandbox"):
                answer = who.daytona("GET", path).expect(200).json
                shown = answer if "env" in answer else answer["items"][0]
                equal(shown["env"], {"API_KEY": value}, f"{path} of {box}")
            for path in ("pty", "pty/t") if who not in (reader, few) else ():  # those need the verb exec
                answer = who.daytona("GET", f"toolbox/{box}/process/{path}").expect(200).json
                shown = answer if "envs" in answer else answer["sessions"][0]
                equal(shown["envs"]["API_KEY"], value, f"{path} of {box}")
            for answer in (who.rest("GET", f"sandboxes/{box}"), who.e2b("GET", f"/sandboxes/{box}"), who.e2b("GET", "/v2/sandboxes")):
                check(answer.status == 200 and b"hunter2" not in answer.data, f"{answer}")


@test
def a_recreate_that_is_refused_destroys_nothing(c):
    c.write("daemon/profiles/agent-dev.yaml", (BUILD / "profiles" / "agent-dev.yaml").read_bytes())
    with Served(c, config=f"workspaces: {{roots: ['{c.dir}']}}") as s:
        public = {"network": ["public"]}
        holder, none = Holder(s, capabilities=public), Holder(s, capabilities=public, egress="none")
        box = holder.rest("POST", "sandboxes", {"egress": {"allow": ["example.com:443"]}}).expect(201).json["sandbox_id"]
        said = none.rest("POST", f"sandboxes/{box}/recreate")
        check(said.status in (400, 403) and b"is unchanged" in said.data, f"by a token without egress: {said}")
        check(s.d.get(box)["state"] in ("ready", "active"), "it is there")
        said = holder.rest("POST", f"sandboxes/{box}/recreate", Idempotency_Key="x" * 200)
        check(said.status == 400 and s.d.get(box)["state"] in ("ready", "active"), f"a key that is too long: {said}")
        repo = c.dir / "repo"
        repo.mkdir()
        c.own(repo)
        mirrored = s.d.api.post("/v1/sandboxes", {"profile": "profile.agent-dev", "inputs": {"repo": str(repo)}, "workspace": {"mode": "mirror", "access": "ro"},
                                                  "capabilities": {"network": False}}).expect(201).json["sandbox_id"]
        said = holder.rest("POST", f"sandboxes/{mirrored}/recreate").expect(403)
        check(b"inputs.repo" in said.data and s.d.get(mirrored)["state"] in ("ready", "active"), f"a directory of the machine: {said}")
        equal(s.d.api.post(f"/v1/sandboxes/{mirrored}/recreate").expect(201).json["recreated_from"], mirrored, "by a user who may name it")
        new = holder.rest("POST", f"sandboxes/{box}/recreate").expect(201).json
        equal([new["recreated_from"], s.d.get(box)["state"]], [box, "destroyed"], "one that is not refused")


@test
def idempotency_keys_are_a_tokens_own(c):
    with Served(c) as s:
        a, b, free = Holder(s, labels={"team": "a"}), Holder(s, labels={"team": "b"}), Holder(s)
        body, other = {"env": {"S": "x"}}, {"env": {"S": "y"}}

        def make(who, request, status, key="KEY1"):
            answer = who.rest("POST", "sandboxes", request, Idempotency_Key=key)
            equal(answer.status, status, f"{answer}")
            return answer
        first = make(b, body, 201).json["sandbox_id"]
        for who in (a, free):
            said = make(who, other, 201)
            check(first not in said.data.decode(), "another's sandbox is named")
            own = said.json["sandbox_id"]
            equal(make(who, other, 200).json["sandbox_id"], own, "the same again")
            said = make(who, body, 409)
            check(own in said.data.decode() and first not in said.data.decode(), f"its own sandbox is named: {said}")
        equal(make(b, body, 200).json["sandbox_id"], first, "nobody took the key")
        by_user = s.d.api.request("POST", "/v1/sandboxes", json.dumps(body).encode(), {"Idempotency-Key": "KEY1"}).expect(201).json["sandbox_id"]
        equal(s.d.api.request("POST", "/v1/sandboxes", json.dumps(body).encode(), {"Idempotency-Key": "KEY1"}).expect(200).json["sandbox_id"], by_user, "of the unix socket")
        # Rows of the time when keys were the owner's.
        s.d.stop()
        with contextlib.closing(sqlite3.connect(next(s.d.state.glob("**/*.db")))) as db, db:
            owner = db.execute("SELECT owner FROM idempotency WHERE sandbox = ?", (first,)).fetchone()[0]
            db.execute("UPDATE idempotency SET key = 'OLD', body = ? WHERE sandbox = ? AND owner = ?", (hashlib.sha256(json.dumps(body).encode()).digest(), first, owner))
        s.start()
        equal(make(b, body, 200, "OLD").json["sandbox_id"], first, "an older row still counts for its token")
        check(first.encode() in make(b, other, 409, "OLD").data, "with its own sandbox")
        check(first not in make(a, body, 201, "OLD").data.decode(), "and for no other")


@test
def an_undo_needs_the_verbs_of_all_that_it_does(c):
    """It replaces files, and ends programs, as a stop does, which needs `extend`."""
    with Served(c) as s:
        box = s.d.create(profile="profile.base")
        s.d.api.post(f"/v1/sandboxes/{box}/checkpoints", {}).expect(200)
        made = s.d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["sh", "-c", "echo x >/tmp/f; exec sleep 600"], "background": True}).expect(201).json["process"]
        wait_for(lambda: s.d.api.get(f"/v1/sandboxes/{box}/files?user=user&path=/tmp/f").status == 200, "it has written")
        for verbs in (["read", "files"], ["read", "extend"], ["read", "create", "exec", "files", "destroy"]):
            who = Holder(s, verbs=verbs)
            who.rest("POST", f"sandboxes/{box}/undo", {}).expect(403, code="denied")
            if "extend" not in verbs:
                who.rest("POST", f"sandboxes/{box}/stop").expect(403, code="denied")
            equal(s.d.api.get(f"/v1/sandboxes/{box}/processes/{made}").expect(200).json["state"], "running", f"the program, after {verbs}")
        Holder(s, verbs=["read", "files", "extend"]).rest("POST", f"sandboxes/{box}/undo", {}).expect(200)
        s.d.api.get(f"/v1/sandboxes/{box}/files?user=user&path=/tmp/f").expect(404)


@test
def labels_are_set_within_those_of_the_token(c):
    with Served(c) as s:
        red, blue, free = Holder(s, labels={"team": "red"}), Holder(s, labels={"team": "blue"}), Holder(s)
        box = red.rest("POST", "sandboxes", {"profile": "profile.base"}).expect(201).json["sandbox_id"]
        place, wanted = f"sandboxes/{box}/labels", {"labels": {"team": "blue", "a": "b"}}
        Holder(s, verbs=["read", "files", "extend", "exec", "destroy"]).rest("PUT", place, wanted).expect(403, code="denied")
        blue.rest("PUT", place, wanted).expect(404)
        equal(red.rest("PUT", place, wanted).expect(200).json["labels"], {"team": "red", "a": "b"}, "a token keeps its own labels")
        got = free.rest("PUT", place, {"labels": {"team": "red", "peer": "tok_x"}})
        check(got.status in (200, 400, 403) and "peer" not in s.d.get(box)["labels"], f"a reserved label: {got}")
        blue.rest("GET", f"sandboxes/{box}").expect(404)
        free.rest("PUT", place, wanted).expect(200)
        red.rest("GET", f"sandboxes/{box}").expect(404)
        equal(blue.rest("GET", f"sandboxes/{box}").expect(200).json["labels"], wanted["labels"], "labels that a token without labels has set")


@test
def facts_about_machines_are_for_administrators(c):
    with Served(c, config=OTHERS if c.root else "") as s:
        check(s.d.api.get("/v1/inspect/host").expect(200).json["memory_bytes"] > 0, "an administrator sees them")
        s.d.api.post("/v1/hosts", {"name": "elsewhere", "address": "me@elsewhere.test"}).expect(201)
        hosts = Holder(s, verbs=["admin"]).rest("GET", "hosts").expect(200).json["hosts"]
        equal([h["address"] for h in hosts], ["local", "me@elsewhere.test"], "what an administrator's token sees of hosts")
        for path in ("inspect/host", "hosts"):
            Holder(s, verbs=["read"]).rest("GET", path).expect(403)
        if not c.root:  # a plain user's daemon has one owner, who is the administrator
            return
        os.chmod(s.d.dir, 0o755)
        made = subprocess.run([c.program(), "token", "create", "-q", "--verb", "read", "--verb", "create", "--verb", "admin", "mine"], user=USER, group=USER, extra_groups=[], cwd="/",
                              env={**c.environment, **Client(s.d).env}, capture_output=True, check=True)
        tenant = Tcp(s.port, made.stdout.decode().strip())
        tenant.get("/v1/tokens").expect(200)
        for path in ("/v1/inspect/host", "/v1/hosts"):
            refused = tenant.get(path).expect(403, code="denied")
            check(b"elsewhere" not in refused.data, f"{path}: {refused}")
        box = tenant.post("/v1/sandboxes", {}).expect(201).json
        check("telemetry" not in box and "telemetry" not in tenant.get(f"/v1/sandboxes/{box['sandbox_id']}").expect(200).json, f"what a tenant's sandbox shows: {box}")
        check(all("telemetry" not in x for x in tenant.get("/v1/sandboxes").expect(200).json["sandboxes"]), "and a list")


main()
