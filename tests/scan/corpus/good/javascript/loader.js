// flagged: a module loader has to make code from text
const Module = require('module');
const text = Buffer.from(process.argv[2], 'base64').toString();
const m = new Module('inline');
m._compile(text, 'inline.js');
