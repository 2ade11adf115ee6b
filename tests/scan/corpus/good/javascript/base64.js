const data = Buffer.from('aGVsbG8=', 'base64').toString('utf8');
console.log(data, btoa('x'));
