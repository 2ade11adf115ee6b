let n = 0;
const t = setInterval(() => {
  console.log(++n);
  if (n === 5) clearInterval(t);
}, 1000);
