#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""MCP as a client meets it: on stdio and on HTTP, in every revision, with good and bad messages."""

import asyncio
import base64
import contextlib
import json
import os
import signal
import statistics
import subprocess
import time

from client import Client
from daemon import Daemon
from harness import check, equal, main, test, wait_for
from mcp import META, NEW, VERSION, Lines, Web, check_tool_schemas, events
from tcp import serving

# Whether they only read, destroy, do the same when called again, reach beyond this machine.
TOOLS = {
    "sandbox_create": (False, False, False, False),
    "sandbox_exec": (False, True, False, True),
    "sandbox_read": (True, False, True, False),
    "sandbox_write": (False, True, True, False),
    "sandbox_install": (False, False, False, True),
    "sandbox_destroy": (False, True, True, False),
    "sandbox_list": (True, False, True, False),
}
PROPERTIES = {"isolation_level", "cold_start_ms", "language_support", "egress_policy", "attestation"}
WAIT = "until [ -e /tmp/go ]; do sleep 0.05; done; "  # inside, for what a test does
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}}}).encode()
ONCE = {"only": "root", "because": "the daemon is the same for everybody"}


def nothing_left(d, what):
    wait_for(lambda: not d.api.get("/v1/sandboxes").expect(200).json["sandboxes"], what)


@test(**ONCE)
def where_commands_start_is_told(c):
    c.write("daemon/profiles/there.yaml", "id: profile.there\nversion: 1\nworkdir: /var/tmp\n")
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        for profile in ("profile.there", "profile.sandbox-canary"):
            made = m.tool("sandbox_create", profile=profile)
            began = m.tool("sandbox_exec", sandbox_id=made["sandbox_id"], command='pwd; [ "$PWD" = "$HOME" ] && echo home')["stdout"]
            equal(began, f"{made['workdir']}\n" if "workdir" in made else "/root\nhome\n", f"of {profile}")
            equal("workdir" in made, profile == "profile.there", f"of {profile}")


@test
def a_model_makes_uses_and_ends_a_sandbox(c):
    with Daemon(c) as d, Lines(c, d) as m:
        equal(m.begin()["protocolVersion"], VERSION, "the revision")
        tools = m.ask("tools/list")["result"]["tools"]
        equal([t["name"] for t in tools], list(TOOLS), "the tools")
        for tool in tools:
            hints = dict(zip(("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"), TOOLS[tool["name"]], strict=True))
            equal({k: v for k, v in tool["annotations"].items() if k.endswith("Hint")}, hints, f"what is said of {tool['name']}")
        check("repo" not in json.dumps(tools[0]["inputSchema"]), "a directory of the host is offered")
        made = m.tool("sandbox_create", capabilities={"memory_mb": 64}, ttl="5m")
        check(PROPERTIES <= made.keys(), f"the provider's properties: {made}")
        box = made["sandbox_id"]
        m.tool("sandbox_write", sandbox_id=box, path="/workspace/deep/er/hello.sh", content="echo out; echo err >&2; exit 3\n")
        done = m.tool("sandbox_exec", sandbox_id=box, command="sh deep/er/hello.sh", cwd="/workspace")
        equal([done[k] for k in ("exit_code", "stdout", "stderr", "timed_out")], [3, "out\n", "err\n", False], "the end")
        done = m.tool("sandbox_exec", sandbox_id=box, argv=["sh", "-c", 'cat; printf "%s" "$A"'], stdin="in ", env={"A": "ä"})
        equal(done["stdout"], "in ä", "what it read and was told")
        equal(m.tool("sandbox_read", sandbox_id=box, path="/workspace/deep/er/hello.sh")["content"], "echo out; echo err >&2; exit 3\n", "the file")
        raw = bytes(range(256)) * 700
        m.tool("sandbox_write", sandbox_id=box, path="/tmp/raw", content=base64.b64encode(raw).decode(), encoding="base64")
        again = m.tool("sandbox_read", sandbox_id=box, path="/tmp/raw", encoding="base64")
        check(base64.b64decode(again["content"]) == raw and again["bytes"] == len(raw), "the bytes are others")
        listed = m.tool("sandbox_list")
        equal([b["sandbox_id"] for b in listed["sandboxes"]], [box], "the list")
        check(listed["provider_version"], "no provider_version")
        equal(m.tool("sandbox_destroy", sandbox_id=box)["state"], "destroyed", "its state")
        equal(m.tool("sandbox_list")["sandboxes"], [], "the list afterwards")


@test(**ONCE)
def every_vendor_takes_the_schemas(c):
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        check_tool_schemas(m.ask("tools/list")["result"]["tools"])
        # Other forms that are not in the schemas are understood.
        made = m.tool("sandbox_create", ttl=90, capabilities={"network": False})
        m.tool("sandbox_destroy", sandbox_id=made["sandbox_id"])


@test(**ONCE)
def output_comes_while_it_runs(c):
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        n = m.start("tools/call", name="sandbox_exec", _meta={"progressToken": "t"},
                    arguments={"sandbox_id": box, "command": "printf 'a\\303'; " + WAIT + "printf '\\244'; echo no >&2"})
        first = m.next()
        equal(first["params"]["message"], "a", "what came before its end")
        m.tool("sandbox_exec", sandbox_id=box, command="touch /tmp/go")
        answer = m.answer(n)
        notes = [first, *m.notes]
        equal([note["params"]["progressToken"] for note in notes], ["t"] * len(notes), "the tokens")
        numbers = [note["params"]["progress"] for note in notes]
        check(numbers == sorted(set(numbers)), f"progress does not only grow: {numbers}")
        streams = {name: "".join(note["params"]["message"] for note in notes if note["params"]["_meta"]["sandboxer/stream"] == name)
                   for name in ("stdout", "stderr")}
        said = answer["result"]["structuredContent"]
        equal(streams["stdout"], said["stdout"], "stdout as it came")
        equal(streams["stderr"], said["stderr"], "stderr as it came")


@test(**ONCE)
def cancelling_kills_everything_and_answers_nothing(c):
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        n = m.start("tools/call", name="sandbox_exec", _meta={"progressToken": 7},
                    arguments={"sandbox_id": box, "command": "(setsid sleep 7777 &) ; echo up; sleep 7777"})
        equal(m.next()["params"]["message"], "up\n", "it runs")
        m.send(method="notifications/cancelled", params={"requestId": n})
        wait_for(lambda: m.tool("sandbox_exec", sandbox_id=box, command="cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 777[7]'")["stdout"] == "0\n",
                 "its processes are gone")
        check(not [x for x in m.notes if x.get("id") == n], "it was answered")


@test(**ONCE)
def what_was_made_goes_with_the_client(c):
    with Daemon(c) as d:
        with Lines(c, d) as m:
            m.begin()
            box = m.tool("sandbox_create")["sandbox_id"]
            m.start("tools/call", name="sandbox_exec", arguments={"sandbox_id": box, "command": "sleep 7777"})
            m.start("tools/call", name="sandbox_create", arguments={})
            equal(m.close(), 0, "how it ended")
        nothing_left(d, "its sandboxes are gone")
        with Lines(c, d) as m:
            m.begin()
            m.tool("sandbox_create")
            m.process.kill()
        nothing_left(d, "those of one that was killed are gone")


@test(**ONCE)
def what_was_made_goes_with_the_daemon(c):
    with Daemon(c) as d:
        for end in (d.kill, d.stop):
            with Lines(c, d) as m:
                m.begin()
                m.tool("sandbox_create")
                m.start("tools/call", name="sandbox_exec", arguments={"sandbox_id": m.tool("sandbox_create")["sandbox_id"], "command": "sleep 7777"})
                end()
                check(m.process.wait(20) != 0, "a client whose daemon is gone ends well")
            d.start()
            nothing_left(d, "the next life of the daemon has removed them")
        with Lines(c, d) as m:
            m.begin()
            os.kill(m.process.pid, signal.SIGSTOP)
            m.start("ping")  # which it reads when nobody is there to hear it
            d.kill()
            os.kill(m.process.pid, signal.SIGCONT)
            check(m.process.wait(20) != 0, "a client that speaks to nobody ends well")
        d.start()


@test(**ONCE)
def a_client_sees_its_own_and_nothing_else(c):
    with Daemon(c) as d, Lines(c, d) as m, Lines(c, d) as other:
        m.begin()
        other.begin()
        box, mine = m.tool("sandbox_create")["sandbox_id"], other.tool("sandbox_create")["sandbox_id"]
        third = d.create()
        equal([b["sandbox_id"] for b in other.tool("sandbox_list")["sandboxes"]], [mine], "the list")
        for stranger in (box, third, "sbx_" + "a" * 20):
            other.refused("sandbox_exec", "There is no sandbox", sandbox_id=stranger, command="id")
            other.refused("sandbox_read", "There is no sandbox", sandbox_id=stranger, path="/etc/hostname")
            other.refused("sandbox_write", "There is no sandbox", sandbox_id=stranger, path="/tmp/x", content="")
            other.refused("sandbox_destroy", "There is no sandbox", sandbox_id=stranger)
            equal(other.ask("resources/read", uri=f"sandbox://{stranger}")["error"]["data"], {"uri": f"sandbox://{stranger}"}, "what is read of it")
        equal(d.api.get(f"/v1/sandboxes/{box}").json["state"], "ready", "the other's")
        listed = Client(d).lines("list", "-q")
        check({box, mine, third} == set(listed), f"an administrator sees {listed}")


@test(**ONCE)
def a_tool_says_when_and_why_its_sandbox_ended(c):
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        box, own = m.tool("sandbox_create", profile="profile.short")["sandbox_id"], m.tool("sandbox_create")["sandbox_id"]
        wait_for(lambda: box in {b["sandbox_id"] for b in d.list("?state=destroyed")}, "its time is over")
        m.tool("sandbox_destroy", sandbox_id=own)
        for sandbox, why in ((box, "ago: its ttl of 4s has expired"), (own, "ago (sandbox_destroy)")):
            for name, arguments in (("sandbox_exec", {"command": "true"}), ("sandbox_read", {"path": "/etc/hostname"}),
                                    ("sandbox_write", {"path": "/tmp/x", "content": ""}), ("sandbox_destroy", {})):
                m.refused(name, f"The sandbox {sandbox} was destroyed ", sandbox_id=sandbox, **arguments)
                m.refused(name, why, sandbox_id=sandbox, **arguments)


@test(**ONCE)
def bad_arguments_are_told_to_the_model(c):
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        for name, says, arguments in (
                ("sandbox_exec", "either command or argv", {}),
                ("sandbox_exec", "either command or argv", {"command": "a", "argv": ["b"]}),
                ("sandbox_exec", "do not fit", {"command": 7}),
                ("sandbox_exec", "do not fit", {"command": "a", "nonsense": 1}),
                ("sandbox_exec", "do not fit", {"command": "a\0b"}),
                ("sandbox_exec", "timeout_s", {"command": "a", "timeout_s": 1801}),
                ("sandbox_exec", "begin with /", {"command": "a", "cwd": "x"}),
                ("sandbox_exec", "env", {"command": "a", "env": {"A=B": "x"}}),
                ("sandbox_exec", "did not start", {"argv": ["/no/such/program"]}),
                ("sandbox_read", "is not absolute", {"path": "etc/passwd"}),
                ("sandbox_read", "path: does not match the allowed pattern", {"path": "/a\0b"}),
                ("sandbox_read", "path: does not match the allowed pattern", {"path": "/no/such\nfile"}),
                ("sandbox_read", "contains '..'", {"path": "/../../no"}),
                ("sandbox_read", "base64", {"path": "/bin/sh"}),
                ("sandbox_write", "base64", {"path": "/tmp/x", "content": "a*==", "encoding": "base64"}),
                ("sandbox_write", "could not be written", {"path": "/proc/x", "content": ""}),
                ("sandbox_install", "not a valid package name", {"manager": "pip", "packages": ["--index-url=http://x"]}),
                ("sandbox_install", "not a valid package name", {"manager": "apt", "packages": ["a;b"]}),
                ("sandbox_install", "do not fit", {"manager": "brew", "packages": ["a"]}),
                ("sandbox_create", "memory_mb", {"sandbox_id": None, "capabilities": {"memory_mb": 99999}}),
                ("sandbox_create", "0.1 to 4.0", {"sandbox_id": None, "capabilities": {"cpu_quota": 9.0}}),
                ("sandbox_create", "provider", {"sandbox_id": None, "provider": "elsewhere"}),
                ("sandbox_create", "profile", {"sandbox_id": None, "profile": "profile.none"})):
            given = {"sandbox_id": box, **arguments}
            m.refused(name, says, **{k: v for k, v in given.items() if v is not None})
        # A model can correct the id of a sandbox: a result of the tool, and no error of the protocol.
        for name, more in (("sandbox_exec", {"command": "true"}), ("sandbox_read", {"path": "/x"}), ("sandbox_write", {"path": "/tmp/x", "content": ""}),
                           ("sandbox_install", {"manager": "apt", "packages": ["x"]}), ("sandbox_destroy", {})):
            for wrong in ({}, {"sandbox_id": None}, {"sandbox_id": 7}, {"sandbox_id": ""}, {"sandbox_id": "the sandbox"}, {"sandbox_id": box[:-1]},
                          {"sandbox_id": box + "\0"}, {"sandbox_id": "sbx_" + "0" * 20}):
                answer = m.ask("tools/call", name=name, arguments={**more, **wrong})
                check(answer.get("result", {}).get("isError") and "sandbox_list" in answer["result"]["content"][0]["text"], f"{name} {wrong}: {answer}")
        check("error" in m.ask("tools/call", name="sandbox_nothing", arguments={}), "an unknown tool is a protocol error")
        equal(m.tool("sandbox_exec", sandbox_id=box, command="echo $HOME")["exit_code"], 0, "it still works")


@test(**ONCE)
def a_timeout_and_too_much_output_are_told(c):
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        done = m.tool("sandbox_exec", sandbox_id=box, command="echo before; sleep 7777", timeout_s=5)
        check(done["timed_out"] and "exit_code" not in done and done["stdout"] == "before\n", f"the end: {done}")
        done = m.tool("sandbox_exec", sandbox_id=box, command="head -c 3000000 /dev/zero | tr '\\0' x")
        check(done["truncated"] and len(done["stdout"]) == 1 << 20, "the output is not cut at a megabyte")
        done = m.tool("sandbox_exec", sandbox_id=box, command="printf '\\377\\376'; kill -9 $$")
        equal([done["stdout_b64"], done["signal"]], ["//4=", "KILL"], "bytes and a signal")


@test(**ONCE)
def frames_that_are_none_are_refused_and_the_next_is_served(c):
    with Daemon(c) as d, Lines(c, d) as m:
        for line, code in ((b"{", -32700), (b"[]", -32600), (b"7", -32600), (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
                           (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
                           (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32600), (b'{"jsonrpc":"2.0","id":1}', -32600),
                           (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', -32600), (b"\xff", -32700),
                           (b'{"jsonrpc":"2.0","id":1,"method":"server/none"}', -32601), (b"x" * (9 << 20), -32600),
                           (b"[" + INITIALIZE + b"]", -32600), (b"[" + INITIALIZE + b',{"jsonrpc":"2.0","id":2,"method":"ping"}]', -32600)):
            m.write(line + b"\n")
            equal(m.next()["error"]["code"], code, f"the code for {line[:60]!r}")
        m.write(b'\n  \n{"jsonrpc":"2.0","id":"a","method":"ping"}\r\n')
        equal(m.next(), {"jsonrpc": "2.0", "id": "a", "result": {}}, "a ping")
        m.begin()
        m.send(id=1, method="initialize", params={"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}})
        check("error" in m.next(), "a second initialize")


@test(**ONCE)
def every_revision_is_spoken(c):
    with Daemon(c) as d:
        for asked, given in (("2024-11-05",) * 2, ("2025-03-26",) * 2, ("2025-06-18",) * 2, (VERSION,) * 2, ("1999-01-01", VERSION), (NEW, VERSION)):
            with Lines(c, d) as m:
                equal(m.begin(version=asked)["protocolVersion"], given, f"the answer to {asked}")
                m.write(b'[{"jsonrpc":"2.0","id":"x","method":"ping"},{"jsonrpc":"2.0","id":"y","method":"tools/list"}]\n')
                batches = given <= "2025-03-26"
                equal([m.next().get("id") for _ in range(2 if batches else 1)], ["x", "y"] if batches else [None], f"a batch in {given}")
        with Lines(c, d) as m:
            found = m.ask("server/discover", _meta=META)["result"]
            check(NEW in found["supportedVersions"] and found["resultType"] == "complete", f"discover: {found}")
            equal(m.ask("ping", _meta=META)["error"]["code"], -32601, "a method that is gone")
            equal(m.ask("tools/list", _meta={**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"})["error"]["code"], -32022, "a revision to come")
            result = m.ask("tools/call", _meta=META, name="sandbox_create", arguments={})["result"]
            check(result["resultType"] == "complete" and result["structuredContent"]["sandbox_id"], f"without initialize: {result}")
        nothing_left(d, "a stateless client's on a connection go with it")


@test(**ONCE)
def long_commands_become_tasks_for_those_who_know_them(c):
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
    with Daemon(c) as d, Lines(c, d) as m:
        box = m.ask("tools/call", _meta=meta, name="sandbox_create", arguments={})["result"]["structuredContent"]["sandbox_id"]
        quick = lambda: m.ask("tools/call", _meta=meta, name="sandbox_exec", arguments={"sandbox_id": box, "command": "true"})["result"]
        wait_for(lambda: quick()["resultType"] == "complete", "a short one is no task")
        task = m.ask("tools/call", _meta=meta, name="sandbox_exec",
                     arguments={"sandbox_id": box, "command": WAIT + "echo there"})["result"]
        equal([task["resultType"], task["status"]], ["task", "working"], "a long one")
        equal(m.ask("tasks/get", _meta=meta, taskId=task["taskId"])["result"]["status"], "working", "its state")
        m.ask("tools/call", _meta=meta, name="sandbox_exec", arguments={"sandbox_id": box, "command": "touch /tmp/go"})
        wait_for(lambda: m.ask("tasks/get", _meta=meta, taskId=task["taskId"])["result"]["status"] == "completed", "it is done")
        equal(m.ask("tasks/get", _meta=meta, taskId=task["taskId"])["result"]["result"]["structuredContent"]["stdout"], "there\n", "its result")
        task = m.ask("tools/call", _meta=meta, name="sandbox_exec", arguments={"sandbox_id": box, "command": "(setsid sleep 7777 &) ; sleep 7777"})["result"]
        count = ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -cx '777[7]'"]
        wait_for(lambda: int(d.api.run(box, count).json["stdout"]) >= 2, "what it started runs")
        m.ask("tasks/cancel", _meta=meta, taskId=task["taskId"])
        wait_for(lambda: d.api.run(box, count).json["stdout"] == "0\n", "all of it is killed")
        equal(m.ask("tasks/get", _meta=meta, taskId=task["taskId"])["result"]["status"], "cancelled", "after cancelling")
        equal(m.ask("tasks/get", _meta=meta, taskId="tsk_none")["error"]["code"], -32602, "one that is not there")


@test(**ONCE)
def resources_prompts_and_completion(c):
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        m.tool("sandbox_write", sandbox_id=box, path="/tmp/a b", content="text")
        uris = [r["uri"] for r in m.ask("resources/list")["result"]["resources"]]
        check(f"sandbox://{box}" in uris, f"the list: {uris}")
        check(len(m.ask("resources/templates/list")["result"]["resourceTemplates"]) == 6, "templates")

        def read(rest):
            return m.ask("resources/read", uri=f"sandbox://{box}{rest}")
        equal(json.loads(read("")["result"]["contents"][0]["text"])["sandbox_id"], box, "its record")
        equal(read("/files/tmp/a%20b")["result"]["contents"][0]["text"], "text", "a file")
        check("blob" in read("/files/bin/sh")["result"]["contents"][0], "a file that is no text")
        check("sandbox.ready" in read("/events")["result"]["contents"][0]["text"], "its events")
        equal(read("/policy")["result"]["contents"][0]["text"], "null", "its policy")
        for wrong in ("/files/no/such", "/files/%00", "/files/%zz", "/nothing", "/files"):
            equal(read(wrong)["error"]["code"], -32002, f"what is read of {wrong}")
        equal(list(m.ask("resources/subscribe", uri=f"sandbox://{box}")["result"]), ["_meta"], "a subscription")
        d.api.post(f"/v1/sandboxes/{box}/extend-ttl", {"duration": 1200}).expect(200)
        check(wait_for(lambda: m.ask("ping") and [n for n in m.notes if n.get("method") == "notifications/resources/updated"], "the change is told"), "")
        equal(m.notes[-1]["params"], {"uri": f"sandbox://{box}"}, "what changed")
        equal(m.ask("resources/unsubscribe", uri=f"sandbox://{box}")["result"], {}, "the end of it")
        equal([p["name"] for p in m.ask("prompts/list")["result"]["prompts"]], ["execute-untrusted-code"], "the prompts")
        text = m.ask("prompts/get", name="execute-untrusted-code", arguments={"code": "rm -rf /", "language": "sh"})["result"]["messages"][0]["content"]["text"]
        check(text.endswith("rm -rf /"), "the prompt holds the code")
        equal(m.ask("prompts/get", name="execute-untrusted-code")["error"]["code"], -32602, "a prompt without its argument")

        def complete(name, value):
            return m.ask("completion/complete", ref={"type": "ref/prompt", "name": "execute-untrusted-code"},
                         argument={"name": name, "value": value})["result"]["completion"]["values"]
        equal(complete("language", "p"), ["python", "perl"], "languages")
        equal(complete("id", "sbx_"), [box], "sandboxes")
        equal(m.ask("logging/setLevel", level="loud")["error"]["code"], -32602, "a level that is none")
        equal(m.ask("tools/list", cursor="x")["error"]["code"], -32602, "a cursor that is none")


def updates(m, uri):
    """How often it was told that the resource has changed, so far."""
    m.ask("ping")
    return len([n for n in m.notes if n.get("method") == "notifications/resources/updated" and n["params"]["uri"] == uri])


def changes(m, uri, what):
    """Does it, and waits until the change is told."""
    before = updates(m, uri)
    what()
    wait_for(lambda: updates(m, uri) > before, f"a change of {uri} is told")


@test(**ONCE)
def output_is_told_to_those_who_watch_the_logs(c):
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        uri = f"sandbox://{box}/logs"

        def background(command):
            d.api.run(box, ["sh", "-c", command], background=True).expect(200, 201)

        def logs():
            return m.ask("resources/read", uri=uri)["result"]["contents"][0]["text"]

        def touch(name):
            m.tool("sandbox_exec", sandbox_id=box, command=f"touch {name}")
        background(WAIT + "echo one; sleep 7777")
        equal(list(m.ask("resources/subscribe", uri=uri)["result"]), ["_meta"], "a subscription")
        changes(m, uri, lambda: touch("/tmp/go"))
        check("one\n" in logs(), "what it wrote")
        many = "until [ -e /tmp/on ]; do sleep 0.05; done; i=0; while [ $i -lt 200 ]; do echo l$i; i=$((i+1)); sleep 0.01; done; touch /tmp/done; "
        changes(m, uri, lambda: background(many + "until [ -e /tmp/last ]; do sleep 0.05; done; echo last; sleep 7777"))  # of one that comes later
        before = updates(m, uri)
        touch("/tmp/on")
        d.api.run(box, ["sh", "-c", "until [ -e /tmp/done ]; do sleep 0.05; done"]).expect(200)
        told = updates(m, uri) - before
        check(0 < told < 100, f"200 lines were told {told} times")
        changes(m, uri, lambda: touch("/tmp/last"))
        wait_for(lambda: updates(m, uri) and "last\n" in logs(), "the last line, told or about to be")
        equal(m.ask("resources/unsubscribe", uri=uri)["result"], {}, "the end of it")
        equal(m.tool("sandbox_exec", sandbox_id=box, command="echo tool")["stdout"], "tool\n", "a tool's output")
        check("tool" not in logs(), "what a tool ran is not in the logs")
        said = [t["description"] for t in m.ask("resources/templates/list")["result"]["resourceTemplates"] if t["name"] == "logs"]
        check("sandbox_exec" in said[0], f"which is said: {said}")


@test(**ONCE)
def files_and_directories_can_be_watched(c):
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        base = f"sandbox://{box}/files"

        def run(command):
            return m.tool("sandbox_exec", sandbox_id=box, command=command)

        def subscribe(path, what="subscribe"):
            return m.ask(f"resources/{what}", uri=base + path)
        run("mkdir -p /tmp/dir && echo a > '/tmp/dir/a b' && echo x > /tmp/dir/x")
        file = base + "/tmp/dir/a%20b"
        equal(list(subscribe("/tmp/dir/a%20b")["result"]), ["_meta"], "of a file")
        changes(m, file, lambda: run("echo more >> '/tmp/dir/a b'"))
        changes(m, file, lambda: m.tool("sandbox_write", sandbox_id=box, path="/tmp/dir/a b", content="another in its place"))
        changes(m, file, lambda: run("echo again >> '/tmp/dir/a b'"))
        equal(list(subscribe("/tmp/dir")["result"]), ["_meta"], "of a directory")
        before = updates(m, file)
        changes(m, base + "/tmp/dir", lambda: run("echo y >> /tmp/dir/x"))
        equal(updates(m, file), before, "changes of another file")
        changes(m, file, lambda: run("rm '/tmp/dir/a b'"))
        for wrong in ("/tmp/none", "/tmp/dir/x/", "/tmp/../tmp/dir/x", "/tmp/%zz", ""):
            equal(subscribe(wrong)["error"]["code"], -32002, f"of {wrong}")
        m.tool("sandbox_exec", sandbox_id=box, command="for i in $(seq 20); do echo > /tmp/f$i; done")
        given = ["result" in subscribe(f"/tmp/f{i}") for i in range(1, 17)]
        equal(given, [True] * 14 + [False] * 2, "as many as a session may watch, two being watched already")
        equal(subscribe("/tmp/dir", "unsubscribe")["result"], {}, "the end of one")
        equal(list(subscribe("/tmp/f15")["result"]), ["_meta"], "another instead")
        n = m.start("subscriptions/listen", _meta=META, notifications={"resourceSubscriptions": [base + "/tmp/f16", base + "/tmp/dir/none"]})
        acknowledged = m.next()
        equal(acknowledged["params"]["notifications"], {}, "nothing is left to listen to")
        m.send(method="notifications/cancelled", params={"requestId": n})
        subscribe("/tmp/f15", "unsubscribe")
        m.start("subscriptions/listen", _meta=META, notifications={"resourceSubscriptions": [base + "/tmp/f16", base + "/tmp/none"]})
        equal(m.next()["params"]["notifications"], {"resourceSubscriptions": [base + "/tmp/f16"]}, "what is listened to")
        changes(m, base + "/tmp/f16", lambda: run("echo z > /tmp/f16"))
        m.tool("sandbox_destroy", sandbox_id=box)
        equal(m.tool("sandbox_list")["sandboxes"], [], "it still works")


@test(**ONCE)
def lists_come_in_pages(c):
    bundle = c.write("bundle.yaml", "version: 1\ntools:\n  sandbox_create: {tier: 2, effect: write, creates: true}\n  sandbox_list: {tier: 0, effect: read}\n")
    with Daemon(c, config=f"limits: {{sandboxes_max: 60, sandboxes_per_owner: 60}}\ntrust: {{bundle: '{bundle}'}}") as d, Lines(c, d) as m:
        m.begin()
        for _ in range(51):
            m.start("tools/call", name="sandbox_create", arguments={})
        boxes = {m.next()["result"]["structuredContent"]["sandbox_id"] for _ in range(51)}

        def pages(ask, cursor, items):
            page = ask()
            yield page[items]
            while cursor in page:
                page = ask(cursor=page[cursor])
                yield page[items]
        listed = list(pages(lambda **more: m.tool("sandbox_list", limit=20, **more), "next_cursor", "sandboxes"))
        equal([len(p) for p in listed], [20, 20, 11], "the pages of sandbox_list")
        equal({b["sandbox_id"] for p in listed for b in p}, boxes, "what is on them")
        listed = list(pages(lambda **more: m.ask("resources/list", **more)["result"], "nextCursor", "resources"))
        equal(len(listed), 2, "pages of resources")
        uris = [r["uri"] for p in listed for r in p]
        equal(sorted(uris), sorted(f"sandbox://{b}{part}" for b in boxes for part in ("", "/events", "/logs", "/policy")), "the resources, each once")
        equal(m.ask("resources/list", cursor="x")["error"]["code"], -32602, "a cursor that is none")


@test(**ONCE)
def http_keeps_to_its_rules(c):
    ping = {"jsonrpc": "2.0", "id": 9, "method": "ping"}
    with Daemon(c) as d:
        w = Web(d)
        equal(w.post(b"{").expect(400).json["error"]["code"], -32700, "no JSON")
        equal(w.post(ping).expect(400).json["error"]["code"], -32000, "without a session")
        equal(w.post(ping, Mcp_Session_Id="mcp_" + "a" * 20).expect(404).json["error"]["code"], -32001, "a session that is none")
        for batch in (b"[" + INITIALIZE + b"]", b"[" + INITIALIZE + b"," + json.dumps(ping).encode() + b"]"):
            equal(w.post(batch).expect(400).json["error"]["code"], -32000, "initialize in a batch")
        w.post(ping, Accept="application/json").expect(406)
        w.post(ping, Content_Type="text/plain").expect(415)
        equal(w.begin()["protocolVersion"], VERSION, "the revision")
        equal(w.post(ping).expect(200).json, {"jsonrpc": "2.0", "id": 9, "result": {}}, "a ping")
        w.post(ping, MCP_Protocol_Version="1999-01-01").expect(400)
        w.post([ping]).expect(400)
        equal(w.ask("initialize", protocolVersion=VERSION, capabilities={}, clientInfo={"name": "t", "version": "1"}).expect(400).json["error"]["code"], -32600, "again")
        d.api.request("GET", "/mcp", None, w.headers(Accept="application/json")).expect(406)
        box = w.ask("tools/call", name="sandbox_create", arguments={}).expect(200).json["result"]["structuredContent"]["sandbox_id"]
        run = w.ask("tools/call", name="sandbox_exec", arguments={"sandbox_id": box, "command": "echo a; sleep 0.2; echo b"}, _meta={"progressToken": 1})
        check("text/event-stream" in run.headers["Content-Type"], "live output comes as a stream")
        messages = [m for _, m in events(run.data.replace(b"\r", b"")) if m]
        equal("".join(m["params"]["message"] for m in messages[:-1]), "a\nb\n", "what came before the answer")
        equal(messages[-1]["result"]["structuredContent"]["stdout"], "a\nb\n", "the answer")
        d.api.request("DELETE", "/mcp", None, w.headers()).expect(204)
        w.post(ping).expect(404)
        nothing_left(d, "its sandboxes are gone")


@test(**ONCE)
def batches_are_answered_where_they_are_spoken(c):
    batch = [{"jsonrpc": "2.0", "id": "x", "method": "ping"}, {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
             {"jsonrpc": "2.0", "id": "y", "method": "tools/list"}, {"jsonrpc": "2.0", "id": "z", "method": "no/such"}]
    with Daemon(c) as d:
        for version, spoken in (("2024-11-05", True), ("2025-03-26", True), ("2025-06-18", False), (VERSION, False)):
            w = Web(d)
            w.begin(version)
            answer = w.post(batch)
            equal(answer.status, 200 if spoken else 400, f"a batch in {version}")
            if spoken:
                answers = {m["id"]: m for _, m in events(answer.data) if m}
                equal([sorted(answers), answers["x"].get("result"), answers["z"]["error"]["code"]], [["x", "y", "z"], {}, -32601], f"the answers in {version}")
                equal([t["name"] for t in answers["y"]["result"]["tools"]], list(TOOLS), "among them the tools")
                w.post(batch[1:2]).expect(202)


@test(**ONCE)
def a_lost_stream_is_resumed(c):
    with Daemon(c) as d:
        w = Web(d)
        w.begin()
        box = w.ask("tools/call", name="sandbox_create", arguments={}).json["result"]["structuredContent"]["sandbox_id"]
        command = "echo one; " + WAIT + "echo two"
        connection, response = d.api.open("POST", "/mcp", {"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": {
            "name": "sandbox_exec", "arguments": {"sandbox_id": box, "command": command}, "_meta": {"progressToken": 1}}}, w.headers())
        seen = b""
        while b"one" not in seen:
            seen += response.read1()
        last = [i for i, m in events(seen) if m][-1]
        connection.close()
        w.ask("tools/call", name="sandbox_exec", arguments={"sandbox_id": box, "command": "touch /tmp/go"}).expect(200)
        got = d.api.request("GET", "/mcp", None, w.headers(Last_Event_ID=last)).expect(200)
        messages = [m for _, m in events(got.data) if m]
        equal(messages[0]["params"]["message"], "two\n", "what was missed")
        equal([messages[-1]["id"], messages[-1]["result"]["structuredContent"]["stdout"]], ["long", "one\ntwo\n"], "the answer")
        connection, response = d.api.open("GET", "/mcp", None, w.headers())
        equal(response.status, 200, "the stream that belongs to no request")
        equal(d.api.request("GET", "/mcp", None, w.headers()).status, 409, "a second one")
        connection.close()


def resume(d, w, last):
    """What a stream goes on with: (id, message) each."""
    return events(d.api.request("GET", "/mcp", None, w.headers(Last_Event_ID=last)).expect(200).data)


def begin_with_sandbox(d):
    w = Web(d)
    w.begin()
    return w, w.ask("tools/call", name="sandbox_create", arguments={}).expect(200).json["result"]["structuredContent"]["sandbox_id"]


@test(**ONCE)
def a_stream_is_resumed_from_its_first_event(c):
    with Daemon(c) as d:
        w, box = begin_with_sandbox(d)
        run = w.ask("tools/call", name="sandbox_exec", arguments={"sandbox_id": box, "command": "echo a; sleep 0.2; echo b"}, _meta={"progressToken": 1})
        (first, nothing), *rest = events(run.data)
        equal(nothing, None, "what a stream begins with")
        ids = [first, *(i for i, _ in rest)]
        equal(len(set(ids)), len(ids), f"different ids: {ids}")
        equal(resume(d, w, first), rest, "all of it, again")
        equal(resume(d, w, rest[0][0]), rest[1:], "what is behind the first message")
        slow = w.ask("tools/call", name="sandbox_exec", arguments={"sandbox_id": box, "command": "sleep 6; echo c"})
        (first, nothing), *rest = events(slow.data)
        equal([nothing, len(rest)], [None, 1], "a stream whose first message is the answer")
        equal(resume(d, w, first), rest, "the answer, again")


MUCH = "head -c 1000000 /dev/zero | tr '\\0' "


@test(**ONCE)
def a_large_answer_waits_for_who_lost_its_stream(c):
    def run(w, box, command):
        answer = w.ask("tools/call", name="sandbox_exec", arguments={"sandbox_id": box, "command": command}, _meta={"progressToken": 1})
        return events(answer.data)
    with Daemon(c) as d:
        w, box = begin_with_sandbox(d)
        heard = run(w, box, f"{MUCH}x; {MUCH}y >&2")
        (first, _), (last, answer) = heard[0], heard[-1]
        run(w, box, "yes | head -c 3000000")  # more notes than are kept
        equal(resume(d, w, first)[-1], (last, answer), "the answer, though others were noisy")
        equal(resume(d, w, last), [], "what is behind the answer")
        for _ in range(4):
            run(w, box, f"{MUCH}x; {MUCH}y >&2")
        ((again, error),) = resume(d, w, first)
        equal([again, error["id"], error["error"]["code"]], [last, answer["id"], -32603], "of an answer that is not kept any more")
        check("no longer kept" in error["error"]["message"], f"it says so: {error}")
        gone = d.api.request("GET", "/mcp", None, w.headers(Last_Event_ID="1-0")).expect(410)  # of initialize
        check("can no longer be resumed" in gone.json["error"]["message"], f"of a stream that is not known: {gone.json}")


@test(**ONCE)
def a_session_on_http_ends_in_silence(c):
    with Daemon(c, config="trust: {silence: 3s}") as d:
        (silent, his), (listener, mine) = begin_with_sandbox(d), begin_with_sandbox(d)
        connection, response = d.api.open("GET", "/mcp", None, listener.headers())
        equal(response.status, 200, "a stream that stays open")
        wait_for(lambda: his not in [b["sandbox_id"] for b in d.api.get("/v1/sandboxes").json["sandboxes"]], "what it made is gone")
        silent.ask("ping").expect(404)
        equal(d.api.get(f"/v1/sandboxes/{mine}").json["state"], "ready", "that of the one who listens")
        listener.ask("ping").expect(200)
        connection.close()
        nothing_left(d, "it has left, too")


@test(**ONCE)
def without_sessions_headers_must_fit_and_leaving_is_cancelling(c):
    def headers(method, name=None, version=NEW):
        return {"MCP_Protocol_Version": version, "Mcp_Method": method, **({"Mcp_Name": name} if name else {})}
    with Daemon(c) as d:
        w = Web(d)
        call = w.ask("tools/call", headers("tools/call", "sandbox_create"), name="sandbox_create", arguments={}, _meta=META).expect(200).json["result"]
        box = call["structuredContent"]["sandbox_id"]
        for bad in (headers("tools/list", "sandbox_list"), headers("tools/call"), headers("tools/call", "sandbox_exec"), headers("tools/call", "sandbox_list", VERSION)):
            equal(w.ask("tools/call", bad, name="sandbox_list", arguments={}, _meta=META).expect(400).json["error"]["code"], -32020, f"{bad}")
        encoded = "=?base64?" + base64.b64encode(b"sandbox_list").decode() + "?="
        listed = w.ask("tools/call", headers("tools/call", encoded), name="sandbox_list", arguments={}, _meta=META).expect(200).json["result"]
        equal([b["sandbox_id"] for b in listed["structuredContent"]["sandboxes"]], [box], "the next request sees it")
        d.api.request("GET", "/mcp", None, {"MCP-Protocol-Version": NEW, "Accept": "text/event-stream"}).expect(405)
        wanted = {**w.headers(**headers("tools/call", "sandbox_exec"))}
        connection, response = d.api.open("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "sandbox_exec", "arguments": {"sandbox_id": box, "command": "echo up; sleep 7777"}, "_meta": {**META, "progressToken": 1}}}, wanted)
        seen = b""
        while b"up" not in seen:
            seen += response.read1()
        connection.close()
        wait_for(lambda: d.api.run(box, ["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep 777[7]'"]).json["stdout"] == "0\n", "it is killed")
        d.api.delete(f"/v1/sandboxes/{box}").expect(200)


@test(**ONCE)
def tokens_say_what_may_be_called(c):
    with serving(c) as (d, port, token):
        accept = {"Accept": "application/json, text/event-stream", "Content_Type": "application/json"}

        def begin(t, **headers):
            return t.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}, **accept, **headers)

        def call(t, session, name, **arguments):
            return t.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": name, "arguments": arguments}},
                             **accept, Mcp_Session_Id=session)
        (reader, _), (user, identity) = token("read"), token("read", "create", "exec", "files", "destroy")
        session = begin(reader).expect(200).headers["Mcp-Session-Id"]
        refused = call(reader, session, "sandbox_create").expect(200).json["error"]
        equal([refused["code"], refused["data"]["kind"]], [-32000, "deny"], "what a reader may not")
        mine = begin(user).expect(200).headers["Mcp-Session-Id"]
        box = call(user, mine, "sandbox_create").expect(200).json["result"]["structuredContent"]["sandbox_id"]
        call(reader, mine, "sandbox_list").expect(404)  # a forged session
        begin(user, Origin="http://evil.example").expect(403)
        begin(user, Host="evil.example").expect(403)
        d.api.delete(f"/v1/tokens/{identity}").expect(200, 204)
        call(user, mine, "sandbox_list").expect(401)
        d.api.delete(f"/v1/sandboxes/{box}").expect(200)


ENDLESS = "yes | tee /dev/null"


@contextlib.contextmanager
def stopped_line(c, d):
    """A client that asks for more than it reads: its sandbox."""
    env = {"SANDBOXER_SOCKET": str(d.socket), "SANDBOXER_STATE": str(d.state), "SANDBOXER_NO_DAEMON": "1"}
    slow = c.start([c.program(), "mcp"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def say(**message):
        slow.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        slow.stdin.flush()
    say(id=1, method="initialize", params={"protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "s", "version": "1"}})
    slow.stdout.readline()
    say(id=2, method="tools/call", params={"name": "sandbox_create", "arguments": {}})
    box = json.loads(slow.stdout.readline())["result"]["structuredContent"]["sandbox_id"]
    say(id=3, method="tools/call", params={"name": "sandbox_exec", "_meta": {"progressToken": 1}, "arguments": {"sandbox_id": box, "command": ENDLESS}})
    yield box
    slow.kill()
    slow.wait()


@contextlib.contextmanager
def stopped_stream(_, d):
    """The same of a session on HTTP, with the event stream of its call."""
    w = Web(d)
    w.begin()
    box = w.ask("tools/call", name="sandbox_create", arguments={}).expect(200).json["result"]["structuredContent"]["sandbox_id"]
    connection, response = d.api.open("POST", "/mcp", {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": {
        "name": "sandbox_exec", "_meta": {"progressToken": 1}, "arguments": {"sandbox_id": box, "command": ENDLESS}}}, w.headers())
    equal([response.status, response.headers["Content-Type"]], [200, "text/event-stream"], "its stream")
    yield box
    connection.close()
    d.api.request("DELETE", "/mcp", None, w.headers()).expect(204)


@test(**ONCE)
def a_client_that_does_not_read_costs_only_itself(c):
    with Daemon(c) as d, Lines(c, d) as m:
        m.begin()
        box = m.tool("sandbox_create")["sandbox_id"]
        for stopped in (stopped_line, stopped_stream):
            with stopped(c, d) as his:
                def used(his=his):
                    return int(d.api.run(his, ["sh", "-c", "for p in /proc/[0-9]*; do [ \"$(cat $p/comm)\" = yes ] && sed -n 's/^wchar: //p' $p/io; done"]).json["stdout"] or 0)
                wait_for(lambda used=used: used() > 100000, "it writes")
                before = [used()]

                def held(before=before, used=used):
                    before.append(used())
                    time.sleep(0.05)
                    return len(before) > 4 and before[-1] == before[-4]
                wait_for(held, f"its program is held: {stopped.__name__}")
                for _ in range(20):
                    equal(m.tool("sandbox_exec", sandbox_id=box, command="echo quick")["stdout"], "quick\n", "the others' answers")


@test(**ONCE)
def the_provider_is_named_by_the_environment_or_the_call(c):
    with Daemon(c) as d:
        for name in ("local", "ext.local", ""):
            with Lines(c, d, SANDBOX_PROVIDER=name) as m:
                m.begin()
                equal(m.tool("sandbox_create")["provider"], "ext.local", f"by {name}")
                m.refused("sandbox_create", "not by 'nobody'", provider="nobody")
        with Lines(c, d, SANDBOX_PROVIDER="nobody") as m:
            m.begin()
            m.refused("sandbox_create", "not by 'nobody'")
            equal(m.tool("sandbox_create", provider="local")["provider"], "ext.local", "the call counts more")
            m.refused("sandbox_create", "provider", provider="x" * 100)
        d.stop()
        d.start(SANDBOX_PROVIDER="somebody")  # of those who name none
        w = Web(d)
        w.begin()
        create = {"name": "sandbox_create", "arguments": {}}
        check("not by 'somebody'" in w.ask("tools/call", **create).json["result"]["content"][0]["text"], "the daemon's own")
        with Lines(c, d, SANDBOX_PROVIDER="local") as m:
            m.begin()
            equal(m.tool("sandbox_create")["provider"], "ext.local", "the client's counts more")


async def session_of(path, rounds, done, ready):
    """A session on a connection of its own, in its exec loop once all are ready; `done` gets its sandbox and how long each round took."""
    reader, writer = await asyncio.open_unix_connection(path, limit=1 << 20)
    writer.write(b"GET /mcp HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: sandboxer-mcp\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    check(b" 101 " in head, f"the answer: {head}")
    number = 0

    async def ask(method, **params):
        nonlocal number
        number += 1
        writer.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n")
        answer = json.loads(await reader.readline())
        check(answer.get("id") == number and "result" in answer, f"{method}: {answer}")
        return answer["result"]
    await ask("initialize", protocolVersion=VERSION, capabilities={}, clientInfo={"name": "many", "version": "1"})
    made = await ask("tools/call", name="sandbox_create", arguments={})
    box = made["structuredContent"]["sandbox_id"]
    took = []
    await ready()
    for n in range(rounds):
        began = time.monotonic()
        ran = await ask("tools/call", name="sandbox_exec", arguments={"sandbox_id": box, "argv": ["echo", str(n)]})
        took.append(time.monotonic() - began)
        equal(ran["structuredContent"]["stdout"], f"{n}\n", "its output")
    done.append((box, took))
    writer.close()


STARVED = 10  # times what is usual


@test(**ONCE, seconds=280)
def two_hundred_sessions_at_once(c):
    async def all_of_them(path):
        done, waiting, all_ready = [], [], asyncio.Event()

        async def ready():
            waiting.append(True)
            if len(waiting) == 200:
                all_ready.set()
            await all_ready.wait()
        await asyncio.wait_for(asyncio.gather(*(session_of(path, 5, done, ready) for _ in range(200))), 240)
        equal(len({box for box, _ in done}), 200, "those that came to their end")
        rounds = [t for _, took in done for t in took]
        check(max(rounds) < STARVED * statistics.median(rounds), f"somebody waited {max(rounds):.2f} s for a round, others {statistics.median(rounds):.2f} s")
    bundle = c.write("bundle.yaml", "version: 1\ntools:\n  sandbox_create: {tier: 2, effect: write, creates: true}\n  sandbox_exec: {tier: 2, effect: execute}\n")
    with Daemon(c, config=f"limits: {{sandboxes_max: 300, sandboxes_per_owner: 300}}\ntrust: {{bundle: '{bundle}'}}") as d:
        asyncio.run(all_of_them(str(d.socket)))
        nothing_left(d, "all of them are gone")


main()
