/** What the runtime reads about a container between two writes of its shim. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { identify } from '../../../../src/actors/embedded-runtime/process/proc.ts';
import { Supervisor } from '../../../../src/actors/embedded-runtime/process/supervisor.ts';
import { writeJson } from '../../../../src/actors/embedded-runtime/store/records.ts';
import { Container } from '../../../../src/actors/embedded-runtime/store/store.ts';
import { eventually } from '../harness.ts';

/** Runs `act` at the first read of the file, which does not find it. */
function atFirstRead(files: Container['files'], file: 'process' | 'exit', act: () => void): void {
  const path = files[file];
  const get = () => {
    Object.defineProperty(files, file, { value: path });
    act();
    return `${path}-not-yet`;
  };
  Object.defineProperty(files, file, { configurable: true, get });
}

it('a container that starts and ends between two reads of its files has started', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'supervisor-'));
  const container = new Container(directory, { id: 'c', startRequested: true } as never);
  const seen: string[] = [];
  const supervisor = new Supervisor(directory, {
    changed: (_, change) => void seen.push(change),
    failed: (text) => void seen.push(text),
  });
  onTestFinished(() => {
    supervisor.close();
    rmSync(directory, { recursive: true });
  });
  const shim = identify(process.pid);
  writeJson(container.files.shim, shim);
  await supervisor.adopt(container);
  const { process: started, exit } = container.files;
  atFirstRead(container.files, 'process', () => {
    writeJson(started, { ...shim, startedAt: '1' });
    writeJson(exit, { exitCode: 0, reason: 'Completed', message: '', startedAt: '1', finishedAt: '2' });
  });
  await eventually('its end is seen', () => container.exit !== undefined);
  expect(seen).toEqual(['started', 'stopped']);
  expect(container.process).toMatchObject({ startedAt: '1' });
});
