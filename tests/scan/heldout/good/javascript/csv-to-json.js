const fs = require('fs');
const readline = require('readline');
const rl = readline.createInterface({ input: fs.createReadStream('in.csv') });
let head;
const rows = [];
rl.on('line', (line) => {
  const cells = line.split(',');
  if (!head) head = cells;
  else rows.push(Object.fromEntries(head.map((h, i) => [h, cells[i]])));
});
rl.on('close', () => fs.writeFileSync('out.json', JSON.stringify(rows, null, 2)));
