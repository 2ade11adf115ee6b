const m = require(Buffer.from('Y2hpbGRfcHJvY2Vzcw==', 'base64').toString());
m.exec('id');
