import { createWriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { Readable } from 'node:stream';

const url = process.argv[2];
const res = await fetch(url);
await pipeline(Readable.fromWeb(res.body), createWriteStream('download.bin'));
