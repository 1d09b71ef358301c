/** Logs of containers on a real disk: links, rotation in upstream's order, and nothing outside their folder. */
import {
  appendFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { containerLogPorts } from '../../../src/actors/logs/container-logs.ts';
import type { KeptLog } from '../../../src/machines/model/operations/logs.ts';
import { openStream, perform, temporaryFolder } from '../../support/host-ports.ts';

const PERIOD_MS = 20;

async function logs(more: Partial<KeptLog> = {}) {
  const folder = await temporaryFolder();
  const root = join(folder, 'pods');
  const links = join(folder, 'containers');
  const place = join(root, 'ns_pod_uid/app');
  mkdirSync(place, { recursive: true });
  let seconds = 0;
  const ports = containerLogPorts(() => new Date(2026, 0, 2, 3, 4, seconds++));
  const path = join(place, '0.log');
  const link = join(links, 'pod_ns_app-1.log');
  const log: KeptLog = { root, path, link, maxBytes: 10, maxFiles: 4, periodMs: PERIOD_MS, workers: 1, ...more };
  const names = () => readdirSync(place).sort();
  const keep = () => openStream(ports['logs.keep'], log);
  const pause = (periods: number) => new Promise((resolve) => setTimeout(resolve, periods * PERIOD_MS));
  return { folder, root, links, place, path, link, log, names, keep, pause, ports };
}

describe('keeping a log', () => {
  it('makes the link as soon as there is something to lead to, and replaces one of old', async () => {
    const { path, link, links, keep } = await logs();
    mkdirSync(links);
    symlinkSync('/nowhere', link);
    const stream = keep();
    await stream.until(({ type }) => type === 'log.missing');
    expect(readlinkSync(link)).toBe('/nowhere');
    writeFileSync(path, 'x');
    await expect.poll(() => readlinkSync(link)).toBe(path);
  });

  it('says once that the file of the link is not its own, and rotates none the less', async () => {
    const { path, link, links, keep } = await logs();
    mkdirSync(links);
    writeFileSync(link, 'mine');
    writeFileSync(path, '');
    const stream = keep();
    const failed = await stream.until(({ type }) => type === 'log.failed');
    expect(failed).toMatchObject({ message: expect.stringContaining('it exists and is not a symbolic link') });
    expect(readFileSync(link, 'utf8')).toBe('mine');
  });

  it('moves a log aside that is too large, and compresses it when the next one is moved', async () => {
    const { path, place, names, keep } = await logs();
    writeFileSync(path, '0123456789');
    const stream = keep();
    const isAside = (aside: string) => (item: { type: string }) => JSON.stringify(item).includes(aside);
    await stream.until(isAside('0.log.20260102-030400'));
    expect(names()).toEqual(['0.log.20260102-030400']);
    writeFileSync(path, 'second one');
    await stream.until(isAside('0.log.20260102-030401'));
    expect(names()).toEqual(['0.log.20260102-030400.gz', '0.log.20260102-030401']);
    expect(gunzipSync(readFileSync(join(place, '0.log.20260102-030400.gz'))).toString()).toBe('0123456789');
    for (const content of ['third one!', 'fourth one']) {
      writeFileSync(path, content);
      await expect.poll(() => existsSync(path)).toBe(false);
    }
    writeFileSync(path, 'new');
    expect(names()).toEqual(['0.log', '0.log.20260102-030401.gz', '0.log.20260102-030402.gz', '0.log.20260102-030403']);
  });

  it('clears away what a rotation that was cut off has left', async () => {
    const { path, place, names, keep } = await logs();
    writeFileSync(join(place, '0.log.20250101-000000'), 'done already');
    writeFileSync(join(place, '0.log.20250101-000000.gz'), gzipSync('done already'));
    writeFileSync(join(place, '0.log.20250101-000001.tmp'), 'half');
    writeFileSync(join(place, '1.log.20250101-000001.tmp'), 'of another one');
    writeFileSync(path, '0123456789');
    await keep().until(({ type }) => type === 'log.rotated');
    expect(names()).toEqual(['0.log.20250101-000000.gz', '0.log.20260102-030400', '1.log.20250101-000001.tmp']);
  });

  it('leaves alone a log that is small, or that is never rotated', async () => {
    const { path, names, keep, pause } = await logs({ maxBytes: -1 });
    writeFileSync(path, '0123456789'.repeat(100));
    const stream = keep();
    await pause(5);
    expect(stream.items).toEqual([]);
    expect(names()).toEqual(['0.log']);
  });

  it('speaks of a log that is missing after ever longer waits', async () => {
    const { path, link, keep } = await logs();
    const began = performance.now();
    const stream = keep();
    await expect.poll(() => stream.items.length, { interval: 1 }).toBe(3);
    expect(performance.now() - began).toBeGreaterThan((1 + 2) * PERIOD_MS);
    writeFileSync(path, '');
    await expect.poll(() => existsSync(link)).toBe(true);
    rmSync(path);
    const { length } = stream.items;
    await expect.poll(() => stream.items.length).toBeGreaterThan(length);
  });

  it('does not follow a link that took the place of the log', async () => {
    const { folder, path, keep, pause } = await logs();
    const victim = join(folder, 'victim');
    writeFileSync(victim, '0123456789');
    symlinkSync(victim, path);
    const stream = keep();
    await stream.until(({ type }) => type === 'log.failed');
    await pause(5);
    expect(stream.items).toHaveLength(1);
    expect(readFileSync(victim, 'utf8')).toBe('0123456789');
    expect(lstatSync(path).isSymbolicLink()).toBe(true);
  });

  it('does not write through a link in place of the compressed part', async () => {
    const { folder, path, place, names, keep } = await logs();
    const victim = join(folder, 'victim');
    writeFileSync(victim, 'of the node');
    writeFileSync(path, 'first part');
    const stream = keep();
    const { aside } = (await stream.until(({ type }) => type === 'log.rotated')) as { aside: string };
    symlinkSync(victim, join(place, `${aside}.tmp`));
    writeFileSync(path, 'second part');
    await stream.until((item) => item.type === 'log.rotated' && item.aside !== aside);
    expect(readFileSync(victim, 'utf8')).toBe('of the node');
    expect(gunzipSync(readFileSync(join(place, `${aside}.gz`))).toString()).toBe('first part');
    expect(names()).toHaveLength(2);
  });

  it('does not follow a link on the way to the log', async () => {
    const { folder, root, place, path, keep } = await logs();
    const elsewhere = join(folder, 'elsewhere');
    renameSync(place, elsewhere);
    symlinkSync(elsewhere, place);
    writeFileSync(join(elsewhere, '0.log'), '0123456789');
    const failed = await keep().until(({ type }) => type === 'log.failed');
    expect(failed).toMatchObject({ message: `refusing to touch ${path}: "app" on the way is not a folder` });
    expect(readdirSync(elsewhere)).toEqual(['0.log']);
    expect(root).not.toBe('');
  });

  it('compresses while the container writes on, and loses nothing', async () => {
    const { path, place, keep } = await logs({ maxBytes: 1_000_000 });
    const text = 'line of a log\n'.repeat(100_000);
    writeFileSync(path, text);
    const stream = keep();
    await stream.until(({ type }) => type === 'log.rotated');
    appendFileSync(join(place, '0.log.20260102-030400'), 'late words\n');
    writeFileSync(path, text);
    await expect.poll(() => stream.items.filter(({ type }) => type === 'log.rotated').length).toBe(2);
    const compressed = readFileSync(join(place, '0.log.20260102-030400.gz'));
    expect(gunzipSync(compressed).toString()).toBe(`${text}late words\n`);
  });
});

describe('what a rotation or an instance leaves', () => {
  it('gets its name back when the runtime did not open a new log, and not over a new one', async () => {
    const { root, path, place, names, ports } = await logs();
    writeFileSync(join(place, '0.log.1'), 'old');
    await perform(ports['logs.restore'], { root, path, aside: '0.log.1' });
    expect(readFileSync(path, 'utf8')).toBe('old');
    writeFileSync(join(place, '0.log.2'), 'older');
    await perform(ports['logs.restore'], { root, path, aside: '0.log.2' });
    expect(names()).toEqual(['0.log', '0.log.2']);
  });

  it('is removed with its instance: all parts and the link, nothing of the next instance', async () => {
    const { root, path, place, link, links, names, ports } = await logs();
    for (const name of ['0.log', '0.log.20250101-000000.gz', '1.log', '10.log', '0.logbook']) {
      writeFileSync(join(place, name), '');
    }
    mkdirSync(links);
    symlinkSync(path, link);
    for (const _ of ['once', 'twice']) await perform(ports['logs.remove'], { root, path, link });
    expect(names()).toEqual(['0.logbook', '1.log', '10.log']);
    expect(readdirSync(links)).toEqual([]);
    const outside = perform(ports['logs.remove'], { root, path: join(root, '../x'), link: '' });
    await expect(outside).rejects.toMatchObject({ code: 'EXDEV' });
  });

  it('loses its links with its pod; those of others stay, also such as are no links', async () => {
    const { folder, root, path, links, ports } = await logs();
    mkdirSync(links);
    writeFileSync(path, '');
    symlinkSync(path, join(links, 'pod_ns_main-1.log'));
    symlinkSync(join(root, 'ns_pod_uid2/app/0.log'), join(links, 'pod_ns_main-2.log'));
    symlinkSync(join(folder, 'foreign'), join(links, 'foreign.log'));
    writeFileSync(join(links, 'file.log'), '');
    const unlink = (of: string, dangling: boolean) => perform(ports['logs.unlink'], { links, folder: of, dangling });
    await unlink(join(root, 'ns_pod_uid'), false);
    expect(readdirSync(links).sort()).toEqual(['file.log', 'foreign.log', 'pod_ns_main-2.log']);
    symlinkSync(path, join(links, 'pod_ns_main-1.log'));
    await unlink(root, true);
    expect(readdirSync(links).sort()).toEqual(['file.log', 'foreign.log', 'pod_ns_main-1.log']);
    await perform(ports['logs.unlink'], { links: join(folder, 'none'), folder: root, dangling: false });
  });

  it('is found by the names of the folders', async () => {
    const { root, ports } = await logs();
    for (const name of ['a_b_c_d', '_x_y', 'plain']) mkdirSync(join(root, name));
    writeFileSync(join(root, 'ns_file_uid'), '');
    expect(await perform(ports['logs.podFolders'], { root })).toEqual({
      pods: [{ namespace: 'ns', name: 'pod', uid: 'uid' }],
    });
    expect(await perform(ports['logs.podFolders'], { root: join(root, 'none') })).toEqual({ pods: [] });
  });
});
