#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""run --untrusted with steps of others: commands and MCP servers, from options and from the configuration."""

import base64
import http.server
import json
import os
import threading

from harness import check, equal, main, test
from npm import modules

SDK = ("@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/client@2.4.0", "@modelcontextprotocol/server@2.4.0")
ONLY = {"only": "root", "because": "the package is the same for everybody", "seconds": 400}
ALLOW, DENY = {"verdict": "allow", "findings": []}, {"verdict": "deny", "reason": "too odd"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}


def untrusted(c, *options, text="echo x > x"):
    job = c.write("job.sh", f"#!/bin/sh\n{text}\n")
    return c.cli("run", "--untrusted", job, "--output", c.dir / "out", *options, env={
        "SANDBOXER_STATE": str(c.dir / "state"), "XDG_CONFIG_HOME": str(c.dir / "config")})


def decided(c):
    """Who took the steps, after a run that was allowed; what it left is taken away."""
    manifest = c.dir / "out.manifest.json"
    said = json.loads(base64.b64decode(json.loads(manifest.read_text())["payload"]))
    manifest.unlink()
    for path in (c.dir / "out").iterdir():
        path.unlink()
    (c.dir / "out").rmdir()
    return said["preflight"]["by"], said["postflight"]["by"]


def answer_to(message, result):
    """What a server says to a message: None for a notification."""
    if "id" not in message:
        return None
    if message["method"] == "initialize":
        return {"jsonrpc": "2.0", "id": message["id"], "result": HELLO}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


# A server on pipes: a message a line. Its answer to the call is in a file, as are its manners.
SERVER = """#!/usr/bin/env python3
import json, sys, time
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": "ping-1", "method": "ping"}), flush=True)
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}), flush=True)
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": HELLO}), flush=True)
    elif m.get("id") == "ping-1":
        assert m["result"] == {}, m
    elif m.get("method") == "tools/call":
        open(SEEN, "w").write(json.dumps(m["params"]))
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": RESULT}), flush=True)
"""


def server(c, result, hello=None):
    """A command that is such a server."""
    text = SERVER.replace("HELLO", repr(hello or HELLO)).replace("SEEN", repr(str(c.dir / "seen"))).replace("RESULT", repr(result))
    return str(c.write("server.py", text, 0o755))


class Web(http.server.BaseHTTPRequestHandler):
    """The same over HTTP: `shape` says how it answers, `result` what."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        s = self.server
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        s.seen.append((message.get("method"), self.headers["Mcp-Session-Id"], self.headers["MCP-Protocol-Version"]))
        said = answer_to(message, s.result)
        body = b"" if said is None else json.dumps(said).encode()
        if said and s.shape == "events":
            first = b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'
            body = first + b"id: 7\ndata: " + body + b"\n\n"
        self.send_response(202 if said is None else s.status)
        self.send_header("Content-Type", "text/event-stream" if s.shape == "events" else "application/json")
        self.send_header("Content-Length", str(len(body)))
        if message.get("method") == "initialize":
            self.send_header("Mcp-Session-Id", "session-1")
        self.end_headers()
        self.wfile.write(body)

    def do_DELETE(self):
        self.server.seen.append(("DELETE", self.headers["Mcp-Session-Id"], None))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def serve(result, shape="json", status=200):
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    s.result, s.shape, s.status, s.seen = result, shape, status, []
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s, f"http://127.0.0.1:{s.server_address[1]}/mcp"


@test
def a_server_on_pipes_takes_a_step(c):
    place = server(c, {"content": [], "structuredContent": ALLOW})
    untrusted(c, "--preflight-mcp", place, "--preflight-tool", "look").expect(0)
    asked = json.loads((c.dir / "seen").read_text())
    equal((asked["name"], asked["arguments"]["step"], asked["arguments"]["language"]), ("look", "preflight", "shell"), "the call")
    equal(decided(c), ("mcp", "sandboxer"), "who decided")
    untrusted(c, "--postflight-mcp", place).expect(0)
    asked = json.loads((c.dir / "seen").read_text())
    equal((asked["name"], [f["path"] for f in asked["arguments"]["changes"]]), ("postflight", ["tmp/output/x"]), "the call")
    equal(decided(c), ("sandboxer", "mcp"), "who decided")
    untrusted(c, "--preflight-mcp", server(c, {"content": [], "structuredContent": DENY})).expect(125, says="too odd")
    text = {"content": [{"type": "text", "text": json.dumps(DENY)}]}
    untrusted(c, "--postflight-mcp", server(c, text)).expect(125, says="too odd")
    equal(list(c.dir.glob("out*")), [], "what is left")


@test
def findings_block_by_their_severity(c):
    place = server(c, {"content": [], "structuredContent": {"findings": [
        {"severity": "medium", "message": "hm\x1b[31m", "rule": "x.y", "line": 3}]}})
    untrusted(c, "--preflight-mcp", place).expect(0)
    decided(c)
    shown = untrusted(c, "--preflight-mcp", place, "--block", "medium").expect(125, says="x.y").err
    check(b"\x1b" not in shown, f"a terminal could act on it: {shown}")


@test
def who_cannot_answer_denies(c):
    good = {"content": [], "structuredContent": ALLOW}
    for name, place in (
            ("no verdict", server(c, {"content": [], "structuredContent": {}})),
            ("odd findings", server(c, {"structuredContent": {"findings": [{"severity": "dire"}]}})),
            ("an error", server(c, {"content": [{"type": "text", "text": "boom"}], "isError": True})),
            ("no content", server(c, {})), ("a list", server(c, [])),
            ("a revision of tomorrow", server(c, good, hello={**HELLO, "protocolVersion": "2999-01-01"})),
            ("no server", "true"), ("no such program", "/nowhere/server"), ("no JSON", "yes"), ("silence", "cat > /dev/null"),
            ("an endless line", "cat /dev/zero | tr '\\0' x")):
        done = untrusted(c, "--preflight-mcp", place, "--step-timeout", "2s")
        check(done.code == 125 and b"preflight" in done.err, f"{name}:\n{done}")
    equal(list(c.dir.glob("out*")), [], "what is left")


@test
def a_server_on_http_takes_a_step(c):
    for shape in ("json", "events"):
        s, url = serve({"content": [], "structuredContent": ALLOW}, shape)
        untrusted(c, "--preflight-mcp", url).expect(0)
        equal(decided(c), ("mcp", "sandboxer"), "who decided")
        equal(s.seen, [("initialize", None, None), ("notifications/initialized", "session-1", "2025-11-25"),
                       ("tools/call", "session-1", "2025-11-25"), ("DELETE", "session-1", None)], "what was said")
        s.result = {"content": [], "structuredContent": DENY}
        untrusted(c, "--preflight-mcp", url).expect(125, says="too odd")
        s.status = 500
        untrusted(c, "--preflight-mcp", url).expect(125, says="500")
        s.shutdown()
        s.server_close()
    untrusted(c, "--preflight-mcp", url).expect(125, says="preflight")


@test
def the_configuration_says_who_takes_them(c):
    place = server(c, {"content": [], "structuredContent": ALLOW})
    deny, config = c.write("deny.sh", f"#!/bin/sh\necho '{json.dumps(DENY)}'\n", 0o755), c.dir / "sandboxer.yaml"

    def configure(**steps):
        c.write("sandboxer.yaml", json.dumps({"scan": steps}))

    configure(preflight={"mcp": {"command": [place], "tool": "look"}})
    untrusted(c, "--config", config).expect(0)
    equal((json.loads((c.dir / "seen").read_text())["name"], decided(c)), ("look", ("mcp", "sandboxer")), "who decided")
    configure(postflight={"command": [str(deny)]})
    untrusted(c, "--config", config).expect(125, says="too odd")
    allow = "echo '{\"verdict\":\"allow\"}'"
    untrusted(c, "--config", config, "--postflight-command", allow).expect(0)
    equal(decided(c), ("sandboxer", "command"), "who decided")
    configure(block="medium")
    untrusted(c, "--config", config, text="true || chmod -R 777 /").expect(125, says="not run")
    configure(block="critical")
    untrusted(c, "--config", config, text="true || chmod -R 777 /").expect(0)
    decided(c)
    for broken in ({"preflight": {"command": ["x"], "mcp": {"url": "http://127.0.0.1/"}}}, {"preflight": {"mcp": {"tool": "x"}}},
                   {"preflight": {"mcp": {"url": "ftp://x"}}}, {"block": "dire"}, {"else": 1}):
        configure(**broken)
        untrusted(c, "--config", config).expect(125, says="scan")
    untrusted(c, "--config", c.dir / "nowhere").expect(125, says="nowhere")
    if not c.root:
        c.write("config/sandboxer/sandboxer.yaml", json.dumps({"scan": {"preflight": {"command": [str(deny)]}}}))
        untrusted(c).expect(125, says="too odd")


@test
def options_of_steps_need_sense(c):
    untrusted(c, "--preflight-command", "true", "--preflight-mcp", "true").expect(125, says="not both")
    c.cli("run", "--preflight-mcp", "x", "--", "true").expect(125, says="--untrusted")


# Servers made with the official SDK. Arguments: "stdio", or "http"; then the verdict.
OFFICIAL = """
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
const [kind, verdict] = process.argv.slice(2);
const make = () => {
  const server = new McpServer({ name: 'judge', version: '1' });
  server.registerTool('preflight', {
    inputSchema: { step: z.string(), file: z.string(), language: z.string(), text: z.string() },
    outputSchema: { verdict: z.string(), reason: z.string() },
  }, async ({ text }) => {
    const said = { verdict, reason: `${text.length} characters` };
    return { content: [{ type: 'text', text: JSON.stringify(said) }], structuredContent: said };
  });
  return server;
};
if (kind === 'stdio') {
  await make().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  createServer(async (req, res) => {
    let transport = sessions.get(req.headers['mcp-session-id']);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID, onsessioninitialized: (id) => sessions.set(id, transport) });
      await make().connect(transport);
    }
    await transport.handleRequest(req, res);
  }).listen(0, '127.0.0.1', function () { console.log(this.address().port); });
}
"""


def official(c, place, text=OFFICIAL):
    """The script, beside the packages: that is where node looks for them."""
    path = c.write("judge.mjs", text)
    if not (c.dir / "node_modules").exists():
        os.symlink(place / "node_modules", c.dir / "node_modules")
    return path


@test(**ONLY)
def the_official_sdk_on_pipes(c):
    script = official(c, modules(SDK, 170))
    untrusted(c, "--preflight-mcp", f"node {script} stdio allow").expect(0)
    equal(decided(c), ("mcp", "sandboxer"), "who decided")
    untrusted(c, "--preflight-mcp", f"node {script} stdio deny").expect(125, says="21 characters")
    untrusted(c, "--preflight-mcp", f"node {script} stdio allow", "--preflight-tool", "other").expect(125, says="preflight")


def judged(c, argv, reason):
    """Servers on HTTP, one that allows and one that does not."""
    for verdict in ("allow", "deny"):
        process = c.start([*argv, verdict])
        url = f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        if verdict == "deny":
            untrusted(c, "--preflight-mcp", url).expect(125, says=reason)
            continue
        untrusted(c, "--preflight-mcp", url).expect(0)
        equal(decided(c), ("mcp", "sandboxer"), "who decided")


@test(**ONLY)
def the_official_sdk_on_http(c):
    judged(c, ["node", official(c, modules(SDK, 170)), "http"], "21 characters")


# A server of the revision without sessions, which refuses those before it.
NEWER = """
import { McpServer, createMcpHandler, fromJsonSchema } from '@modelcontextprotocol/server';
import { createServer } from 'node:http';
const verdict = process.argv[2];
const text = { type: 'string' };
const handler = createMcpHandler(() => {
  const server = new McpServer({ name: 'judge', version: '2' });
  server.registerTool('preflight', {
    inputSchema: fromJsonSchema({ type: 'object', properties: { step: text, file: text, language: text, text } }),
    outputSchema: fromJsonSchema({ type: 'object', properties: { verdict: text, reason: text } }),
  }, async ({ text }) => {
    const said = { verdict, reason: `${text.length} letters` };
    return { content: [{ type: 'text', text: JSON.stringify(said) }], structuredContent: said };
  });
  return server;
}, { legacy: 'reject' });
createServer(async (req, res) => {
  const parts = [];
  for await (const part of req) parts.push(part);
  const url = `http://127.0.0.1${req.url}`;
  const answer = await handler.fetch(new Request(url, { method: req.method, headers: req.headers, body: Buffer.concat(parts) }));
  res.writeHead(answer.status, Object.fromEntries(answer.headers));
  res.end(Buffer.from(await answer.arrayBuffer()));
}).listen(0, '127.0.0.1', function () { console.log(this.address().port); });
"""


@test(**ONLY)
def a_server_without_sessions(c):
    judged(c, ["node", official(c, modules(SDK, 170), NEWER)], "21 letters")


main()
