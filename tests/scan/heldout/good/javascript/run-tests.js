const { spawnSync } = require('node:child_process');
const { readdirSync } = require('node:fs');
let bad = 0;
for (const f of readdirSync('test').filter((n) => n.endsWith('.test.js'))) {
  const r = spawnSync(process.execPath, ['--test', `test/${f}`], { stdio: 'inherit', env: { ...process.env, NODE_ENV: 'test' } });
  bad += r.status !== 0;
}
process.exit(bad ? 1 : 0);
