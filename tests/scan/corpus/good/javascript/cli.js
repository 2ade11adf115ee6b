#!/usr/bin/env node
const [, , name = 'world'] = process.argv;
console.log('hello ' + name);
