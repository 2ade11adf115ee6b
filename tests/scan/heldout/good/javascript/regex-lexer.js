const re = /\s*(?:(\d+\.?\d*)|([-+*\/()]))/gy;
function lex(s) {
  const out = [];
  re.lastIndex = 0;
  let m;
  while ((m = re.exec(s)) !== null) out.push(m[1] ? Number(m[1]) : m[2]);
  return out;
}
console.log(lex('1 + 2 * (3 - 4)'));
