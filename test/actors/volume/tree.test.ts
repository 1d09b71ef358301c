/** Trees that containers wrote are given to a group and removed, whatever they contain. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { removeTree, shareTree, sharingsBelow } from '../../../src/actors/volume/tree.ts';
import type { Sharing } from '../../../src/machines/model/operations/volume.ts';
import { needsMounts, needsRoot, VolumeRoom } from './support.ts';

const GROUP = 4242;
/** A name that is not valid UTF-8. */
const BYTES = Buffer.from([0x63, 0xff]);

let top: string;
beforeEach(() => void (top = mkdtempSync(join(tmpdir(), 'statelet-tree-'))));
afterEach(() => rmSync(top, { recursive: true, force: true }));

async function share(path = '/v'): Promise<unknown> {
  const folder = await open(top);
  try {
    return await shareTree(folder, { groupId: GROUP, readOnly: false }, path);
  } finally {
    await folder.close();
  }
}

function write(path: string | Buffer, mode: number): void {
  writeFileSync(path, '');
  chmodSync(path, mode);
}

const below = (...names: readonly Buffer[]): Buffer =>
  names.reduce((path, name) => Buffer.concat([path, Buffer.from('/'), name]), Buffer.from(top));

it('what a container wrote goes with its pod, whatever its name', async () => {
  const room = new VolumeRoom();
  const volume = { kind: 'folder', name: 'v', path: room.path('empty-dir', 'v'), mount: null, groupId: null } as const;
  expect(await room.ask('volume.setUp', { volumes: [volume] })).toEqual({ failed: [] });
  write(Buffer.concat([Buffer.from(`${volume.path}/`), BYTES]), 0o600);
  await room.ask('volume.tearDown', {});
  expect(readdirSync(room.podDirectory)).toEqual([]);
  await room.close();
});

it('a name may be any bytes', async () => {
  mkdirSync(below(BYTES));
  write(below(BYTES, BYTES), 0o600);
  await removeTree(top);
  expect(statSync(top, { throwIfNoEntry: false })).toBeUndefined();
});

function handlesBelow(folder: string): number {
  const targets = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return '';
    }
  });
  return targets.filter((target) => target.startsWith(folder)).length;
}

it('levels without end go with few descriptors', async () => {
  const [wide, levels] = ['x/'.repeat(70), 'd/'.repeat(1_500)];
  mkdirSync(join(top, levels), { recursive: true });
  mkdirSync(join(top, wide, 'and'), { recursive: true });
  for (let file = 0; file < 5; file++) write(join(top, wide, String(file)), 0o600);
  let most = 0;
  const timer = setInterval(() => (most = Math.max(most, handlesBelow(top))), 2);
  await removeTree(top);
  clearInterval(timer);
  expect(most).toBeGreaterThan(10);
  expect(most).toBeLessThan(70);
  expect(statSync(top, { throwIfNoEntry: false })).toBeUndefined();
});

it.skipIf(needsRoot)('levels without end are not given to a group, and cost few descriptors', async () => {
  mkdirSync(join(top, 'd/'.repeat(300)), { recursive: true });
  await expect(share()).rejects.toThrow('/v has folders below more than 256 others: it cannot be given');
  expect(statSync(join(top, 'd/'.repeat(257))).gid).not.toBe(GROUP);
});

it.skipIf(needsRoot)('a name that is given to a group may be any bytes', async () => {
  mkdirSync(below(BYTES));
  write(below(BYTES, BYTES), 0o600);
  expect(await share()).toBeNull();
  expect(statSync(below(BYTES, BYTES))).toMatchObject({ gid: GROUP, mode: 0o100660 });
});

describe.skipIf(needsRoot)('a group', () => {
  it('can be seen getting what it gets, until it has it', async () => {
    for (let file = 0; file < 200; file++) write(join(top, String(file)), 0o600);
    const over = new AbortController();
    const sharing = share('/v/mount').finally(() => over.abort());
    const seen: Sharing[] = [];
    while (!over.signal.aborted) {
      seen.push(...sharingsBelow('/v'));
      expect(sharingsBelow('/v/mou')).toEqual([]);
      await setImmediate();
    }
    await sharing;
    expect(new Set(seen.map(({ path }) => path))).toEqual(new Set(['/v/mount']));
    expect(seen.some(({ files }) => files > 0 && files < 201)).toBe(true);
    expect(sharingsBelow('/v')).toEqual([]);
  });

  it('gets all of many files and folders, and no link’s target', async () => {
    for (let folder = 0; folder < 20; folder++) {
      mkdirSync(join(top, `d${folder}/e`), { recursive: true });
      for (let file = 0; file < 20; file++) write(join(top, `d${folder}/e/${file}`), 0o600);
      symlinkSync('/etc/hostname', join(top, `d${folder}/link`));
    }
    const before = statSync('/etc/hostname');
    expect(await share()).toBeNull();
    for (let folder = 0; folder < 20; folder++) {
      expect(statSync(join(top, `d${folder}/e`))).toMatchObject({ gid: GROUP, mode: 0o42775 });
      expect(lstatSync(join(top, `d${folder}/link`)).gid).toBe(GROUP);
      for (let file = 0; file < 20; file++) {
        expect(statSync(join(top, `d${folder}/e/${file}`))).toMatchObject({ gid: GROUP, mode: 0o100660 });
      }
    }
    expect(statSync('/etc/hostname')).toMatchObject({ gid: before.gid, mode: before.mode });
  });

  it.each([
    [0o4755, 0o104775],
    [0o2711, 0o102771],
  ])('leaves the bits that lend rights: %o', async (mode, shared) => {
    write(join(top, 'sudo'), mode);
    await share();
    expect(statSync(join(top, 'sudo'))).toMatchObject({ gid: GROUP, mode: shared });
  });
});

describe.skipIf(needsMounts)('what cannot be given', () => {
  it('is told, and holds up nothing else', async () => {
    const fixed = join(top, 'fixed');
    mkdirSync(fixed);
    write(join(top, 'f'), 0o600);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'tmpfs', fixed]);
    try {
      expect(await share()).toEqual({ text: 'Lchown failed', path: '/v/fixed', err: 'EROFS', more: 1 });
    } finally {
      execFileSync('umount', [fixed]);
    }
    expect(statSync(join(top, 'f'))).toMatchObject({ gid: GROUP, mode: 0o100660 });
    expect(statSync(top)).toMatchObject({ gid: GROUP });
  });
});
