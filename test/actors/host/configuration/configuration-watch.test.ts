/** The watch of configuration files on a real disk: which changes it reports, and which it does not. */
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { configurationPorts } from '../../../../src/actors/host/configuration/configuration-watch.ts';
import { Vault } from '../../../../src/kernel/journal/secrets.ts';

/** Longer than any test here: only hints count. */
const NEVER_MS = 60_000;
const SOON_MS = 20;
const QUIET_MS = 150;

function files() {
  const directory = mkdtempSync(join(tmpdir(), 'statelet-reload-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const file = join(directory, 'kubelet.yaml');
  const dropIns = join(directory, 'kubelet.conf.d');
  mkdirSync(dropIns);
  writeFileSync(file, 'maxPods: 1\n');
  writeFileSync(join(dropIns, '10.conf'), 'maxPods: 2\n');
  return { directory, file, dropIns };
}

const call = <Input>(input: Input) => ({
  id: 1,
  input,
  resume: false,
  signal: new AbortController().signal,
  emit: () => {},
});

/** Follows the paths; `count` is the number of reports. */
function follow(ports: ReturnType<typeof configurationPorts>, paths: readonly string[], periodMs = NEVER_MS) {
  const abort = new AbortController();
  let count = 0;
  const ended = ports['host.watchConfiguration']({
    ...call({ paths, periodMs }),
    signal: abort.signal,
    emit: () => void count++,
  });
  onTestFinished(() => abort.abort());
  return {
    count: () => count,
    async until(wanted: number) {
      const end = Date.now() + 30_000;
      while (Date.now() < end) {
        if (count >= wanted) break;
        await sleep(5);
      }
      await sleep(QUIET_MS);
      return count;
    },
    async stop() {
      abort.abort();
      await ended;
    },
  };
}

async function started(periodMs = NEVER_MS) {
  const where = files();
  const ports = configurationPorts(new Vault(Buffer.alloc(32, 1)));
  await ports['host.readConfiguration'](call({ path: where.file }));
  await ports['host.readDropIns'](call({ path: where.dropIns }));
  const watch = follow(ports, [where.file, where.dropIns], periodMs);
  await sleep(QUIET_MS);
  return { ...where, ports, watch };
}

describe('the watch of the configuration', () => {
  it('is silent while nothing changes', async () => {
    const { watch, directory } = await started(SOON_MS);
    writeFileSync(join(directory, 'other'), 'x');
    await sleep(QUIET_MS);
    expect(watch.count()).toBe(0);
  });

  it.each<[string, (where: ReturnType<typeof files>) => void]>([
    ['a file that is written over', ({ file }) => writeFileSync(file, 'maxPods: 30\n')],
    [
      'a file that another is renamed to',
      ({ file, directory }) => {
        writeFileSync(join(directory, 'new'), 'maxPods: 1\n');
        renameSync(join(directory, 'new'), file);
      },
    ],
    ['a file that is removed', ({ file }) => rmSync(file)],
    ['a drop-in that is added', ({ dropIns }) => writeFileSync(join(dropIns, '20.conf'), '{}')],
    ['a drop-in that is removed', ({ dropIns }) => rmSync(join(dropIns, '10.conf'))],
    ['a drop-in that is changed', ({ dropIns }) => writeFileSync(join(dropIns, '10.conf'), 'maxPods: 4\n')],
  ])('notices %s by inotify', async (_, change) => {
    const { watch, ...where } = await started();
    change(where);
    expect(await watch.until(1)).toBeGreaterThanOrEqual(1);
  });

  it('is not interested in files beside the drop-ins', async () => {
    const { watch, dropIns } = await started(SOON_MS);
    writeFileSync(join(dropIns, 'README'), 'x');
    await sleep(QUIET_MS);
    expect(watch.count()).toBe(0);
  });

  it('notices by polling what gives no hint: a deeper folder, a change behind a link', async () => {
    const { watch, dropIns, file, directory } = await started(SOON_MS);
    mkdirSync(join(dropIns, 'deep'));
    writeFileSync(join(dropIns, 'deep', '30.conf'), '{}');
    expect(await watch.until(1)).toBeGreaterThanOrEqual(1);
    const target = join(directory, 'target');
    writeFileSync(target, 'maxPods: 9\n');
    rmSync(file);
    symlinkSync(target, file);
    const before = await watch.until(2);
    writeFileSync(target, 'maxPods: 10\n');
    expect(await watch.until(before + 1)).toBeGreaterThan(before);
  });

  it('does not lose a change between the reading and the watch', async () => {
    const { file, dropIns } = files();
    const ports = configurationPorts(new Vault(Buffer.alloc(32, 1)));
    await ports['host.readConfiguration'](call({ path: file }));
    await ports['host.readDropIns'](call({ path: dropIns }));
    writeFileSync(file, 'maxPods: 22\n');
    expect(await follow(ports, [file, dropIns]).until(1)).toBe(1);
  });

  it('does not say again what was read since', async () => {
    const { file, ports, watch } = await started();
    writeFileSync(file, 'maxPods: 30\n');
    await watch.until(1);
    await watch.stop();
    await ports['host.readConfiguration'](call({ path: file }));
    const again = follow(ports, [file], SOON_MS);
    await sleep(QUIET_MS);
    expect(again.count()).toBe(0);
  });

  it('ends when its caller is gone', async () => {
    const { watch, file } = await started();
    await watch.stop();
    utimesSync(file, 1, 1);
    await sleep(QUIET_MS);
    expect(watch.count()).toBe(0);
  });
});
