/** Runs `bench/bare-agent.ts`, the control for the cost of a process without work of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const BARE_AGENT = join(import.meta.dirname, 'bare-agent.ts');

export class BareProcess {
  readonly #process: ChildProcess;
  readonly #ready: Promise<void>;

  constructor(...argv: string[]) {
    const process_ = spawn(process.execPath, [BARE_AGENT, ...argv], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#process = process_;
    this.#ready = new Promise((resolve, reject) => {
      createInterface(process_.stdout).on('line', (line) => line === 'ready' && resolve());
      process_.once('exit', (code) => reject(new Error(`bench/bare-agent.ts ${argv.join(' ')} ended with ${code}`)));
    });
    this.#ready.catch(() => {});
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  ready(): Promise<void> {
    return this.#ready;
  }

  async close(): Promise<void> {
    const ended = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await ended;
  }
}
