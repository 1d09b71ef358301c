import { linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Rates } from '../../../src/actors/stats/cgroup-samples.ts';
import { fileSystemUsage, folderUsage } from '../../../src/actors/stats/disk-usage.ts';
import { parsePressure } from '../../../src/actors/stats/kernel-text.ts';
import { parseInterfaces, processInterfaces } from '../../../src/actors/stats/machine-devices.ts';
import { temporaryFolder } from '../../support/host-ports.ts';

it('a folder holds its files once, its links not at all', async () => {
  const folder = await temporaryFolder();
  mkdirSync(join(folder, 'deep/deeper'), { recursive: true });
  writeFileSync(join(folder, 'deep/deeper/file'), Buffer.alloc(1_048_576, 1));
  const once = await folderUsage(folder);
  linkSync(join(folder, 'deep/deeper/file'), join(folder, 'second-name'));
  symlinkSync('/usr', join(folder, 'out'));
  const again = await folderUsage(folder);
  expect(once.used).toBeGreaterThanOrEqual(1_048_576n);
  expect(once).toMatchObject({ inodes: 4n, complete: true });
  expect(again.used - once.used).toBeLessThan(65_536n);
  expect(again.inodes).toBe(5n);
});

it('names that are no text hide nothing', async () => {
  const folder = await temporaryFolder();
  const hidden = Buffer.concat([Buffer.from(`${folder}/`), Buffer.from([0x63, 0xff])]);
  mkdirSync(hidden);
  writeFileSync(Buffer.concat([hidden, Buffer.from('/file')]), Buffer.alloc(1_048_576, 1));
  const found = await folderUsage(folder);
  expect(found).toMatchObject({ inodes: 3n, complete: true });
  expect(found.used).toBeGreaterThanOrEqual(1_048_576n);
});

it('a folder beyond its bound is told as a lower bound', async () => {
  const folder = await temporaryFolder();
  for (let file = 0; file < 100; file += 1) writeFileSync(join(folder, String(file)), '');
  expect(await folderUsage(folder, { maxEntries: 10 })).toMatchObject({ complete: false });
  expect(await folderUsage(folder, { maxMs: -1 })).toMatchObject({ complete: false });
});

it('what is gone holds nothing', async () => {
  expect(await folderUsage('/nowhere/at/all')).toEqual({ used: 0n, inodes: 0n, complete: true });
  expect(await fileSystemUsage('/nowhere/at/all')).toBeNull();
});

it('interfaces are read whatever the kernel puts between the columns', () => {
  const columns = '1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16';
  const text = `header | x\n face |bytes\n  eth0:${columns}\nveth1: ${columns}\n    lo: ${columns}\nbroken: 1 2 x\n`;
  expect(parseInterfaces(text)).toEqual([
    {
      name: 'eth0',
      rxBytes: 1n,
      rxPackets: 2n,
      rxErrors: 3n,
      rxDropped: 4n,
      txBytes: 9n,
      txPackets: 10n,
      txErrors: 11n,
      txDropped: 12n,
    },
  ]);
});

it('a process in the network of the machine has the interfaces of the machine; one that is gone has none', async () => {
  const root = await temporaryFolder();
  for (const process of ['self', '7']) {
    mkdirSync(join(root, 'proc', process, 'ns'), { recursive: true });
    symlinkSync('net:[1]', join(root, 'proc', process, 'ns/net'));
  }
  mkdirSync(join(root, 'proc/7/net'));
  const columns = ' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16';
  writeFileSync(
    join(root, 'proc/7/net/dev'),
    ['eth0', 'nerdctl0', 'Docker0', 'lo'].map((n) => `${n}:${columns}\n`).join(''),
  );
  expect(processInterfaces(root, 7)?.map(({ name }) => name)).toEqual(['eth0']);
  expect(processInterfaces(root, 8)).toBeNull();
});

it('an older kernel has no full pressure of the CPU', () => {
  const { some, full } = parsePressure('some avg10=0.12 avg60=1.00 avg300=100.00 total=18446744073709551615');
  expect(some).toEqual({ avg10: 0.12, avg60: 1, avg300: 100, total: 18_446_744_073_709_551_615n });
  expect(full.total).toBe(0n);
});

it('a rate needs two readings, keeps through a short window, and ends with the counter', () => {
  const rates = new Rates();
  expect(rates.note('a', 0, 0n)).toBeNull();
  expect(rates.note('a', 2_000, 1_000_000_000n)).toBe(500_000_000n);
  expect(rates.note('a', 2_100, 9_000_000_000n)).toBe(500_000_000n);
  expect(rates.note('a', 4_000, 3_000_000_000n)).toBe(1_000_000_000n);
  expect(rates.note('a', 6_000, 1n)).toBeNull();
  expect(rates.needsReading('a', 6_000)).toBe(true);
  rates.prune(10_000_000);
  expect(rates.note('a', 10_000_001, 5n)).toBeNull();
});

it('a reading of long ago, or of a clock that was set back, is no earlier one', () => {
  const rates = new Rates();
  const hourMs = 3_600_000;
  rates.note('a', hourMs, 0n);
  expect(rates.note('a', hourMs + 2_000, 1_000_000_000n)).toBe(500_000_000n);
  expect([hourMs + 2_000, hourMs + 302_001, 0].map((now) => rates.needsReading('a', now))).toEqual([false, true, true]);
  expect(rates.note('a', 0, 2_000_000_000n)).toBeNull();
  expect(rates.note('a', 2_000, 4_000_000_000n)).toBe(1_000_000_000n);
  rates.note('future', hourMs, 0n);
  rates.prune(4_000);
  expect(rates.note('future', hourMs + 2_000, 9n)).toBeNull();
});
