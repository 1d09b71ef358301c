import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { hostPorts } from '../../../src/actors/host/index.ts';
import { perform, temporaryFolder } from '../../support/host-ports.ts';

const ports = hostPorts();
const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

it('a file is read up to its limit', async () => {
  const path = join(await temporaryFolder(), 'f');
  expect(await perform(ports['host.readFile'], { path, maxBytes: 3 })).toEqual({ content: null });
  writeFileSync(path, 'abc');
  expect(await perform(ports['host.readFile'], { path, maxBytes: 3 })).toEqual({ content: 'abc' });
  await expect(perform(ports['host.readFile'], { path, maxBytes: 2 })).rejects.toMatchObject({ code: 'EFBIG' });
  await expect(perform(ports['host.readFile'], { path: '/dev/zero', maxBytes: 2 })).rejects.toThrow(
    'not a regular file',
  );
});

it('a file of the kernel, whose stated size is zero, is read to its end', async () => {
  const path = '/proc/kallsyms';
  const content = readFileSync(path, 'utf8');
  expect(content.length).toBeGreaterThan(10_000);
  expect(await perform(ports['host.readFile'], { path, maxBytes: 64 * 1_024 * 1_024 })).toEqual({ content });
  await expect(perform(ports['host.readFile'], { path, maxBytes: 9_000 })).rejects.toMatchObject({ code: 'EFBIG' });
});

it('files that can be read are told from those that cannot', async () => {
  const path = join(await temporaryFolder(), 'f');
  writeFileSync(path, 'secret');
  const paths = [path, join(path, 'none'), `${path}.none`];
  expect(await perform(ports['host.readable'], { paths })).toEqual({ readable: [true, false, false] });
});

it('new folders have exactly their mode; one that exists keeps its own', async () => {
  const folder = await temporaryFolder();
  mkdirSync(join(folder, 'closed'));
  chmodSync(join(folder, 'closed'), 0o700);
  const directories = [
    { path: join(folder, 'closed'), mode: 0o755 },
    { path: join(folder, 'a/b'), mode: 0o777 },
  ];
  await perform(ports['host.makeDirectories'], { directories });
  await perform(ports['host.makeDirectories'], { directories });
  expect([modeOf(join(folder, 'closed')), modeOf(join(folder, 'a')), modeOf(join(folder, 'a/b'))]).toEqual([
    '700',
    '777',
    '777',
  ]);
});

it('a file in the place of a folder is an error that names it', async () => {
  const path = join(await temporaryFolder(), 'f');
  writeFileSync(path, '');
  await expect(perform(ports['host.makeDirectories'], { directories: [{ path, mode: 0o755 }] })).rejects.toThrow(
    `mkdir ${path}: it exists and is not a directory`,
  );
});

it('a link is made, kept, turned, and never put over a file', async () => {
  const folder = await temporaryFolder();
  const path = join(folder, 'c.log');
  for (const target of ['/one', '/one', '/two']) {
    await perform(ports['host.symlink'], { path, target });
    expect(readlinkSync(path)).toBe(target);
  }
  expect(readdirSync(folder)).toEqual(['c.log']);
  writeFileSync(join(folder, 'file'), 'x');
  await expect(perform(ports['host.symlink'], { path: join(folder, 'file'), target: '/one' })).rejects.toThrow(
    'not a symbolic link',
  );
});

const STATE = {
  probes: { 'u/c': { id: 'c1', started: true, ready: false } },
  begun: { 'u/c': 3 },
  containers: { 'u/c': { restartCount: 3, backoffMs: 20_000, backoffUntilMs: 1_763_700_000_000 } },
};

it('soft state is kept for its owner alone', async () => {
  const folder = await temporaryFolder();
  const path = join(folder, 'sub', 'soft-state.json');
  expect(await perform(ports['host.loadSoftState'], { path })).toEqual({ containers: {}, probes: {} });
  await perform(ports['host.saveSoftState'], { path, state: STATE });
  expect(modeOf(path)).toBe('600');
  expect(await perform(ports['host.loadSoftState'], { path })).toEqual(STATE);
  expect(readdirSync(join(folder, 'sub'))).toEqual(['soft-state.json']);
});

it.each([
  ['half a file', '{"containers":{"a'],
  ['no object', '5'],
  ['no containers', '{}'],
  ['a count that is text', '{"containers":{"u/c":{"restartCount":"3","backoffMs":1,"backoffUntilMs":1}}}'],
  ['a readiness that is text', '{"containers":{},"probes":{"u/c":{"id":"c1","started":true,"ready":"yes"}}}'],
  ['a number that is text', '{"containers":{},"begun":{"u/c":"1"}}'],
  ['a table that is a number', '{"containers":{},"begun":1}'],
  ['nothing', ''],
])('soft state that is %s is moved aside and is no state', async (_title, content) => {
  const path = join(await temporaryFolder(), 'soft-state.json');
  writeFileSync(path, content);
  expect(await perform(ports['host.loadSoftState'], { path })).toEqual({ containers: {}, probes: {} });
  expect(existsSync(path)).toBe(false);
  expect(readFileSync(`${path}.damaged`, 'utf8')).toBe(content);
});

it('the kubelet finds what pods were granted, and its own files are read', async () => {
  const rootDir = await temporaryFolder();
  const path = join(rootDir, 'soft-state.json');
  const grants = { u: { demand: { requests: {}, ports: [] }, allocation: { c: { requests: { cpu: '1' } } } } };
  const state = { containers: {}, probes: {}, grants, resizes: { u: { c: {} } } };
  await perform(ports['host.saveSoftState'], { path, rootDir, state } as never);
  const files = ['allocated_pods_state', 'actuated_pods_state'].map((name) => join(rootDir, name));
  const dataOf = (file: string) => JSON.parse(JSON.parse(readFileSync(file, 'utf8')).data).entries.u.ContainerResources;
  expect(files.map(dataOf)).toEqual([{ c: { requests: { cpu: '1' } } }, { c: {} }]);
  writeFileSync(path, '{"containers":{}}');
  expect(await perform(ports['host.loadSoftState'], { path, rootDir })).toEqual({
    containers: {},
    probes: {},
    handedOver: { u: { c: { requests: { cpu: '1' } } } },
    resizes: { u: { c: {} } },
  });
  writeFileSync(files[0]!, 'damaged');
  expect(await perform(ports['host.loadSoftState'], { path, rootDir })).toEqual({
    containers: {},
    probes: {},
    unread: "invalid character 'd' looking for beginning of value",
  });
  rmSync(files[0]!);
  mkdirSync(files[0]!);
  expect(await perform(ports['host.loadSoftState'], { path, rootDir })).toEqual({
    containers: {},
    probes: {},
    unread: `${files[0]} is not a regular file`,
  });
});

it('saving replaces a link instead of following it', async () => {
  const folder = await temporaryFolder();
  const [path, victim] = [join(folder, 'soft-state.json'), join(folder, 'victim')];
  writeFileSync(victim, 'keep me');
  symlinkSync(victim, path);
  await perform(ports['host.saveSoftState'], { path, state: STATE });
  expect(readFileSync(victim, 'utf8')).toBe('keep me');
});
