/** The volumes of recorded pods, set up on this disk and compared with those of the Go kubelet, entry by entry. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { configObject } from '../../../src/actors/host/manifests/config-object.ts';
import type { Pod } from '../../../src/machines/model/api/pod.ts';
import { type ConfigObjects, objectKey } from '../../../src/machines/model/objects/config-objects.ts';
import { withDefaults } from '../../../src/machines/model/pods/defaults.ts';
import { volumePlan } from '../../../src/machines/model/volumes/plan.ts';
import { node } from '../../machines/model/spec/recordings.ts';
import { needsMounts, treeOf, VolumeRoom } from './support.ts';

const CASES = join(import.meta.dirname, '../../golden/pods/cases');

// oxlint-disable-next-line typescript/no-explicit-any -- the recordings, not the types, define these
type Recorded = any;

interface Case {
  readonly name: string;
  readonly objects: readonly Recorded[];
  readonly patches: readonly { readonly patch: string; readonly body: Recorded }[];
  readonly trees: readonly Record<string, unknown>[];
  readonly failures: readonly string[];
}

const read = (name: string, file: string): string => readFileSync(join(CASES, name, file), 'utf8');

function load(name: string): Case {
  const steps: readonly Recorded[] = JSON.parse(read(name, 'steps.json'));
  const files = readdirSync(join(CASES, name));
  const events = read(name, 'api.ndjson')
    .split('\n')
    .filter((line) => line !== '')
    .map((line): Recorded => JSON.parse(line));
  return {
    name,
    objects: parseAllDocuments(read(name, 'objects.yaml')).map((each): Recorded => each.toJSON()),
    patches: steps.filter(({ patch }) => patch !== undefined),
    trees: files.includes('extra.json') ? JSON.parse(read(name, 'extra.json')).volumes : [],
    failures: events.filter(({ body }) => body?.reason === 'FailedMount').map(({ body }) => body.message),
  };
}

const cases = readdirSync(CASES)
  .filter((name) => name.startsWith('vol-'))
  .map(load);

function podOf({ objects }: Case): Pod {
  const { metadata, spec } = objects.find(({ kind }) => kind === 'Pod');
  const annotations = {
    ...metadata.annotations,
    'kubernetes.io/config.seen': '<time>',
    'kubernetes.io/config.source': 'api',
  };
  return { metadata: { ...metadata, uid: 'u1', annotations }, spec: withDefaults(spec) };
}

function objectsOf({ objects }: Case, room: VolumeRoom): ConfigObjects {
  const held = objects.filter(({ kind }) => kind === 'ConfigMap' || kind === 'Secret');
  const read = held.map((each) => configObject(each, each.kind, room.vault));
  return Object.fromEntries(read.map((each) => [objectKey(each.kind, each.namespace, each.name), each]));
}

async function setUp(recording: Case, room: VolumeRoom) {
  const settings = { ...node, rootDir: room.root };
  const plan = volumePlan({ pod: podOf(recording), node: settings, objects: objectsOf(recording, room) });
  const { failed } = await room.ask('volume.setUp', { volumes: plan.setUps });
  return [...plan.failures, ...failed];
}

/** A merge patch: all that the recorded ones need. */
function merged(before: Recorded, change: Recorded): Recorded {
  if (typeof change !== 'object' || change === null) return change;
  return Object.fromEntries(
    [...new Set([...Object.keys(before ?? {}), ...Object.keys(change)])].map((key) => [
      key,
      key in change ? merged(before?.[key], change[key]) : before[key],
    ]),
  );
}

function patched(recording: Case): Case {
  return recording.patches.reduce(
    (before, { patch, body }) => ({
      ...before,
      objects: before.objects.map((each) =>
        patch === `${each.kind}/${each.metadata.name}` ? merged(each, body) : each,
      ),
    }),
    recording,
  );
}

/** A node without an API server has no tokens: this source is left out of the recording. */
function withoutTokens(recording: Case): Case {
  const objects: readonly Recorded[] = structuredClone(recording.objects);
  for (const { projected } of objects.find(({ kind }) => kind === 'Pod').spec.volumes) {
    if (projected) projected.sources = projected.sources.filter((source: object) => !('serviceAccountToken' in source));
  }
  const trees = recording.trees.map((tree) =>
    Object.fromEntries(Object.entries(tree).filter(([path]) => !path.endsWith('/token'))),
  );
  return { ...recording, objects, trees };
}

/** If the recording has `<time>` for a time, its size is that of another text. */
const comparable = (tree: Record<string, Recorded>) =>
  Object.fromEntries(
    Object.entries(tree).map(([path, { size, ...entry }]) => [
      path,
      entry.text?.includes('<time>') === true || size === undefined ? entry : { ...entry, size },
    ]),
  );

describe.skipIf(needsMounts)('the tree of', () => {
  const withTrees = cases.filter(({ trees }) => trees.length > 0).map(withoutTokens);

  it('every recording is compared', () => {
    expect(withTrees.map(({ name }) => name)).toEqual([
      'vol-configmap-secret',
      'vol-configmap-update',
      'vol-downward-update',
      'vol-optional-missing',
      'vol-projected-downward',
    ]);
  });

  it.each(withTrees)('$name', async (recording) => {
    const room = new VolumeRoom();
    onTestFinished(() => room.close());
    for (const [at, tree] of recording.trees.entries()) {
      expect(await setUp(at === 0 ? recording : patched(recording), room)).toEqual([]);
      expect(comparable(treeOf(join(room.podDirectory, 'volumes')))).toEqual(comparable(tree));
    }
  });
});

describe('a volume that cannot be set up', () => {
  const failing = cases.filter(({ failures }) => failures.length > 0);

  it('every recording is compared', () => {
    expect(failing.map(({ name }) => name)).toEqual([
      'vol-hostpath-mismatch-blockdevice',
      'vol-hostpath-mismatch-directory',
      'vol-missing-key',
      'vol-missing-then-created',
    ]);
  });

  it.each(failing)('fails with the message of $name', async (recording) => {
    const room = new VolumeRoom();
    onTestFinished(() => room.close());
    const host = mkdtempSync(join(tmpdir(), 'statelet-host-path-'));
    onTestFinished(() => rmSync(host, { recursive: true, force: true }));
    writeFileSync(join(host, 'file2'), '');
    const objects = JSON.parse(JSON.stringify(recording.objects).replaceAll('${HOST}', host));
    const [failure] = await setUp({ ...recording, objects }, room);
    const message = `MountVolume.SetUp failed for volume "${failure?.name}" : ${failure?.message}`;
    expect(message.replaceAll(host, '${HOST}')).toBe(recording.failures[0]);
  });
});

it('every type of vol-hostpath is there or made', async () => {
  const room = new VolumeRoom();
  onTestFinished(() => room.close());
  const host = mkdtempSync(join(tmpdir(), 'statelet-host-path-'));
  const server = createServer().listen(join(host, 'sock'));
  onTestFinished(() => {
    server.close();
    rmSync(host, { recursive: true, force: true });
  });
  mkdirSync(join(host, 'dir'));
  writeFileSync(join(host, 'file'), '');
  const recording = cases.find(({ name }) => name === 'vol-hostpath');
  if (recording === undefined) throw new Error('no such recording');
  const objects = JSON.parse(JSON.stringify(recording.objects).replaceAll('${HOST}', host));
  expect(await setUp({ ...recording, objects }, room)).toEqual([]);
  expect(readdirSync(host).toSorted()).toEqual(['dir', 'file', 'new-dir', 'new-file', 'sock']);
});
