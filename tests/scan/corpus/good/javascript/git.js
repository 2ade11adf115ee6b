const { execFileSync } = require('child_process');
const head = execFileSync('git', ['rev-parse', 'HEAD']).toString().trim();
console.log(head);
