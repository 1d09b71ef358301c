/**
 * The configuration sources of this node: which pods they want, told as differences.
 *
 * Decides: what was added, changed, is being deleted, was removed.
 * Owns: by pod and object the version that was last told, and the manifest errors that are known. Never a pod.
 * Hears: `manifests.changed` of the stream; `config.wanted` from `syncLoop` when somebody lost what was told.
 * Asks: `host.watchManifests`. Tells `syncLoop` `config.objects`, `config.pods` and
 *   `config.sourceReady`.
 * Invariants:
 *   C1 within one change removals are told first, so that a pod whose file was rewritten leaves before it comes.
 *   C2 a manifest's error is said once, and once more when it is gone.
 *   C3 the source is ready when its first complete list is in, even when that list is empty.
 */
import { line, type PlainError, pick, sendTo, setup, to } from '../../kernel/xstate.ts';
import type { Pod } from '../api/pod.ts';
import type { NodeSettings } from '../node-settings.ts';
import { hostOperations, type Manifest, type ManifestError } from '../operations/host.ts';
import type { ConfigObject } from '../operations/volume.ts';
import type { ConfigMessage, ConfigWanted, ObjectsTold, PodRef, SourceReady } from './messages.ts';
import { mergeManifests } from './static-pod.ts';
import { objectKey } from './volumes/objects.ts';

/** Before the watch of the manifests is opened again after it broke. */
const REOPEN_MS = 1_000;
const SOURCE = 'file';

export type PodConfigInput = Pick<NodeSettings, 'nodeName' | 'staticPodPath' | 'fileCheckFrequencyMs'>;

interface Told extends PodRef {
  readonly hash: string;
  readonly deleting: boolean;
}

interface Context {
  readonly nodeName: string;
  readonly path: string;
  readonly periodMs: number;
  /** By uid, what was last told of a pod. */
  readonly told: Readonly<Record<string, Told>>;
  /** By key, the version that was last told of a ConfigMap or Secret; `null` before anything was told. */
  readonly versions: Readonly<Record<string, string>> | null;
  /** By file, the error that was last said. */
  readonly errors: Readonly<Record<string, string>>;
}

type Event =
  | {
      type: 'manifests.changed';
      manifests: readonly Manifest[];
      objects: readonly ConfigObject[];
      errors: readonly ManifestError[];
    }
  | ConfigWanted;

const s = setup({
  types: { input: {} as PodConfigInput, context: {} as Context, events: {} as Event },
  actors: pick(hostOperations, 'host.watchManifests'),
});

const takeManifests = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'manifests.changed') return;
  const { pods, errors } = mergeManifests(event.manifests, context.nodeName);
  const known = errorsByFile([...event.errors, ...errors]);
  for (const [level, text, fields] of errorLines(context.errors, known)) enqueue(line(level, [text, fields]));
  const told = Object.fromEntries(pods.map((pod) => [pod.metadata.uid, tellable(pod)]));
  const versions = tellObjects(enqueue, context.versions, event.objects);
  for (const message of differences(context.told, pods)) enqueue.sendTo(to('syncLoop'), message);
  const ready: SourceReady = { type: 'config.sourceReady', source: SOURCE, uids: Object.keys(told) };
  enqueue.sendTo(to('syncLoop'), ready);
  enqueue.assign({ told, versions, errors: known });
});

type Enqueue = Parameters<Parameters<typeof s.enqueueActions>[0]>[0]['enqueue'];

/** Pods find their objects when they come. */
function tellObjects(enqueue: Enqueue, told: Context['versions'], objects: readonly ConfigObject[]) {
  const byKey = Object.fromEntries(objects.map((each) => [objectKey(each.kind, each.namespace, each.name), each]));
  const versions = Object.fromEntries(Object.entries(byKey).map(([key, { version }]) => [key, version]));
  if (JSON.stringify(told ?? {}) !== JSON.stringify(versions)) {
    const message: ObjectsTold = { type: 'config.objects', objects: byKey };
    enqueue.sendTo(to('syncLoop'), message);
  }
  return versions;
}

/** Forgets what was told, so that the stream's next list tells it again. */
const forget = s.assign({
  versions: ({ context, event }) => (event.type === 'config.wanted' && event.uids === null ? null : context.versions),
  told: ({ context, event }) => {
    if (event.type !== 'config.wanted' || event.uids === null) return {};
    const { uids } = event;
    return Object.fromEntries(Object.entries(context.told).filter(([uid]) => !uids.includes(uid)));
  },
});

export const podConfigMachine = s.createMachine({
  id: 'podConfig',
  context: ({ input }) => ({
    nodeName: input.nodeName,
    path: input.staticPodPath,
    periodMs: input.fileCheckFrequencyMs,
    told: {},
    versions: null,
    errors: {},
  }),
  initial: 'choosing',
  on: { 'config.wanted': { target: '.choosing', actions: forget } },
  states: {
    choosing: { always: [{ guard: ({ context }) => context.path === '', target: 'empty' }, { target: 'watching' }] },
    /** No `staticPodPath`: the source is ready and has nothing. */
    empty: {
      entry: sendTo(to('syncLoop'), { type: 'config.sourceReady', source: SOURCE, uids: [] } satisfies SourceReady),
    },
    watching: {
      invoke: {
        id: 'watch',
        src: 'host.watchManifests',
        input: ({ context }) => ({ path: context.path, nodeName: context.nodeName, periodMs: context.periodMs }),
        onDone: 'reopening',
        onError: {
          target: 'reopening',
          actions: line('error', ({ context, event }) => [
            'Unable to read config path',
            { path: context.path, error: (event.error as PlainError).message },
          ]),
        },
      },
      on: { 'manifests.changed': { actions: takeManifests } },
    },
    reopening: { after: { [REOPEN_MS]: 'watching' } },
  },
});

// ---- differences ----------------------------------------------------------------------------------------------------

const tellable = (pod: Pod): Told => ({
  uid: pod.metadata.uid,
  namespace: pod.metadata.namespace,
  name: pod.metadata.name,
  hash: pod.metadata.annotations?.['kubernetes.io/config.hash'] ?? pod.metadata.uid,
  deleting: pod.metadata.deletionTimestamp !== undefined,
});

function differences(told: Context['told'], pods: readonly Pod[]): ConfigMessage[] {
  const wanted = new Set(pods.map((pod) => pod.metadata.uid));
  const removed = Object.values(told)
    .filter(({ uid }) => !wanted.has(uid))
    .map(({ uid, namespace, name }) => ({ uid, namespace, name }));
  const added = pods.filter((pod) => !told[pod.metadata.uid]);
  const deleting = pods.filter((pod) => told[pod.metadata.uid]?.deleting === false && tellable(pod).deleting);
  const updated = pods.filter((pod) => {
    const before = told[pod.metadata.uid];
    return before && before.hash !== tellable(pod).hash && !deleting.includes(pod);
  });
  const messages: ConfigMessage[] = [
    { type: 'config.pods', op: 'REMOVE', source: SOURCE, pods: removed },
    { type: 'config.pods', op: 'ADD', source: SOURCE, pods: added },
    { type: 'config.pods', op: 'UPDATE', source: SOURCE, pods: updated },
    { type: 'config.pods', op: 'DELETE', source: SOURCE, pods: deleting },
  ];
  return messages.filter((message) => message.pods.length > 0);
}

const errorsByFile = (errors: readonly ManifestError[]): Record<string, string> =>
  Object.fromEntries(errors.map(({ file, message }) => [file, message]));

function errorLines(before: Context['errors'], after: Context['errors']) {
  const lines: ['error' | 'info', string, Record<string, string>][] = [];
  for (const [file, error] of Object.entries(after)) {
    if (before[file] !== error) lines.push(['error', 'Could not process manifest file', { path: file, error }]);
  }
  for (const file of Object.keys(before)) {
    if (after[file] === undefined) lines.push(['info', 'Manifest file no longer has an error', { path: file }]);
  }
  return lines;
}
