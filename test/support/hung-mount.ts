/**
 * A file system that never answers: FUSE whose other side is open and reads nothing. Every call hangs until `letGo`.
 */
import { execFile, spawn } from 'node:child_process';
import { accessSync, closeSync, constants, mkdirSync, openSync } from 'node:fs';
import { promisify } from 'node:util';

const run = promisify(execFile);
const FUSE = '/dev/fuse';

/** Why nothing can hang here; `null` if it can. */
export function hungMountsAvailable(): string | null {
  if (process.getuid?.() !== 0) return 'mounting needs root';
  try {
    accessSync(FUSE, constants.R_OK | constants.W_OK);
    return null;
  } catch {
    return `there is no ${FUSE}`;
  }
}

export class HungMount {
  readonly path: string;
  #device: number | null;

  private constructor(path: string, device: number) {
    this.path = path;
    this.#device = device;
  }

  /** Mounts a file system at `path`, a folder that is created. */
  static async at(path: string): Promise<HungMount> {
    mkdirSync(path, { recursive: true });
    const device = openSync(FUSE, 'r+');
    const options = 'fd=3,rootmode=40000,user_id=0,group_id=0';
    const child = spawn('mount', ['-i', '-t', 'fuse', '-o', options, 'hung', path], {
      stdio: ['ignore', 'inherit', 'inherit', device],
    });
    const code = await new Promise((resolve) => child.once('exit', resolve));
    if (code !== 0) {
      closeSync(device);
      throw new Error(`cannot mount what hangs at ${path}`);
    }
    return new HungMount(path, device);
  }

  /** Every hanging call fails, and so do later ones. */
  letGo(): void {
    if (this.#device !== null) closeSync(this.#device);
    this.#device = null;
  }

  async close(): Promise<void> {
    this.letGo();
    await run('umount', ['--lazy', this.path]).catch(() => {});
  }
}
