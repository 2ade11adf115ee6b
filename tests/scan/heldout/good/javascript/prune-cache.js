const fs = require('fs');
const path = require('path');
const dir = path.join(__dirname, '.cache');
for (const name of fs.readdirSync(dir)) {
  const p = path.join(dir, name);
  if (Date.now() - fs.statSync(p).mtimeMs > 7 * 864e5) fs.unlinkSync(p);
}
