const queue = [];
while (true) {
  const item = next();
  if (!item) break;
  queue.push(item);
}
function next() { return null; }
