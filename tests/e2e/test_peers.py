#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Programs of others as judges of what we speak: a WebSocket client, an OpenAPI validator, Prometheus' own checker.

Where one of them cannot be had, the test says so and is skipped.
"""

import contextlib
import os
import shutil

from daemon import Daemon
from harness import Skip, check, equal, main, test
from npm import modules
from tcp import serving

ONLY = {"only": "root", "because": "the judges are the same for everybody"}

TERMINAL = """
const WebSocket = require('ws');
const [url, token] = process.argv.slice(2);
const ws = new WebSocket(url, token ? {headers: {Authorization: `Bearer ${token}`}} : {});
let seen = '', step = 0;
const steps = [
    [/[#$] $/, 'stty size; echo mark$((1+1))\\n'],
    [/24 80\\r\\nmark2/, () => { ws.send(JSON.stringify({op: 'resize', rows: 50, cols: 132})); type('sleep 0.1; stty size; echo mark$((2+1))\\n'); }],
    [/50 132\\r\\nmark3/, 'exit 7\\n'],
];
const type = (text) => ws.send(Buffer.concat([Buffer.from([0]), Buffer.from(text)]));
ws.on('open', () => ws.send(JSON.stringify({argv: ['/bin/sh', '-i'], tty: true, rows: 24, cols: 80, env: {PS1: '# '}})));
ws.on('message', (data, binary) => {
    if (!binary) {
        console.log(data.toString());
        return;
    }
    seen += data.subarray(1).toString();
    while (step < steps.length && steps[step][0].test(seen)) {
        const what = steps[step++][1];
        seen = '';
        typeof what === 'function' ? what() : type(what);
    }
});
ws.on('error', (e) => { console.log(JSON.stringify({event: 'failed', why: String(e)})); process.exit(2); });
ws.on('close', (code) => { console.log(JSON.stringify({event: 'closed', code, step})); process.exit(0); });
setTimeout(() => { console.log(JSON.stringify({event: 'stuck', step, seen})); process.exit(3); }, 30000);
"""

ATTACH = """
const WebSocket = require('ws');
const [url, token] = process.argv.slice(2);
const ws = new WebSocket(url, token ? {headers: {Authorization: `Bearer ${token}`}} : {});
let seen = '';
ws.on('message', (data, binary) => {
    if (!binary) {
        console.log(data.toString());
        return;
    }
    seen += data.subarray(1).toString();
    if (seen === 'before\\n')
        ws.send(Buffer.concat([Buffer.from([0]), Buffer.from('word\\n')]));
});
ws.on('unexpected-response', (_, r) => { console.log(JSON.stringify({event: 'refused', status: r.statusCode})); process.exit(0); });
ws.on('error', (e) => { console.log(JSON.stringify({event: 'failed', why: String(e)})); process.exit(2); });
ws.on('close', (code) => { console.log(JSON.stringify({event: 'closed', code, seen})); process.exit(0); });
setTimeout(() => { console.log(JSON.stringify({event: 'stuck', seen})); process.exit(3); }, 30000);
"""

VALIDATE = """
import { Validator } from '@seriousme/openapi-schema-validator';
import { readFileSync } from 'node:fs';
const result = await new Validator().validate(JSON.parse(readFileSync(0, 'utf8')));
console.log(result.valid ? 'valid' : JSON.stringify(result.errors, null, 1));
"""


def node(c, script, *argv, kind="js", stdin=b""):
    place = modules()
    file = c.write(f"script.{kind}", script)
    with contextlib.suppress(FileExistsError):
        os.symlink(place / "node_modules", c.dir / "node_modules")
    return c.execute(["node", file, *argv], stdin=stdin, env={"PATH": os.environ["PATH"]})


def events_of(result):
    return [line for line in result.text.splitlines() if line.startswith("{")]


def check_terminal(result):
    events = events_of(result)
    check(len(events) >= 3 and '"event":"started"' in events[0], f"events: {events}\n{result}")
    check('"event":"exited"' in events[-2] and '"exit_code":7' in events[-2], f"the end: {events}")
    equal(events[-1], '{"event":"closed","code":1000,"step":3}', f"the close\n{result}")


@test(**ONLY)
def a_terminal_over_a_websocket(c):
    with Daemon(c) as d:
        check_terminal(node(c, TERMINAL, f"ws+unix:{d.socket}:/v1/sandboxes/{d.create()}/processes/new"))


@test(**ONLY)
def a_terminal_over_a_websocket_on_tcp_with_a_token(c):
    with serving(c) as (d, port, token):
        url = f"ws://127.0.0.1:{port}/v1/sandboxes/{d.create()}/processes/new"
        check_terminal(node(c, TERMINAL, url, token("exec", "read")[0].token))
        for wrong, status in (("", 401), ("sbt_wrong", 401), (token("read")[0].token, 403)):
            equal(events_of(node(c, ATTACH, url, wrong)), ['{"event":"refused","status":%d}' % status], f"what {wrong[:9]!r} gets")


@test(**ONLY)
def attaching_over_a_websocket_on_tcp_with_a_token(c):
    with serving(c) as (d, port, token):
        box = d.create()
        script = "echo before; read x; echo after $x; exit 5"
        n = d.api.post(f"/v1/sandboxes/{box}/processes", {"argv": ["/bin/sh", "-c", script], "background": True, "stdin": True}).expect(201).json["process"]
        result = node(c, ATTACH, f"ws://localhost:{port}/v1/sandboxes/{box}/processes/{n}/attach", token("exec", "read")[0].token)
        events = events_of(result)
        check('"event":"started"' in events[0] and '"exit_code":5' in events[-2], f"events: {events}\n{result}")
        equal(events[-1], '{"event":"closed","code":1000,"seen":"before\\nafter word\\n"}', f"the close\n{result}")


@test(**ONLY)
def the_description_is_openapi(c):
    with Daemon(c) as d:
        document = d.api.get("/openapi.json").expect(200).data
        equal(node(c, VALIDATE, kind="mjs", stdin=document).expect(0).text, "valid", "the validator's verdict")


@test(**ONLY)
def the_metrics_are_prometheus(c):
    if not shutil.which("promtool"):
        raise Skip("promtool is not installed")
    with Daemon(c) as d:
        d.works(d.create(profile="profile.pooled"))
        metrics = d.api.get("/metrics").expect(200)
        check(metrics.headers["Content-Type"].startswith("text/plain; version=0.0.4"), f"{metrics.headers['Content-Type']}")
        c.execute([shutil.which("promtool"), "check", "metrics"], stdin=metrics.data).expect(0, err=b"")


main()
