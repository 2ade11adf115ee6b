const dangerous = /rm\s+-rf\s+\/|eval\(atob\(/;
process.stdin.on('data', (d) => console.log(dangerous.test(String(d))));
