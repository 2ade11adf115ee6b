const { setTimeout: sleep } = require('timers/promises');
async function main(queue) {
  while (true) {
    const job = await queue.take();
    if (!job) {
      await sleep(1000);
      continue;
    }
    try {
      await job.run();
    } catch (e) {
      console.error(e);
    }
  }
}
module.exports = main;
