import { rm, mkdir, cp } from 'node:fs/promises';
import path from 'node:path';

const dist = path.resolve(import.meta.dirname, 'dist');
await rm(dist, { recursive: true, force: true });
await mkdir(dist);
await cp('public', dist, { recursive: true });
