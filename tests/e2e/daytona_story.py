# SPDX-License-Identifier: Apache-2.0
"""What a program does with Daytona's SDK: each of its methods, with what must come of it."""

STORY = r"""
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { Daytona, Image, DaytonaError, DaytonaNotFoundError, DaytonaAuthenticationError, DaytonaValidationError, DaytonaConflictError, DaytonaFileNotFoundError,
    DaytonaTimeoutError, DaytonaGitRepoNotFoundError, DaytonaGitBranchExistsError, DaytonaGitBranchNotFoundError } from '@daytonaio/sdk';

const assert = (what, why) => { if (!what) throw new Error(why); };
const equal = (a, b, why = '') => assert(JSON.stringify(a) === JSON.stringify(b), `${why} ${JSON.stringify(a)} is not ${JSON.stringify(b)}`);
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const until = async (what, why) => { for (let i = 0; i < 1600; i++) { if (await what()) return; await sleep(25); } throw new Error(`never: ${why}`); };
const refused = async (call, kind, text = '') => {
    const e = await call().then(() => null, (e) => e);
    assert(e, 'it was not refused');
    assert(e instanceof kind && e.message.includes(text), `refused with ${e.constructor.name} ${e.statusCode}: ${e.message}`);
    return e;
};
const hash = (data) => createHash('sha256').update(data).digest('hex');
const daytona = new Daytona();
const boxes = [];
const make = async (...a) => { const s = await daytona.create(...a); boxes.push(s); return s; };
const all = async (query) => { const found = []; for await (const s of daytona.list(query)) found.push(s.id); return found; };
const HOME = '/home/user';
const text = (s) => Buffer.from(s);

let s;
// A name that ends in {word} is left out with that word.
const steps = {
    'Daytona.create': async () => {
        s = await make({ labels: { userId: 'a b', app: 'story' }, envVars: { COLOUR: 'green' }, name: 'Story one', autoStopInterval: 30 });
        equal([s.state, s.labels, s.env, s.name, s.autoStopInterval], ['started', { userId: 'a b', app: 'story', 'code-toolbox-language': 'python' }, { COLOUR: 'green' }, 'Story one', 30]);
    },
    'Daytona.create (no such snapshot)': async () => { await refused(() => daytona.create({ snapshot: 'no-such' }), DaytonaNotFoundError, 'no-such'); },
    'Daytona.create (resources)': async () => {
        const t = await make({ image: undefined, resources: { cpu: 1, memory: 0.5 } });
        await t.delete();
        await refused(() => daytona.create({ image: undefined, resources: { cpu: 64 } }), DaytonaValidationError, 'at most 2 processors');
    },
    'Daytona.create (no such image)': async () => { await refused(() => daytona.create({ image: Image.base('no/such:1') }), DaytonaError, 'no/such'); },
    'Daytona.create (built image)': async () => { await refused(() => daytona.create({ image: Image.debianSlim('3.12') }), DaytonaError, 'building images is not supported'); },
    'Daytona.get': async () => { equal((await daytona.get(s.id)).id, s.id); equal((await daytona.get('Story one')).id, s.id, 'by name'); },
    'Daytona.get (another)': async () => { await refused(() => daytona.get('sbx_00000000000000000000'), DaytonaNotFoundError); await refused(() => daytona.get('nobody'), DaytonaNotFoundError); },
    'Daytona.list': async () => {
        equal(await all({ labels: { userId: 'a b' } }), [s.id], 'by label');
        equal(await all({ labels: { userId: 'a' } }), [], 'by another label');
        equal(await all({ states: ['stopped'] }), [], 'stopped');
        assert((await all({ states: ['started'] })).includes(s.id), 'started');
        equal(await all({ name: 'Story one' }), [s.id], 'by name');
    },
    'Daytona.list (pages)': async () => {
        const labels = { group: 'pages' }, ids = [];
        for (let i = 0; i < 3; i++) ids.push((await make({ labels })).id);
        equal((await all({ labels: { group: 'pages' }, limit: 2 })).reverse(), ids);
        for (const id of ids) await (await daytona.get(id)).delete();
        equal(await all({ labels: { group: 'pages' } }), [], 'deleted');
    },
    'a wrong key': async () => {
        const other = new Daytona({ apiKey: 'wrong', apiUrl: process.env.DAYTONA_API_URL, target: 'local', useDeprecatedPolling: true });
        await refused(() => other.create(), DaytonaAuthenticationError);
    },
    'sandbox.setLabels': async () => { equal(await s.setLabels({ app: 'story', other: 'Ü' }), { app: 'story', other: 'Ü' }); equal((await daytona.get('Story one')).labels, { app: 'story', other: 'Ü' }); await s.setLabels({ 'code-toolbox-language': 'python' }); },
    'sandbox.setAutostopInterval': async () => { await s.setAutostopInterval(45); await s.refreshData(); equal(s.autoStopInterval, 45); await s.setAutostopInterval(0); await s.refreshData(); equal(s.autoStopInterval, 0); },
    'sandbox.setAutoDeleteInterval': async () => { await s.setAutoDeleteInterval(60); await s.refreshData(); equal(s.autoDeleteInterval, 60); await s.setAutoDeleteInterval(-1); await s.refreshData(); equal(s.autoDeleteInterval, -1); },
    'sandbox.setTtl': async () => { await s.setTtl(60); await s.refreshData(); const left = (new Date(s.autoDestroyAt) - Date.now()) / 60000; assert(left > 55 && left <= 60, `${left} minutes`); await s.setTtl(0); },
    'sandbox.refreshActivity': async () => { await s.refreshActivity(); },
    'sandbox.getUserHomeDir, getWorkDir': async () => { equal([await s.getUserHomeDir(), await s.getWorkDir()], [HOME, HOME]); },
    'process.executeCommand': async () => {
        const r = await s.process.executeCommand('echo out; echo err >&2; pwd; whoami; echo $COLOUR');
        equal([r.exitCode, r.result], [0, `out\nerr\n${HOME}\nuser\ngreen\n`]);
    },
    'process.executeCommand (exit code, cwd, env)': async () => {
        const r = await s.process.executeCommand('[[ -d . ]] && pwd; echo $MORE; exit 3', '/tmp', { MORE: 'm' });
        equal([r.exitCode, r.result], [3, '/tmp\nm\n']);
    },
    'process.executeCommand (no such cwd)': async () => { await refused(() => s.process.executeCommand('true', '/no/such'), DaytonaValidationError, '/no/such'); },
    'process.executeCommand (timeout)': async () => { await refused(() => s.process.executeCommand('sleep 777', undefined, undefined, 1), DaytonaTimeoutError); },
    'process.codeRun': async () => {
        const r = await s.process.codeRun('import sys, os\nprint("hi", sys.argv[1:], os.environ["MORE"])', { argv: ['a b'], env: { MORE: 'm' } });
        equal([r.exitCode, r.result], [0, "hi ['a b'] m\n"]);
        const bad = await s.process.codeRun('1/0');
        equal(bad.exitCode, 1); assert(bad.result.includes('ZeroDivisionError'), bad.result);
    },
    'process.codeRun (javascript)': async () => {
        const t = await make({ language: 'javascript', labels: {} });
        const r = await t.process.codeRun('console.log(6 * 7)');
        assert(r.exitCode === 0 ? r.result === '42\n' : r.result.includes('node'), JSON.stringify(r));
        await t.delete();
    },
    'process.createSession, executeSessionCommand': async () => {
        await s.process.createSession('one');
        await refused(() => s.process.createSession('one'), DaytonaConflictError);
        const r = await s.process.executeSessionCommand('one', { command: 'cd /tmp; export X=y; echo out; echo err >&2; (exit 3)' });
        equal([r.exitCode, r.stdout, r.stderr], [3, 'out\n', 'err\n']);
        const again = await s.process.executeSessionCommand('one', { command: "pwd; echo \"$X '\\n'\"\necho [[ x ]]" });
        equal([again.exitCode, again.stdout], [0, "/tmp\ny '\\n'\n[[ x ]]\n"], 'the shell goes on');
        equal((await s.process.executeSessionCommand('one', { command: 'printf no-end' })).stdout, 'no-end');
    },
    'process.executeSessionCommand (much output)': async () => {
        await s.process.createSession('much');
        equal((await s.process.executeSessionCommand('much', { command: 'head -c 3000000 /dev/zero | tr "\\0" x; printf no-end' })).stdout.length, 3000006);
        equal((await s.process.executeSessionCommand('much', { command: 'echo after' })).stdout, 'after\n');
        await s.process.deleteSession('much');
    },
    'process.getSession, getSessionCommand, listSessions': async () => {
        const one = await s.process.getSession('one');
        equal([one.sessionId, one.commands.length, one.commands[0].exitCode], ['one', 3, 3]);
        assert(one.commands[0].command.startsWith('cd /tmp;'), one.commands[0].command);
        equal((await s.process.getSessionCommand('one', one.commands[1].id)).exitCode, 0);
        await s.process.createSession('two');
        equal((await s.process.listSessions()).map((l) => [l.sessionId, l.commands.length]), [['one', 3], ['two', 0]]);
        await refused(() => s.process.getSession('none'), DaytonaNotFoundError);
        await refused(() => s.process.getSessionCommand('one', 'none'), DaytonaNotFoundError);
    },
    'process.getSessionCommandLogs': async () => {
        const { cmdId } = await s.process.executeSessionCommand('two', { command: 'echo first; echo bad >&2; cat; echo last', runAsync: true });
        await until(async () => (await s.process.getSessionCommandLogs('two', cmdId)).output.includes('bad'), 'its first words');
        equal((await s.process.getSessionCommand('two', cmdId)).exitCode, undefined, 'it runs');
        const seen = { out: '', err: '' };
        const followed = s.process.getSessionCommandLogs('two', cmdId, (d) => { seen.out += d; }, (d) => { seen.err += d; });
        await s.process.sendSessionCommandInput('two', cmdId, 'typed\n');
        await until(() => seen.out.includes('typed'), 'what was typed');
        await s.process.executeCommand('pkill -x cat');
        await followed;
        equal([seen.out, seen.err.slice(0, 4)], ['first\ntyped\nlast\n', 'bad\n']);
        const logs = await s.process.getSessionCommandLogs('two', cmdId);
        equal(logs.stdout, 'first\ntyped\nlast\n');
        equal((await s.process.executeSessionCommand('two', { command: 'echo after' })).stdout, 'after\n');
    },
    'process: a session whose shell ends': async () => {
        equal((await s.process.executeSessionCommand('two', { command: 'echo x; exit 7' })).exitCode, 7);
        await refused(() => s.process.executeSessionCommand('two', { command: 'true' }), DaytonaError, 'ended');
    },
    'process.deleteSession': async () => { await s.process.deleteSession('one'); await s.process.deleteSession('two'); equal(await s.process.listSessions(), []); await refused(() => s.process.deleteSession('one'), DaytonaNotFoundError); },
    'process.createPty, sendInput, resize, wait': async () => {
        let seen = ''; const d = new TextDecoder();
        const pty = await s.process.createPty({ id: 'term', cols: 100, rows: 30, envs: { PS1: '> ', GREET: 'hé' }, cwd: '/tmp', onData: (b) => { seen += d.decode(b, { stream: true }); } });
        await pty.sendInput('stty size; echo $GREET; pwd\n');
        await until(() => seen.includes('30 100') && seen.includes('hé\r\n') && seen.includes('/tmp\r\n'), `its answer: ${seen}`);
        await pty.resize(120, 40);
        await pty.sendInput('stty size\n');
        await until(() => seen.includes('40 120'), 'its new size');
        equal((await s.process.listPtySessions()).map((p) => [p.id, p.active]), [['term', true]]);
        equal((await s.process.getPtySessionInfo('term')).cwd, '/tmp');
        await pty.sendInput('exit 5\n');
        equal((await pty.wait()).exitCode, 5);
        await s.process.killPtySession('term');
    },
    'process.connectPty, killPtySession': async () => {
        const first = await s.process.createPty({ id: 'stays', onData: () => {} });
        await first.disconnect();
        let seen = '';
        const again = await s.process.connectPty('stays', { onData: (b) => { seen += Buffer.from(b).toString(); } });
        await again.sendInput('echo $((6*7))\n');
        await until(() => seen.includes('42'), 'its answer');
        await again.kill();
        equal((await again.wait()).exitCode, 137);
        equal(await s.process.listPtySessions(), []);
        await refused(() => s.process.connectPty('stays', { onData: () => {} }), DaytonaError);
    },
    'codeInterpreter.runCode': async () => {
        const seen = [];
        const r = await s.codeInterpreter.runCode('import sys\nx = 41\nprint("hi")\nprint("e", file=sys.stderr)', { onStdout: (m) => seen.push(m.output) });
        equal([r.stdout, r.stderr, r.error, seen.join('')], ['hi\n', 'e\n', undefined, 'hi\n']);
        equal((await s.codeInterpreter.runCode('print(x + 1)')).stdout, '42\n', 'names stay');
        const bad = await s.codeInterpreter.runCode('1/0'); equal([bad.error.name, bad.error.value], ['ZeroDivisionError', 'division by zero']);
        equal((await s.codeInterpreter.runCode('import os; print(os.environ["MORE"])', { envs: { MORE: 'm' } })).stdout, 'm\n');
    },
    'codeInterpreter.createContext, listContexts, deleteContext': async () => {
        const c = await s.codeInterpreter.createContext('/tmp');
        equal((await s.codeInterpreter.runCode('import os; print(os.getcwd(), "x" in globals())', { context: c })).stdout, '/tmp False\n');
        equal((await s.codeInterpreter.listContexts()).length, 2);
        await s.codeInterpreter.deleteContext(c);
        await refused(() => s.codeInterpreter.runCode('1', { context: c }), DaytonaError, 'no context');
    },
    'codeInterpreter.runCode (timeout)': async () => { await refused(() => s.codeInterpreter.runCode('while True: pass', { timeout: 1 }), DaytonaTimeoutError); },
    'sandbox.getPreviewLink': async () => {
        await s.process.createSession('web');
        await s.process.executeSessionCommand('web', { command: 'mkdir -p web && echo served > web/page && cd web && python3 -m http.server 8123 >/dev/null 2>&1', runAsync: true });
        const link = await s.getPreviewLink(8123);
        const ask = (url, headers) => fetch(url, { headers });
        await until(async () => (await ask(`${link.url}/page`, { 'x-daytona-preview-token': link.token })).status === 200, 'the server answers');
        equal(await (await ask(`${link.url}/page?q=1`, { 'x-daytona-preview-token': link.token })).text(), 'served\n');
        assert((await (await ask(`${link.url}?DAYTONA_SANDBOX_AUTH_KEY=${link.token}`)).text()).includes('page'), 'its root, by the query');
        equal((await ask(`${link.url}/page`)).status, 401, 'without a token');
        equal((await ask(`${link.url}/page`, { 'x-daytona-preview-token': link.token.replace(/./, 'x') })).status, 401, 'with another');
        equal((await ask((await s.getPreviewLink(8124)).url, { 'x-daytona-preview-token': link.token })).status, 502, 'where nothing listens');
        const signed = await s.getSignedPreviewUrl(8123, 60);
        equal(await (await ask(`${signed.url}/page`)).text(), 'served\n', 'by a signed link');
        equal((await ask(`${signed.url.replace('8123~', '8122~')}/page`)).status, 401, 'for another port');
        equal((await ask(`${signed.url.slice(0, -1)}/page`)).status, 401, 'another signature');
        await refused(() => s.expireSignedPreviewUrl(8123, signed.token), DaytonaError, 'expire by themselves');
        await s.process.deleteSession('web');
    },
    'sandbox.downloadUrl, uploadUrl': async () => {
        const form = new FormData(); form.append('file', new Blob(['by a link']), 'x');
        equal((await fetch(await s.uploadUrl('linked file'), { method: 'POST', body: form })).status, 200);
        equal(await (await fetch(await s.downloadUrl('linked file', 60))).text(), 'by a link');
        const url = await s.downloadUrl('linked file');
        equal((await fetch(url.replace('linked', 'other'))).status, 401, 'of another file');
        equal((await fetch(url.replace(/expires=[0-9]+/, 'expires=1'))).status, 401, 'of another time');
        equal((await fetch(url.replace('/files/download', '/files'))).status, 401, 'for something else');
        equal((await fetch(url, { method: 'DELETE' })).status, 401, 'by another method');
    },
    'fs.createFolder': async () => { await s.fs.createFolder('deep/er', '750'); const i = await s.fs.getFileDetails(`${HOME}/deep/er`); equal([i.isDir, i.permissions, i.mode, i.owner], [true, '0750', 'drwxr-x---', 'user']); },
    'fs.uploadFile, downloadFile': async () => {
        const data = randomBytes(300_000);
        await s.fs.uploadFile(data, 'deep/data.bin');
        equal(hash(await s.fs.downloadFile('deep/data.bin')), hash(data));
        await s.fs.uploadFile(text(''), 'empty'); equal((await s.fs.downloadFile('empty')).length, 0);
    },
    'fs.uploadFile (a local file), downloadFile (to one)': async () => {
        writeFileSync('local.txt', 'local\n');
        await s.fs.uploadFile('local.txt', '/tmp/new/dir/ü "x".txt');
        await s.fs.downloadFile('/tmp/new/dir/ü "x".txt', 'back.txt');
        equal(readFileSync('back.txt', 'utf8'), 'local\n');
    },
    'fs.uploadFiles, downloadFiles': async () => {
        await s.fs.uploadFiles([{ source: text('one'), destination: 'many/1' }, { source: text('two'), destination: `${HOME}/many/2` }]);
        const r = await s.fs.downloadFiles([{ source: 'many/1' }, { source: 'many/none' }, { source: 'many/2' }, { source: '/root/x' }]);
        equal(r.map((f) => f.result?.toString() ?? f.errorDetails.code), ['one', 'FILE_NOT_FOUND', 'two', r[3].errorDetails.code]);
    },
    'fs.downloadFile (no such file)': async () => { await refused(() => s.fs.downloadFile('none'), DaytonaFileNotFoundError); },
    'fs.uploadFileStream, downloadFileStream': async () => {
        await s.fs.uploadFileStream(text('streamed'), 'stream');
        let got = ''; for await (const d of await s.fs.downloadFileStream('stream')) got += d;
        equal(got, 'streamed');
    },
    'fs: 100 MB up and down {big}': async () => {
        const data = randomBytes(100 << 20);
        await s.fs.uploadFile(data, '/tmp/big');
        equal((await s.process.executeCommand('sha256sum < /tmp/big')).result.slice(0, 64), hash(data));
        equal(hash(await s.fs.downloadFile('/tmp/big')), hash(data));
        await s.fs.deleteFile('/tmp/big');
    },
    'fs.listFiles': async () => {
        equal((await s.fs.listFiles('many')).map((f) => [f.name, f.size, f.isDir]).sort(), [['1', 3, false], ['2', 3, false]]);
        assert((await s.fs.listFiles(HOME, { depth: 2 })).some((f) => f.path === `${HOME}/many/1`), 'with depth');
    },
    'fs.getFileDetails': async () => { const i = await s.fs.getFileDetails('many/1'); equal([i.name, i.size, i.isDir, i.permissions], ['1', 3, false, '0644']); await refused(() => s.fs.getFileDetails('none'), DaytonaFileNotFoundError); },
    'fs.moveFiles': async () => { await s.fs.moveFiles('many/2', 'many/two'); equal((await s.fs.downloadFile('many/two')).toString(), 'two'); await refused(() => s.fs.moveFiles('none', 'x'), DaytonaFileNotFoundError); },
    'fs.setFilePermissions': async () => { await s.fs.setFilePermissions('many/1', { mode: '600' }); equal((await s.fs.getFileDetails('many/1')).mode, '-rw-------'); await refused(() => s.fs.setFilePermissions('none', { mode: '600' }), DaytonaFileNotFoundError); },
    'fs.searchFiles': async () => { equal((await s.fs.searchFiles(HOME, 'tw*')).files, [`${HOME}/many/two`]); },
    'fs.findFiles': async () => { await s.fs.uploadFile(text('a\nsome: text\n'), 'many/text'); equal(await s.fs.findFiles('many', 'some:'), [{ file: `${HOME}/many/text`, line: 2, content: 'some: text' }]); equal(await s.fs.findFiles('many', 'not there'), []); },
    'fs.replaceInFiles': async () => {
        const r = await s.fs.replaceInFiles(['many/text', 'none'], "some: text\n", "$1 'other' \\n\n");
        equal(r.map((f) => [f.file, f.success]), [[`${HOME}/many/text`, true], [`${HOME}/none`, false]]);
        equal((await s.fs.downloadFile('many/text')).toString(), "a\n$1 'other' \\n\n");
    },
    'fs.deleteFile': async () => { await s.fs.deleteFile('many/text'); await refused(() => s.fs.getFileDetails('many/text'), DaytonaFileNotFoundError); await refused(() => s.fs.deleteFile('many'), DaytonaValidationError, 'recursive'); await s.fs.deleteFile('many', true); },
    'git.init, add, commit, status': async () => {
        await s.git.init('repo', false, 'main');
        await s.fs.uploadFile(text('1'), 'repo/a b');
        let st = await s.git.status('repo');
        equal([st.currentBranch, st.fileStatus], ['main', [{ name: 'a b', staging: 'Untracked', worktree: 'Untracked', extra: '' }]]);
        await s.git.add('repo', ['a b']);
        equal((await s.git.status('repo')).fileStatus[0].staging, 'Added');
        const c = await s.git.commit('repo', "it's the first", 'An Author', 'a@example.com');
        assert(/^[0-9a-f]{40}$/.test(c.sha), c.sha);
        equal((await s.git.status('repo')).fileStatus, []);
    },
    'git.branches, createBranch, checkoutBranch, deleteBranch': async () => {
        await s.git.createBranch('repo', 'next');
        await refused(() => s.git.createBranch('repo', 'next'), DaytonaGitBranchExistsError);
        await s.git.checkoutBranch('repo', 'next');
        equal((await s.git.branches('repo')).branches.sort(), ['main', 'next']);
        equal((await s.git.status('repo')).currentBranch, 'next');
        await s.git.checkoutBranch('repo', 'main');
        await s.git.deleteBranch('repo', 'next');
        await refused(() => s.git.checkoutBranch('repo', 'next'), DaytonaGitBranchNotFoundError);
        equal((await s.git.branches('repo')).branches, ['main']);
    },
    'git.clone, push, pull, remotes': async () => {
        await s.git.clone(`${HOME}/repo`, 'copy');
        await s.git.init('bare', true, 'main');
        await s.git.remoteAdd('repo', 'up', `${HOME}/bare`);
        equal(await s.git.remoteGet('repo', 'up'), `${HOME}/bare`);
        equal((await s.git.remotes('repo')).remotes.map((r) => r.name), ['up']);
        await s.git.push('repo', undefined, undefined, 'main', 'up', true);
        equal([(await s.git.status('repo')).upstream, (await s.git.status('repo')).branchPublished], ['up/main', true]);
        await s.git.pull('repo', undefined, undefined, 'main', 'up');
        await refused(() => s.git.clone(`${HOME}/none`, 'copy2'), DaytonaError);
        await refused(() => s.git.status('deep'), DaytonaGitRepoNotFoundError);
    },
    'git.reset, restore': async () => {
        await s.fs.uploadFile(text('2'), 'repo/a b');
        await s.git.add('repo', ['a b']); await s.git.reset('repo');
        equal((await s.git.status('repo')).fileStatus[0].worktree, 'Modified');
        await s.git.restore('repo', ['a b']);
        equal((await s.fs.downloadFile('repo/a b')).toString(), '1');
    },
    'git.setConfig, getConfig, configureUser': async () => {
        await s.git.setConfig('core.abbrev', '9'); equal(await s.git.getConfig('core.abbrev'), '9'); equal(await s.git.getConfig('no.such'), undefined);
        await s.git.configureUser('Me', 'me@example.com'); equal(await s.git.getConfig('user.email'), 'me@example.com');
    },
    'sandbox.stop, start': async () => {
        await s.process.executeCommand('nohup sleep 777 >/dev/null 2>&1 & echo kept > kept');
        await s.stop(); equal(s.state, 'stopped'); equal(await all({ states: ['stopped'] }), [s.id]);
        await refused(() => s.process.executeCommand('true'), DaytonaError);
        await s.start(); equal(s.state, 'started');
        equal((await s.process.executeCommand('cat kept; pgrep sleep')).result, 'kept\n', 'files are there, processes are not');
    },
    'sandbox.pause': async () => { await s.pause(); equal(s.state, 'paused'); await s.start(); equal(s.state, 'started'); equal((await s.process.executeCommand('cat kept')).result, 'kept\n'); },
    'sandbox.fork': async () => { const f = await s.fork(); boxes.push(f); equal((await f.process.executeCommand('cat kept')).result, 'kept\n'); await f.delete(); },
    'sandbox.createSnapshot, snapshot.list, get, delete': async () => {
        await s.createSnapshot('story-snap');
        const found = await daytona.snapshot.get('story-snap');
        equal([found.name, found.state, found.sourceSandboxId], ['story-snap', 'active', s.id]);
        assert((await daytona.snapshot.list()).items.some((i) => i.name === 'story-snap'), 'in the list');
        assert((await daytona.snapshot.list()).items.some((i) => i.name === 'base' && i.general), 'profiles are in the list');
        const t = await make({ snapshot: 'story-snap' });
        equal((await t.process.executeCommand('cat kept')).result, 'kept\n');
        await t.delete();
        await daytona.snapshot.delete(found);
        await refused(() => daytona.snapshot.get('story-snap'), DaytonaNotFoundError);
    },
    'an ephemeral sandbox': async () => { const t = await make({ ephemeral: true }); equal(t.autoDeleteInterval, 0); await t.stop(); equal(t.state, 'destroyed'); },
    'networkBlockAll': async () => { const t = await make({ networkBlockAll: true }); equal(t.networkBlockAll, true); await t.delete(); },
    'domainAllowList, updateNetworkSettings {net}': async () => { const t = await make({ domainAllowList: 'example.com, *.example.org' }); equal(t.networkBlockAll, false); await t.updateNetworkSettings({ networkBlockAll: true }); await t.delete(); },
    'what is not here': async () => {
        await refused(() => daytona.volume.list(), DaytonaError, 'volumes are not supported');
        await refused(() => daytona.create({ volumes: [{ volumeId: 'v', mountPath: '/v' }] }), DaytonaError, 'volumes');
        await refused(() => daytona.create({ user: 'root' }), DaytonaError, 'user');
        const lsp = await s.createLspServer('python', 'repo'); await refused(() => lsp.start(), DaytonaError, 'language servers');
    },
    'sandbox.delete': async () => { await s.delete(60, true); await refused(() => daytona.get(s.id), DaytonaNotFoundError); await refused(() => s.process.executeCommand('true'), DaytonaNotFoundError); },
};

const without = process.argv.slice(2);
for (const [name, step] of Object.entries(steps)) {
    const say = (how, why) => console.log(JSON.stringify({ step: name, how, why }));
    if (without.some((w) => name.endsWith(`{${w}}`))) { say('left out'); continue; }
    await step().then(() => say('pass'), (e) => say('fail', `${e.constructor.name}: ${e.message}`.slice(0, 800)));
}
for (const b of boxes) await b.delete().catch(() => {});
process.exit(0);
"""
