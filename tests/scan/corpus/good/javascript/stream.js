const fs = require('fs'), zlib = require('zlib');
fs.createReadStream('in.txt').pipe(zlib.createGzip()).pipe(fs.createWriteStream('in.txt.gz'));
