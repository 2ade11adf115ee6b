const fs = require('fs');
for (const dir of ['dist', 'coverage']) {
  fs.rmSync(dir, { recursive: true, force: true });
}
