const net = require('net');
const peers = new Set();
net.createServer((sock) => {
  peers.add(sock);
  sock.on('data', (d) => peers.forEach((p) => p !== sock && p.write(d)));
  sock.on('close', () => peers.delete(sock));
}).listen(9000, '127.0.0.1');
