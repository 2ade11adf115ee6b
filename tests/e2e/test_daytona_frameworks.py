#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# parallel
"""What others build on Daytona's SDK, as npm has it, with the older versions of the SDK that they bring along."""

from daytona import Served
from harness import check, equal, main, test
from mcp import script
from npm import STORAGE, modules, tell

LANGCHAIN = ("@langchain/daytona@0.1.2", "deepagents@1.8.0", "@langchain/core@1.2.13", "@langchain/langgraph@1.1.4", *STORAGE)
COMPUTESDK = ("@computesdk/daytona@1.7.32", *STORAGE)
INSTALL_SECONDS = 170
SLOW = {"seconds": 300, "only": "root", "because": "it is the same client"}

STEPS = r"""
const equal = (a, b) => { if (JSON.stringify(a) !== JSON.stringify(b)) throw new Error(`${JSON.stringify(a)} is not ${JSON.stringify(b)}`); };
const play = async (steps) => {
    for (const [step, run] of Object.entries(steps))
        await run().then(() => console.log(JSON.stringify({ step, how: 'pass' })), (e) => console.log(JSON.stringify({ step, how: 'fail', why: `${e.stack}`.slice(0, 800) })));
    process.exit(0);
};
"""

CHAIN = STEPS + r"""
import { DaytonaSandbox } from '@langchain/daytona';
let s;
await play({
    'DaytonaSandbox.create': async () => { s = await DaytonaSandbox.create({ language: 'python' }); },
    'execute': async () => { const r = await s.execute('echo hi; exit 3'); equal([r.output.trim(), r.exitCode], ['hi', 3]); },
    'uploadFiles, downloadFiles': async () => {
        equal((await s.uploadFiles([['a/b.txt', new TextEncoder().encode('data')]])).map((r) => r.error), [null]);
        const [good, bad] = await s.downloadFiles(['a/b.txt', 'none.txt']);
        equal([new TextDecoder().decode(good.content), bad.content, bad.error], ['data', null, 'file_not_found']);
    },
    'close': async () => { await s.close(); },
});
"""

COMPUTE = STEPS + r"""
import { daytona } from '@computesdk/daytona';
let s;
await play({
    'sandbox.create': async () => { s = await daytona({}).sandbox.create(); },
    'runCommand': async () => { const r = await s.runCommand('echo hi; exit 3'); equal([r.stdout.trim(), r.exitCode], ['hi', 3]); },
    'filesystem': async () => { await s.filesystem.writeFile('/tmp/x', 'data'); equal((await s.filesystem.readFile('/tmp/x')).trim(), 'data'); equal(await s.filesystem.exists('/tmp/none'), false); },
    'destroy': async () => { await s.destroy(); },
});
"""


def play(c, packages, name, text):
    place = modules(packages, INSTALL_SECONDS)
    with Served(c) as s:
        said = script(c, place, name, text, [], HOME=str(c.home), **s.key())
        check(len(said) == 4, f"{len(said)} steps were taken")
        tell(said)
        equal(s.d.api.get("/v1/sandboxes").expect(200).json["sandboxes"], [], "what is left")


@test(**SLOW)
def langchain(c):
    play(c, LANGCHAIN, "chain.mjs", CHAIN)


@test(**SLOW)
def computesdk(c):
    play(c, COMPUTESDK, "compute.mjs", COMPUTE)


main()
