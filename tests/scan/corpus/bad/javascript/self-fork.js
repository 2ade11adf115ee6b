const cp = require('child_process');
cp.fork(__filename);
cp.fork(__filename);
