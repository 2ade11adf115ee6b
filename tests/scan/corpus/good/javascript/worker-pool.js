const { Worker } = require('worker_threads');
const os = require('os');
for (let i = 0; i < os.cpus().length; i++) new Worker('./task.js');
