/**
 * A manifest folder with every bad input that nodes have had, read by the real watch and merged by the real policy:
 * each affects only its own pod, with a message that names its file, and no good pod.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { manifestPort } from '../../../../src/actors/host/manifests/manifests.ts';
import { Vault } from '../../../../src/kernel/journal/secrets.ts';
import { mergeManifests } from '../../../../src/machines/model/pods/static-pod.ts';
import { openStream, temporaryFolder } from '../../../support/host-ports.ts';

const pod = (name: string, spec = '', metadata = '') =>
  `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\n${metadata}spec:\n${spec}  containers:\n  - name: c\n    image: busybox:1\n`;
const withContainer = (name: string, fields: string) => `${pod(name)}    ${fields}\n`;
const ALIAS_BOMB = [
  'a: &a [x,x,x,x,x,x,x,x,x]',
  ...['b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'].map(
    (name, at) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[at]}`).join(',')}]`,
  ),
].join('\n');

/** The file, its content, and a part of its message. */
const BAD: ReadonlyArray<readonly [file: string, content: string | Uint8Array, says: string]> = [
  ['01-empty.yaml', '', 'the file is empty'],
  ['02-half.yaml', pod('half').slice(0, 60), 'spec: must be a map, not text'],
  ['02-half-a-string.json', '{"apiVersion": "v1", "ki', 'at line 1'],
  ['03-large.yaml', new Uint8Array(10 * 1024 * 1024).fill(0x20), 'more than 1572864 bytes'],
  ['04-bomb.yaml', ALIAS_BOMB, 'Excessive alias count'],
  ['04-snake.yaml', 'a: &a [*a]', 'nested deeper than 100 levels'],
  ['05-documents.yaml', `${pod('one')}---\n${pod('two')}`, 'the file holds 2 documents'],
  [
    '06-service.yaml',
    'apiVersion: v1\nkind: Service\nmetadata: {name: a}\n',
    'kind "Service" of apiVersion "v1" is not a Pod of v1',
  ],
  ['06-text.yaml', 'hello', 'the document is not a map of fields'],
  ['08-slash.yaml', pod('a/b'), 'metadata.name: Invalid value: "a/b-node1"'],
  ['08-up.yaml', pod('"../../etc"'), 'metadata.name: Invalid value: "../../etc-node1"'],
  ['08-nul.yaml', pod('"a\\0b"'), String.raw`metadata.name: Invalid value: "a\x00b-node1"`],
  ['08-long.yaml', pod('a'.repeat(300)), 'must be no more than 253 characters'],
  ['09-same-name.yaml', pod('good'), 'is already defined by'],
  ['10-same-uid.yaml', pod('other', '', '  uid: taken\n'), 'uid "taken" is already defined by'],
  ['10-evil-uid.yaml', pod('evil', '', '  uid: ../../etc\n'), 'metadata.uid: Invalid value: "../../etc"'],
  ['16-utf16.yaml', Buffer.from(`\uFEFF${pod('wide')}`, 'utf16le'), 'the file is not UTF-8 text'],
  [
    '17-text.yaml',
    withContainer('text', 'ports: [{containerPort: "80"}]'),
    'containerPort: must be an integer, not text',
  ],
  [
    '17-huge.yaml',
    withContainer('huge', 'resources: {limits: {cpu: 1e400}}'),
    'resources.limits[cpu]: quantities must match',
  ],
  [
    '17-negative.yaml',
    withContainer('negative', 'resources: {limits: {memory: -1Gi}}'),
    'must be greater than or equal to 0',
  ],
  [
    '18-group.yaml',
    pod('group', '  securityContext: {fsGroup: 9007199254740993}\n'),
    'spec.securityContext.fsGroup: must be an integer between',
  ],
  ['20-label.yaml', pod('label', '', '  labels: {__proto__: x}\n'), 'metadata.labels: Invalid value: "__proto__"'],
];

/** Unusual, but valid. */
const GOOD: ReadonlyArray<readonly [file: string, content: string, name: string]> = [
  ['00-good.yaml', pod('good'), 'good-node1'],
  ['00-uid.yaml', pod('first', '', '  uid: taken\n'), 'first-node1'],
  ['07-twice.yaml', `${pod('twice')}kind: Pod\n`, 'twice-node1'],
  ['16-bom-crlf.yaml', `\uFEFF${pod('crlf').replaceAll('\n', '\r\n')}`, 'crlf-node1'],
  ['17-tiny.yaml', withContainer('tiny', 'resources: {limits: {cpu: 0.1m}}'), 'tiny-node1'],
  [
    '19-variables.yaml',
    withContainer('variables', 'env: [{name: A, value: "$(B)$$(C)"}, {name: B, value: $(A)}]'),
    'variables-node1',
  ],
  [
    '20-keys.yaml',
    withContainer('keys', 'env: [{name: __proto__, value: x}, {name: toString, value: z}]'),
    'keys-node1',
  ],
];

it('every bad file has its message, and every good pod is there', async () => {
  const folder = join(await temporaryFolder(), 'manifests');
  mkdirSync(folder);
  for (const [file, content] of [...BAD, ...GOOD]) {
    writeFileSync(join(folder, file), content);
    utimesSync(join(folder, file), 1, 1);
  }
  execFileSync('mkfifo', [join(folder, '11-fifo.yaml')]);
  mkdirSync(join(folder, '11-folder.yaml'));
  symlinkSync('/dev/zero', join(folder, '11-device.yaml'));
  symlinkSync('/nowhere', join(folder, '11-dangling.yaml'));
  const server = createServer().listen(join(folder, '11-socket.yaml'));
  onTestFinished(() => void server.close());
  await new Promise((resolve) => server.once('listening', resolve));
  writeFileSync(join(folder, '.12-hidden.yaml'), pod('hidden'));
  writeFileSync(join(folder, '12-backup.yaml~'), pod('backup'));

  const stream = openStream(manifestPort(new Vault(Buffer.alloc(32))), {
    path: folder,
    nodeName: 'node1',
    periodMs: 600_000,
  });
  const found = await stream.until(() => true);
  const merged = mergeManifests(found.manifests, 'node1');

  expect(merged.pods.map(({ metadata }) => metadata.name)).toEqual(GOOD.map(([, , name]) => name));
  const messages = new Map([...found.errors, ...merged.errors].map(({ file, message }) => [file, message]));
  for (const [file, , says] of BAD) {
    const path = join(folder, file);
    expect(messages.get(path), file).toContain(says);
    expect(messages.get(path), file).toContain(path);
  }
  expect(messages.get(join(folder, '07-twice.yaml'))).toContain('Map keys must be unique at line 9');
  const odd = [
    '07-twice.yaml',
    '11-dangling.yaml',
    '11-device.yaml',
    '11-fifo.yaml',
    '11-folder.yaml',
    '11-socket.yaml',
  ];
  expect([...messages.keys()].sort()).toEqual(
    [...BAD.map(([file]) => file), ...odd].map((file) => join(folder, file)).sort(),
  );
});
