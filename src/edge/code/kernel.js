// SPDX-License-Identifier: Apache-2.0
// A JavaScript or TypeScript session that runs code in pieces, which share their variables. The argument is the language.
//
// Requests are lines of JSON on stdin: {"id", "code", "env_vars"}. Answers are lines on stdout: the id, a space, and JSON with a
// type; "end" is the last line of a request. Output of programs that the code starts is passed through unencoded: it has no id,
// and marks on stderr delimit the output of a request. SIGINT ends the code that runs, and nothing else.
//
// A piece may declare names again, import modules and await at its top level. Node.js's own parser finds these places; they are
// rewritten to what a script can do.
'use strict';

const fs = require('fs'), path = require('path'), util = require('util'), vm = require('vm');
const { readdirSync, readFileSync } = fs; // the code may replace them
const { Console } = require('console');
const { createRequire } = require('module');
const { createInterface } = require('readline');
const { PassThrough, Writable } = require('stream');

const MESSAGE_BYTES = 6 << 20; // of a message; its reader takes lines of 8 MiB
const KINDS = {
    'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'text/latex': 'latex', 'image/svg+xml': 'svg',
    'image/png': 'png', 'image/jpeg': 'jpeg', 'application/json': 'json', 'application/javascript': 'javascript',
};
const DISPLAY = Symbol.for('Jupyter.display');
const language = process.argv[1] ?? 'javascript';
const immediate = setImmediate, every = setInterval, stop = clearInterval, later = setTimeout; // the code may replace them
const load = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER ?? ((name) => import(name));

let current = ''; // id of the current request
let running = false, interrupted = false;
let fail = () => {}; // fails the current request

// --- messages ---

function write(fd, text) {
    for (let data = Buffer.from(text); data.length;) {
        try {
            data = data.subarray(fs.writeSync(fd, data));
        } catch (error) {
            if (error.code !== 'EAGAIN') throw error;
        }
    }
}

// The mark ends an incomplete line of another program.
function say(message) {
    if (current) write(1, `\x1e\n${current} ${typeof message === 'string' ? message : JSON.stringify(message)}\n`);
}

// Keeps no state: an interrupt may end the code amid a write.
class Output extends Writable {
    constructor(type) {
        super();
        this.type = type;
    }

    write(data, encoding, done) {
        const text = typeof data === 'string' ? data : Buffer.from(data).toString(), timestamp = new Date().toISOString();
        for (let i = 0; i < text.length; i += 65536) say({ type: this.type, text: text.slice(i, i + 65536), timestamp });
        const called = typeof encoding === 'function' ? encoding : done;
        if (called) process.nextTick(called);
        return true;
    }
}

const stdout = new Output('stdout'), stderr = new Output('stderr');
const input = process.stdin;
Object.defineProperty(process, 'stdout', { value: stdout });
Object.defineProperty(process, 'stderr', { value: stderr });
Object.defineProperty(process, 'stdin', { value: new PassThrough().end() });
globalThis.console = new Console({ stdout, stderr });
const warn = process.emitWarning;
process.emitWarning = (warning, ...more) => /USE_MAIN_CONTEXT|internal testing/.test(`${warning}`) || warn.call(process, warning, ...more);

function cut(text) {
    return text.length > MESSAGE_BYTES / 6 ? `${text.slice(0, MESSAGE_BYTES / 6)}… (${text.length - MESSAGE_BYTES / 6} characters more)` : text;
}

async function shown(value) {
    const result = { type: 'result', text: cut(typeof value === 'string' ? value : util.inspect(value)), is_main_result: true };
    const bundle = typeof value?.[DISPLAY] === 'function' ? await value[DISPLAY]() : {};
    for (const [kind, data] of Object.entries(bundle)) {
        const bytes = KINDS[kind] && JSON.stringify(data)?.length;
        if (bytes > MESSAGE_BYTES) stderr.write(`sandboxer: the result's ${kind} has ${bytes} bytes, too many for a message, and is left out\n`);
        else if (bytes) result[KINDS[kind]] = data;
    }
    return result;
}

function problem(error) {
    if (!util.types.isNativeError(error)) return { type: 'error', name: 'Error', value: cut(util.inspect(error)), traceback: '' };
    const ours = `${error.stack}`.split('\n').filter((line) => !/node:|\[eval\]/.test(line));
    return { type: 'error', name: error.name, value: cut(error.message), traceback: cut(ours.join('\n')) };
}

// --- the code ---

function find(name) {
    for (const from of [process.cwd(), '/usr/share/nodejs', '/usr/lib/node_modules', '/usr/local/lib/node_modules']) {
        for (const id of [name, `${from}/${name}`]) {
            try {
                return createRequire(`${from}/cell.js`)(id);
            } catch {
                // the next place
            }
        }
    }
    return null;
}

let typescript; // the module; null: there is none

function stripTypes(code) {
    if (typescript === undefined) typescript = find('typescript');
    const strip = require('module').stripTypeScriptTypes;
    if (typescript) {
        const { ModuleKind, ScriptTarget } = typescript;
        return typescript.transpileModule(code, { compilerOptions: { module: ModuleKind.ESNext, target: ScriptTarget.ES2022 } }).outputText;
    }
    if (strip) return strip(code, { mode: 'transform' });
    const error = new Error('TypeScript needs Node.js 22.13 or newer, or the module typescript (Debian: node-typescript; npm: typescript), which this sandbox does not have');
    error.name = 'TypeScriptMissing';
    throw error;
}

function parse(code) {
    let acorn;
    try {
        acorn = require('internal/deps/acorn/acorn/dist/acorn');
    } catch {
        return null; // a Node.js without it: the code runs as it is
    }
    try {
        return acorn.parse(code, { ecmaVersion: 'latest', sourceType: 'script', allowAwaitOutsideFunction: true, allowImportExportEverywhere: true, allowHashBang: true });
    } catch {
        return null; // the engine itself says what is wrong
    }
}

// Whether a node awaits outside of functions.
function awaits(node) {
    if (!node || typeof node !== 'object') return false;
    if (Array.isArray(node)) return node.some(awaits);
    if (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)) return true;
    if (/Function/.test(node.type)) return false;
    return Object.values(node).some(awaits);
}

function names(pattern) {
    switch (pattern?.type) {
        case 'Identifier': return [pattern.name];
        case 'ObjectPattern': return pattern.properties.flatMap((p) => names(p.value ?? p.argument));
        case 'ArrayPattern': return pattern.elements.flatMap(names);
        case 'AssignmentPattern': return names(pattern.left);
        case 'RestElement': return names(pattern.argument);
        default: return [];
    }
}

function importAssignment(node, text) {
    const from = `await import(${text(node.source)})`, parts = [];
    let all = '';
    for (const s of node.specifiers) {
        if (s.type === 'ImportNamespaceSpecifier') all = `${s.local.name} = `;
        else parts.push(`${s.type === 'ImportDefaultSpecifier' ? 'default' : text(s.imported)}: ${s.local.name}`);
    }
    return parts.length ? `({ ${parts.join(', ')} } = ${all}${from});` : `${all}${from};`;
}

// Rewrites the top level. Names become variables of the session, which can be declared again: `const` is `var` there. Code that
// awaits or imports runs in an async function, which assigns to the variables; its lines stay where they are.
function rewrite(code) {
    const tree = parse(code);
    if (!tree) return { code };
    const text = (node) => code.slice(node.start, node.end), edits = [], declared = [], functions = [];
    const change = (start, end, to) => edits.push([start, end, to]);
    const async_ = tree.body.some((node) => node.type === 'ImportDeclaration' || awaits(node));

    function changeVariables(node) {
        if (!async_) {
            change(node.start, node.start + node.kind.length, 'var');
            return;
        }
        declared.push(...node.declarations.flatMap((d) => names(d.id)));
        change(node.start, node.declarations[0].start, ';(');
        for (const [i, d] of node.declarations.entries()) {
            if (!d.init) change(d.start, d.end, node.kind === 'var' ? '0' : `${text(d.id)} = undefined`);
            else if (d.id.type !== 'Identifier') { change(d.start, d.start, '('); change(d.end, d.end, ')'); }
            if (i === node.declarations.length - 1) change(d.end, node.end, ');');
        }
    }

    function changeStatement(node) {
        if (node.type === 'VariableDeclaration') {
            changeVariables(node);
        } else if (node.type === 'ClassDeclaration') {
            if (async_) declared.push(node.id.name);
            change(node.start, node.start, async_ ? `;${node.id.name} = ` : `var ${node.id.name} = `);
            change(node.end, node.end, ';');
        } else if (node.type === 'FunctionDeclaration' && async_) {
            functions.push(node.id.name);
        } else if (node.type === 'ImportDeclaration') {
            declared.push(...node.specifiers.map((s) => s.local.name));
            change(node.start, node.end, `;${importAssignment(node, text)}`);
        } else if (node.type === 'ExportNamedDeclaration' || node.type === 'ExportDefaultDeclaration') {
            change(node.start, node.declaration?.start ?? node.end, '');
            if (/Declaration$/.test(node.declaration?.type ?? '') && node.declaration.id !== null) changeStatement(node.declaration);
        }
    }

    tree.body.forEach(changeStatement);
    const last = tree.body.at(-1), value = last?.type === 'ExpressionStatement';
    if (async_ && value) {
        change(last.start, last.start, ';return { value: (');
        change(last.expression.end, last.end, ') };');
    }
    let out = code;
    for (const [start, end, to] of edits.map((e, i) => [...e, i]).sort((a, b) => b[0] - a[0] || b[1] - a[1] || b[3] - a[3]))
        out = out.slice(0, start) + to + out.slice(end);
    if (async_) {
        const variables = [...new Set([...declared, ...functions])], hoisted = functions.map((f) => `globalThis.${f} = ${f};`).join('');
        out = `${variables.length ? `var ${variables.join(', ')};` : ''}(async () => {${hoisted}${out}\n})()`;
    }
    return { code: out, async_, value };
}

// Returns { value } of the last expression; in an object, since a promise that nobody awaits is a value like others.
async function evaluate(code) {
    const piece = rewrite(language === 'typescript' ? stripTypes(code) : code);
    globalThis.require = createRequire(path.join(process.cwd(), 'cell.js'));
    const script = new vm.Script(piece.code, { filename: 'cell', importModuleDynamically: load });
    return new Promise((resolve, reject) => {
        fail = reject;
        const value = script.runInThisContext({ displayErrors: false, breakOnSigint: true });
        if (piece.async_) value.then((got) => resolve(got ?? {}), reject);
        else resolve(piece.value === false ? {} : { value });
    });
}

function interruption() {
    const error = new Error('the code was interrupted');
    error.name = 'Interrupted';
    return error;
}

function interrupt() {
    interrupted = true;
    if (running) fail(interruption());
}

// SIGINT ends a script that runs (breakOnSigint). Around each such script Node.js would have SIGINT end the process, if its watchdog
// were not there anyway. In its presence there are no listeners: what waits is told by a poll.
function findWatchdog() {
    try {
        const found = require('internal/test/binding').internalBinding('contextify');
        return found.startSigintWatchdog && found.stopSigintWatchdog && found.watchdogHasPendingSigint ? found : null;
    } catch {
        return null; // a Node.js without it
    }
}

const watchdog = findWatchdog();
let thread = ''; // of the watchdog
let listens = false; // the code, to SIGINT

function startWatchdog() {
    const before = readdirSync('/proc/self/task');
    watchdog.startSigintWatchdog();
    thread = readdirSync('/proc/self/task').find((id) => !before.includes(id)) ?? '';
}

// The watchdog's thread sleeps when it has told of each signal that has come.
function watchdogWorks() {
    const text = readFileSync(`/proc/self/task/${thread}/stat`, 'latin1');
    return text[text.lastIndexOf(')') + 2] !== 'S';
}

function pollInterrupt() {
    if (watchdog?.watchdogHasPendingSigint()) interrupt();
}

// Forgets interrupts: what comes before a request is not meant for it.
async function forgetInterrupts() {
    if (watchdog) {
        while (thread && watchdogWorks()) await new Promise((resolve) => later(resolve, 1));
        if (listens) { // the signal was the code's
            process.removeAllListeners('SIGINT');
            listens = false;
            watchdog.stopSigintWatchdog();
            startWatchdog();
        }
        watchdog.startSigintWatchdog(); // a second one, whose end forgets
        watchdog.stopSigintWatchdog();
    } else {
        await turn(); // the loop hears of signals and requests at the same time
        await turn();
    }
    interrupted = false;
}

if (watchdog) startWatchdog();
else process.on('SIGINT', interrupt);
process.on('newListener', (name, listener) => { // of the code: it takes the signal
    if (name !== 'SIGINT' || listener === interrupt) return;
    listens = true;
    if (!process.listeners('SIGINT').includes(interrupt)) process.on('SIGINT', interrupt);
});
process.on('uncaughtException', (error) => fail(error));
process.on('unhandledRejection', (error) => fail(error));

async function run(request) {
    const before = { ...process.env };
    Object.assign(process.env, request.env_vars);
    const poll = every(pollInterrupt, 20);
    try {
        running = true;
        pollInterrupt();
        if (interrupted) throw interruption();
        const { value } = await evaluate(request.code);
        running = false;
        if (value !== undefined) say(await shown(value));
    } catch (error) {
        say(problem(error?.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? interruption() : error));
    }
    running = false;
    stop(poll);
    fail = (error) => stderr.write(`${problem(error).traceback}\n`);
    for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name];
    Object.assign(process.env, before);
}

// Returns null for a line that is no request: a daemon that stops may leave a part of one.
function read(line) {
    try {
        const request = JSON.parse(line);
        return typeof request?.id === 'string' && typeof request.code === 'string' ? request : null;
    } catch {
        return null;
    }
}

function turn() {
    return new Promise((resolve) => immediate(resolve));
}

async function main() {
    let count = 0;
    for await (const line of createInterface({ input, crlfDelay: Infinity })) {
        const request = read(line);
        if (!request) continue;
        await forgetInterrupts();
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
