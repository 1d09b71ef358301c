/** The manifest folder as users change it: real files, real inotify, the port as the kernel calls it. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync, rmSync, statSync, symlinkSync, unlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, it, onTestFinished, vi } from 'vitest';
import { parse } from 'yaml';
import { manifestPort } from '../../../../src/actors/host/manifests/manifests.ts';
import { Vault } from '../../../../src/kernel/journal/secrets.ts';
import { openStream, temporaryFolder } from '../../../support/host-ports.ts';

/** Longer than every wait of a test: what a test sees came from inotify, unless it says otherwise. */
const NEVER_MS = 600_000;
/** Milliseconds that no user perceives as a delay. */
const AT_ONCE_MS = 50;

const pod = (name: string, image = 'busybox') =>
  `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\nspec:\n  containers:\n  - name: c\n    image: ${image}\n`;

/** Writes beside the folder and renames into it, as careful tools do. */
function put(folder: string, name: string, content: string | Uint8Array): string {
  const file = join(folder, name);
  const draft = `${folder}.draft`;
  writeFileSync(draft, content);
  renameSync(draft, file);
  return file;
}

/** Writes a file whose last change is long ago, so that it counts as finished. */
function putOld(folder: string, name: string, content: string | Uint8Array): string {
  writeFileSync(`${folder}.draft`, content);
  utimesSync(`${folder}.draft`, 1, 1);
  renameSync(`${folder}.draft`, join(folder, name));
  return join(folder, name);
}

async function manifestFolder(): Promise<string> {
  const folder = join(await temporaryFolder(), 'manifests');
  mkdirSync(folder);
  return folder;
}

const follow = (path: string, periodMs = NEVER_MS) =>
  openStream(manifestPort(new Vault(Buffer.alloc(32))), { path, nodeName: 'node1', periodMs });
type Stream = ReturnType<typeof follow>;
type Item = Stream['items'][number];
const names = (item: Item | undefined) => item?.manifests.map(({ file }) => file.split('/').at(-1));
const errorOf = (item: Item, file: string) => item.errors.find((error) => error.file === file)?.message;
const reports = (file: string, text: string) => (item: Item) => errorOf(item, file)?.includes(text) ?? false;

it('says at once what is there, in the order of names', async () => {
  const folder = await manifestFolder();
  put(folder, 'b.yaml', pod('b'));
  put(folder, 'a.json', JSON.stringify(parse(pod('a'))));
  const stream = follow(folder);
  const first = await stream.until(() => true);
  expect(names(first)).toEqual(['a.json', 'b.yaml']);
  expect(first.errors).toEqual([]);
  expect(first.manifests[0]).toMatchObject({ file: join(folder, 'a.json'), value: { metadata: { name: 'a' } } });
  expect(first.manifests[0]?.uid).toMatch(/^[0-9a-f]{32}$/);
});

it('an empty folder is said too: the source has been seen', async () => {
  const stream = follow(await manifestFolder());
  expect(await stream.until(() => true)).toEqual({ type: 'manifests.changed', manifests: [], objects: [], errors: [] });
});

it('a file renamed into the folder is there at once, not with the next period', async () => {
  const folder = await manifestFolder();
  const stream = follow(folder);
  await stream.until(() => true);
  const tookMs: number[] = [];
  for (let round = 0; round < 100 && !tookMs.some((ms) => ms < AT_ONCE_MS); round++) {
    const startedAt = performance.now();
    put(folder, `${round}.yaml`, pod(`p${round}`));
    await stream.until((item) => item.manifests.length === round + 1);
    tookMs.push(performance.now() - startedAt);
  }
  // The fastest round is the agent's own time; the other rounds share the processors with all other tests.
  expect(Math.min(...tookMs), `of ${tookMs.map((ms) => ms.toFixed(1)).join(' ')} ms`).toBeLessThan(AT_ONCE_MS);
});

it('a change of content makes another uid; touching a file, or other spacing, changes nothing', async () => {
  const folder = await manifestFolder();
  const file = put(folder, 'a.yaml', pod('a'));
  const stream = follow(folder, 50);
  const first = await stream.until(() => true);
  utimesSync(file, 5, 5);
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(stream.items).toHaveLength(1);
  put(folder, 'a.yaml', pod('a', 'busybox:2'));
  const second = await stream.until((item) => item !== first);
  expect(second.manifests[0]?.uid).not.toBe(first.manifests[0]?.uid);
  put(folder, 'a.yaml', `# a comment\n${pod('a')}`);
  const third = await stream.until((item) => item !== first && item !== second);
  expect(third.manifests[0]?.uid).toBe(first.manifests[0]?.uid);
});

it("the author's own uid is kept", async () => {
  const folder = await manifestFolder();
  put(folder, 'a.yaml', pod('a').replace('spec:', '  uid: my-uid\nspec:'));
  expect((await follow(folder).until(() => true)).manifests[0]?.uid).toBe('my-uid');
});

it('the path may be one file, replaced and removed', async () => {
  const folder = await manifestFolder();
  const file = put(folder, 'only.yaml', pod('a'));
  put(folder, 'other.yaml', pod('b'));
  const stream = follow(file);
  const first = await stream.until(() => true);
  expect(names(first)).toEqual(['only.yaml']);
  put(folder, 'only.yaml', pod('a2'));
  await stream.until((item) => item !== first && item.manifests.length === 1);
  unlinkSync(file);
  const last = await stream.until((item) => item.manifests.length === 0);
  expect(last.errors).toEqual([{ file, message: 'path does not exist, ignoring' }]);
});

it('a path that is neither is named, and says nothing of the pods', async () => {
  const found = await follow('/dev/null').until(() => true);
  const why = 'path is not a directory or file; the pods read before keep running';
  expect(found.errors).toEqual([{ file: '/dev/null', message: `Unable to read config path "/dev/null": ${why}` }]);
  expect(found.isUnread).toBe(true);
});

it('when the folder cannot be listed, the pods keep running', async () => {
  const folder = await manifestFolder();
  put(folder, 'a.yaml', pod('a'));
  const stream = follow(folder, 20);
  await stream.until(() => true);
  renameSync(folder, `${folder}.away`);
  symlinkSync(folder, folder);
  const found = await stream.until(reports(folder, 'ELOOP'));
  expect(names(found)).toEqual(['a.yaml']);
  expect(found.isUnread).toBeUndefined();
});

it('a folder that could not be listed yet is no empty folder', async () => {
  const folder = await manifestFolder();
  put(folder, 'a.yaml', pod('a'));
  renameSync(folder, `${folder}.away`);
  symlinkSync(folder, folder);
  const stream = follow(folder, 20);
  expect(await stream.until(reports(folder, 'ELOOP'))).toMatchObject({ manifests: [], isUnread: true });
  unlinkSync(folder);
  renameSync(`${folder}.away`, folder);
  const found = await stream.until((item) => item.manifests.length === 1);
  expect(found.isUnread).toBeUndefined();
  expect(found.errors).toEqual([]);
});

it('one file that is broken at the start says nothing of the pods until its content is good', async () => {
  const folder = await manifestFolder();
  const file = putOld(folder, 'only.yaml', 'kind: Pod\nspec: [');
  const stream = follow(file);
  const first = await stream.until(() => true);
  expect(first).toMatchObject({ manifests: [], isUnread: true, errors: [{ file }] });
  put(folder, 'only.yaml', pod('a'));
  const good = await stream.until((item) => item.manifests.length === 1);
  expect(good.isUnread).toBeUndefined();
  put(folder, 'only.yaml', 'kind: Pod\nspec: [');
  const broken = await stream.until((item) => item !== first && item.errors.length > 0);
  expect(names(broken)).toEqual(['only.yaml']);
  expect(broken.isUnread).toBeUndefined();
});

it('one file that is not there is a source without pods, and is seen when it comes', async () => {
  const file = join(await manifestFolder(), 'later.yaml');
  const stream = follow(file);
  expect((await stream.until(() => true)).isUnread).toBeUndefined();
  writeFileSync(file, pod('a'));
  expect(names(await stream.until((item) => item.manifests.length === 1))).toEqual(['later.yaml']);
});

it('nothing is said after the abort, and the port ends', async () => {
  const folder = await manifestFolder();
  const stream = follow(folder);
  await stream.until(() => true);
  await stream.close();
  put(folder, 'a.yaml', pod('a'));
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(stream.items).toHaveLength(1);
});

/** Bad inputs, each beside a good file that must not be affected. */
it.each<[string, string | Uint8Array, string]>([
  ['1 an empty file', '', 'the file is empty'],
  ['1 a file of comments', '# nothing\n', 'the file is empty'],
  ['2 a half-written file', pod('x').slice(0, -30).concat('"'), 'at line 6'],
  ['3 a file of 10 MB', new Uint8Array(10 * 1024 * 1024).fill(97), 'more than 1572864 bytes'],
  [
    '4 an alias bomb',
    `a: &a [x,x,x,x,x,x]\n${'bcdefghij'.replace(/./g, (c) => {
      const before = String.fromCharCode(c.charCodeAt(0) - 1);
      return `${c}: &${c} [*${before},*${before},*${before},*${before},*${before}]\n`;
    })}`,
    'Excessive alias count',
  ],
  ['5 many documents', `${pod('x')}---\n${pod('y')}`, 'the file holds 2 documents'],
  ['16 UTF-16', Buffer.from(`\uFEFF${pod('x')}`, 'utf16le'), 'not UTF-8'],
  ['16 Latin-1', Buffer.from(`${pod('x')}# caf\xe9`, 'latin1'), 'not UTF-8'],
  ['8 NUL', pod('a\0b'), 'control characters are not allowed: U+0000 at line 4'],
])('%s gives a message with its name', async (_title, content, message) => {
  const folder = await manifestFolder();
  put(folder, 'good.yaml', pod('good'));
  const bad = putOld(folder, 'bad.yaml', content);
  const stream = follow(folder);
  const found = await stream.until(reports(bad, message));
  expect(names(found)).toEqual(['good.yaml']);
  expect(errorOf(found, bad)).toContain(`Can't process manifest file "${bad}"`);
});

it('7 of duplicate keys the last one counts, and the file is told of', async () => {
  const folder = await manifestFolder();
  const file = putOld(folder, 'twice.yaml', `${pod('x')}    image: other\n`);
  const found = await follow(folder).until(() => true);
  expect(found.manifests).toMatchObject([{ value: { spec: { containers: [{ image: 'other' }] } } }]);
  expect(found.errors).toEqual([
    { file, message: `Manifest file "${file}": Map keys must be unique at line 9, column 5; the last one counts` },
  ]);
});

it('2 a good file that is rewritten in place keeps its pod while it is half written, and says nothing', async () => {
  const folder = await manifestFolder();
  const file = put(folder, 'a.yaml', pod('a'));
  const stream = follow(folder);
  await stream.until(() => true);
  const whole = pod('a', 'busybox:2');
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  for (let end = 0; end < whole.length - 12; end += 5) {
    // For the agent no time passes between two writes, however long this machine takes.
    vi.setSystemTime(vi.getRealSystemTime() + 50);
    writeFileSync(file, whole.slice(0, end));
    vi.setSystemTime(statSync(file).mtimeMs + 1);
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
  vi.useRealTimers();
  writeFileSync(file, whole);
  const second = await stream.until((item) => JSON.stringify(item).includes('busybox:2'));
  expect(stream.items).toHaveLength(2);
  expect(second.errors).toEqual([]);
});

it('2 a good file that stays broken keeps its pod and is told; removing it stops the pod', async () => {
  const folder = await manifestFolder();
  const file = put(folder, 'a.yaml', pod('a'));
  const stream = follow(folder);
  const first = await stream.until(() => true);
  put(folder, 'a.yaml', 'kind: "Pod');
  const broken = await stream.until(reports(file, 'Missing closing "quote'));
  expect(errorOf(broken, file)).toContain('keeps running until the file is removed');
  expect(broken.manifests).toEqual(first.manifests);
  unlinkSync(file);
  const last = await stream.until((item) => item.manifests.length === 0);
  expect(last.errors).toEqual([]);
});

it('a good file whose pod is refused after an edit keeps its pod and is told', async () => {
  const folder = await manifestFolder();
  const file = put(folder, 'a.yaml', pod('a'));
  const stream = follow(folder);
  const first = await stream.until(() => true);
  put(folder, 'a.yaml', pod('a').replace('image:', 'imgae:'));
  const refused = await stream.until(reports(file, 'invalid pod: spec.containers[0].image: Required value'));
  expect(errorOf(refused, file)).toContain('keeps running until the file is removed');
  expect(refused.manifests).toEqual(first.manifests);
  put(folder, 'a.yaml', pod('a', 'busybox:2'));
  const last = await stream.until((item) => item.errors.length === 0 && item !== first);
  expect(last.manifests[0]?.uid).not.toBe(first.manifests[0]?.uid);
});

it('11 FIFO, socket, folder, device and dangling links are named and not opened; links to files count', async () => {
  const folder = await manifestFolder();
  put(folder, 'good.yaml', pod('good'));
  const outside = `${folder}-outside.yaml`;
  writeFileSync(outside, pod('linked'));
  execFileSync('mkfifo', [join(folder, 'fifo.yaml')]);
  mkdirSync(join(folder, 'folder.yaml'));
  symlinkSync('/dev/zero', join(folder, 'device.yaml'));
  symlinkSync('/nowhere', join(folder, 'dangling.yaml'));
  symlinkSync(outside, join(folder, 'link.yaml'));
  symlinkSync('loop.yaml', join(folder, 'loop.yaml'));
  const server = createServer().listen(join(folder, 'socket.yaml'));
  onTestFinished(() => void server.close());
  await new Promise((resolve) => server.once('listening', resolve));
  const found = await follow(folder).until(() => true);
  expect(names(found)).toEqual(['good.yaml', 'link.yaml']);
  const messages = Object.fromEntries(found.errors.map(({ file, message }) => [file.split('/').at(-1), message]));
  expect(messages).toEqual({
    'dangling.yaml': `Can't get metadata for "${folder}/dangling.yaml": it is a link to nothing`,
    'device.yaml': `Manifest path "${folder}/device.yaml" is not a directory or file: a device`,
    'fifo.yaml': `Manifest path "${folder}/fifo.yaml" is not a directory or file: a named pipe`,
    'folder.yaml': `Not recursing into manifest path "${folder}/folder.yaml"`,
    'loop.yaml': expect.stringContaining('ELOOP'),
    'socket.yaml': `Manifest path "${folder}/socket.yaml" is not a directory or file: a socket`,
  });
});

it('12 dot files and backups of editors are not manifests', async () => {
  const folder = await manifestFolder();
  put(folder, '.a.yaml.swp', 'garbage: [');
  put(folder, 'a.yaml~', pod('a'));
  put(folder, 'a.yaml', pod('a'));
  expect(names(await follow(folder).until(() => true))).toEqual(['a.yaml']);
});

it('13 files that vanish while they are read are only gone', async () => {
  const folder = await manifestFolder();
  for (let at = 0; at < 300; at++) writeFileSync(join(folder, `${at}.yaml`), pod(`p${at}`));
  const stream = follow(folder);
  for (let at = 0; at < 300; at++) {
    unlinkSync(join(folder, `${at}.yaml`));
    if (at % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await stream.until((item) => item.manifests.length === 0);
  expect(stream.items.flatMap(({ errors }) => errors)).toEqual([]);
});

it('14 20,000 files at once: the first 2,000 are read, the rest is told, and a later file is seen', async () => {
  const folder = await manifestFolder();
  const stream = follow(folder);
  await stream.until(() => true);
  for (let at = 0; at < 20_000; at++) writeFileSync(join(folder, `p${String(at).padStart(5, '0')}.yaml`), pod('p'));
  const isWhole = reports(folder, 'the folder has 20000 files');
  const found = await stream.until((item) => isWhole(item) && item.manifests.length === 2_000, 20_000);
  expect(errorOf(found, folder)).toContain('ignoring 18000 from "p02000.yaml" on');
  put(folder, 'a.yaml', pod('a'));
  await stream.until((item) => names(item)?.[0] === 'a.yaml', 20_000);
});

it('the first set is complete; of many new files the first are told while the others are read', async () => {
  const folder = await manifestFolder();
  const several = (count: number, of: string) => {
    for (let at = 0; at < count; at++) put(folder, `${of}${String(at).padStart(2, '0')}.yaml`, pod(`${of}${at}`));
  };
  several(20, 'b');
  const stream = follow(folder);
  const first = await stream.until(() => true);
  expect(first.manifests).toHaveLength(20);
  several(40, 'c');
  several(40, 'a');
  await stream.until((item) => item.manifests.length === 100);
  const counts = stream.items.map(({ manifests }) => manifests.length);
  expect(counts, 'no pod leaves meanwhile').toEqual(counts.toSorted((a, b) => a - b));
  expect(counts.length, `said: ${counts.join(', ')}`).toBeGreaterThan(2);
  for (const item of stream.items) expect(names(item)).toEqual(names(item)?.toSorted());
});

it('a pod that names a ConfigMap is told together with it, however many files there are', async () => {
  const folder = await manifestFolder();
  const stream = follow(folder);
  await stream.until(() => true);
  const volume = '  volumes:\n  - name: v\n    configMap:\n      name: z\n';
  put(folder, 'a.yaml', pod('a') + volume);
  for (let at = 10; at < 50; at++) put(folder, `b${at}.yaml`, pod(`b${at}`));
  put(folder, 'z.yaml', 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: z\ndata:\n  k: v\n');
  const whole = await stream.until((item) => item.manifests.length === 41);
  expect(names(whole)?.[0]).toBe('a.yaml');
  const withPod = stream.items.filter((item) => names(item)?.includes('a.yaml'));
  for (const { objects } of withPod) expect(objects.map(({ name }) => name)).toEqual(['z']);
});

it('a file of long ago that changes without another size or time of its own is read again', async () => {
  const folder = await manifestFolder();
  const file = put(folder, 'a.yaml', pod('a', 'busybox:1'));
  utimesSync(file, 5, 5);
  const stream = follow(folder, 20);
  await stream.until(({ manifests }) => JSON.stringify(manifests).includes('busybox:1'));
  await new Promise((resolve) => setTimeout(resolve, 300));
  const { size } = statSync(file);
  writeFileSync(file, pod('a', 'busybox:2'));
  utimesSync(file, 5, 5);
  expect(statSync(file)).toMatchObject({ size, mtimeMs: 5_000 });
  await stream.until(({ manifests }) => JSON.stringify(manifests).includes('busybox:2'));
});

it('15 a folder that is removed and made again is followed again', async () => {
  const folder = await manifestFolder();
  put(folder, 'a.yaml', pod('a'));
  const stream = follow(folder);
  await stream.until(() => true);
  rmSync(folder, { recursive: true });
  await stream.until((item) => item.errors[0]?.message === 'path does not exist, ignoring');
  mkdirSync(folder);
  await stream.until((item) => item.manifests.length === 0 && item.errors.length === 0);
  put(folder, 'b.yaml', pod('b'));
  await stream.until((item) => names(item)?.[0] === 'b.yaml');
});

it('15 a folder exchanged for another one is followed by its name', async () => {
  const folder = await manifestFolder();
  const stream = follow(folder);
  await stream.until(() => true);
  mkdirSync(`${folder}.new`);
  writeFileSync(join(`${folder}.new`, 'a.yaml'), pod('a'));
  renameSync(folder, `${folder}.old`);
  renameSync(`${folder}.new`, folder);
  await stream.until((item) => names(item)?.[0] === 'a.yaml');
  put(folder, 'b.yaml', pod('b'));
  await stream.until((item) => item.manifests.length === 2);
});

it('16 a byte order mark and CRLF are nothing special', async () => {
  const folder = await manifestFolder();
  put(folder, 'a.yaml', `\uFEFF${pod('a').replaceAll('\n', '\r\n')}`);
  const found = await follow(folder).until(() => true);
  expect(found.errors).toEqual([]);
  expect(found.manifests[0]?.value).toMatchObject({ metadata: { name: 'a' } });
});

it('a file that goes and comes back at once is said to have gone; one that is replaced by the same is not', async () => {
  const folder = await manifestFolder();
  putOld(folder, 'other.yaml', pod('other'));
  const file = putOld(folder, 'a.yaml', pod('a'));
  const stream = follow(folder);
  await stream.until((item) => item.manifests.length === 2);
  putOld(folder, 'a.yaml', pod('a'));
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(stream.items).toHaveLength(1);
  unlinkSync(file);
  writeFileSync(file, pod('a'));
  await expect.poll(() => stream.items.length).toBeGreaterThanOrEqual(3);
  expect(stream.items.map(names)).toEqual([['a.yaml', 'other.yaml'], ['other.yaml'], ['a.yaml', 'other.yaml']]);
});
