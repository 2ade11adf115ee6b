const crypto = require('crypto');
console.log(crypto.createHash('sha256').update('x').digest('hex'), crypto.randomBytes(8).toString('hex'));
