const hoard = [];
for (;;) hoard.push(Buffer.alloc(1 << 20));
