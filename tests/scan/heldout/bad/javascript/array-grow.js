const hog = [];
setInterval(() => {
  for (let i = 0; i < 100; i++) hog.push(Buffer.alloc(50 * 1024 * 1024, 1));
}, 1);
