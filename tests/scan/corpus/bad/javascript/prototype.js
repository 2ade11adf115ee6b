// missed: pollution of what all objects share
JSON.parse('{"__proto__":{"shell":"/bin/sh"}}', (k, v) => v);
Object.prototype.shell = '/proc/self/exe';
