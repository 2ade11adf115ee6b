// SPDX-License-Identifier: Apache-2.0
// A JavaScript session that runs code in pieces, which share their variables.
//
// Requests are lines of JSON on stdin: {"id", "code", "env_vars"}. Answers are lines on stdout: the id, a space, and JSON with a
// type; "end" is the last line of a request. Output of programs that the code starts is passed through unencoded: it has no id,
// and marks on stderr delimit the output of a request.
'use strict';

const fs = require('fs'), repl = require('repl'), util = require('util');
const { Console } = require('console');
const { createInterface } = require('readline');
const { PassThrough, Writable } = require('stream');

const KINDS = {
    'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'text/latex': 'latex', 'image/svg+xml': 'svg',
    'image/png': 'png', 'image/jpeg': 'jpeg', 'application/json': 'json', 'application/javascript': 'javascript',
};
const DISPLAY = Symbol.for('Jupyter.display');

let current = ''; // id of the current request
let fail = () => {}; // fails the current request

function write(fd, text) {
    for (let data = Buffer.from(text); data.length;) data = data.subarray(fs.writeSync(fd, data));
}

// The mark ends an incomplete line of another program.
function say(message) {
    if (current) write(1, `\x1e\n${current} ${typeof message === 'string' ? message : JSON.stringify(message)}\n`);
}

function stream(type) {
    return new Writable({ decodeStrings: false, write(data, _, done) { say({ type, text: data.toString() }); done(); } });
}

const stdout = stream('stdout'), stderr = stream('stderr');
const input = process.stdin;
Object.defineProperty(process, 'stdout', { value: stdout });
Object.defineProperty(process, 'stderr', { value: stderr });
Object.defineProperty(process, 'stdin', { value: new PassThrough().end() });
globalThis.console = new Console({ stdout, stderr });

async function shown(value) {
    const result = { type: 'result', text: util.inspect(value), is_main_result: true };
    const bundle = typeof value?.[DISPLAY] === 'function' ? await value[DISPLAY]() : {};
    for (const [kind, data] of Object.entries(bundle)) if (KINDS[kind]) result[KINDS[kind]] = data;
    return result;
}

function problem(error) {
    if (!util.types.isNativeError(error)) return { type: 'error', name: 'Error', value: util.inspect(error), traceback: '' };
    const ours = `${error.stack}`.split('\n').filter((line) => !/node:|REPLServer/.test(line));
    return { type: 'error', name: error.name, value: error.message, traceback: ours.join('\n') };
}

const session = repl.start({ prompt: '', input: new PassThrough(), output: new PassThrough().resume(), terminal: false });
session.context.console = globalThis.console;
session._domain?.removeAllListeners('error');
session._domain?.on('error', (error) => fail(error));
process.on('uncaughtException', (error) => fail(error));
process.on('unhandledRejection', (error) => fail(error));

/* In an object: a promise that nobody awaits is a value like others. */
function evaluate(code) {
    return new Promise((resolve, reject) => {
        fail = reject;
        session.eval(code, session.context, 'cell', (error, value) => error ? reject(error.err ?? error) : resolve({ value }));
    });
}

async function run(request) {
    const before = { ...process.env };
    Object.assign(process.env, request.env_vars);
    try {
        const { value } = await evaluate(request.code);
        if (value !== undefined) say(await shown(value));
    } catch (error) {
        say(problem(error));
    }
    fail = (error) => stderr.write(`${problem(error).traceback}\n`);
    for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
    Object.assign(process.env, before);
}

async function main() {
    let count = 0;
    for await (const line of createInterface({ input, crlfDelay: Infinity })) {
        const request = JSON.parse(line);
        current = request.id;
        say({ type: 'number_of_executions', execution_count: ++count });
        write(2, `\x1e+${current}\n`);
        await run(request);
        write(2, `\x1e-${current}\n`);
        say('end');
    }
    process.exit(0);
}

main();
