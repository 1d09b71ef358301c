/**
 * The configuration sources of a node: the pods they want, published as differences. The file source is its own; a URL
 * (`http-source.ts`) and the API server (`api-source.ts`) have an actor each.
 *
 * Decides: what was added, changed, is being deleted, was removed.
 * Owns: by pod and object the version that was last published, and the manifest errors that are known. Never a pod.
 * Hears: `manifests.changed` of the stream; `config.wanted` and `status.wanted` when a receiver lost its state.
 * Asks: `host.watchManifests`.
 * Sends: `syncLoop` `config.objects`, `config.pods` and `config.sourceReady`; `mirrorPods` the static pods.
 * Invariants:
 *   C1 within one change removals are published first, so that a pod whose file was rewritten leaves before it comes.
 *   C2 a manifest's error is reported once, and once more when it is gone.
 *   C3 the source is ready when its first complete list is in, even when that list is empty.
 *   C4 with an API server ConfigMaps and Secrets come from there alone, and a static pod may name none.
 */
import { type AnyActorRef, errorOf, line, now, type PlainError, pick, setup, to } from '../../../../kernel/xstate.ts';
import { objectKey } from '../../../model/objects/config-objects.ts';
import { hostOperations, type Manifest, type ManifestError } from '../../../model/operations/host.ts';
import type { ConfigObject } from '../../../model/operations/volume.ts';
import type { ConfigWanted, Ended, ObjectsReported, SourceReady, StatusWanted } from '../../../model/pods/messages.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import { sendMirrorsReady } from '../mirror/mirrors.ts';
import { apiSourceMachine } from './api-source.ts';
import { httpSourceMachine } from './http-source.ts';
import { forgotten, type PublishedPods, withSource } from './pod-source.ts';
import { mergeManifests } from './static-pod.ts';
import { publishStaticPods } from './static-source.ts';

/** Before the watch of the manifests is opened again after it broke. */
const REOPEN_MS = 1_000;
const SOURCE = 'file';

/** Before a source whose actor crashed is opened again. */
const RESPAWN_MS = 1_000;

export type PodConfigInput = Pick<
  NodeSettings,
  | 'nodeName'
  | 'staticPodPath'
  | 'fileCheckFrequencyMs'
  | 'staticPodURL'
  | 'staticPodURLHeader'
  | 'httpCheckFrequencyMs'
  | 'apiServer'
  | 'rememberedPodsDir'
  | 'unseenFields'
  | 'staticPodReferences'
>;

interface Context {
  readonly nodeName: string;
  readonly path: string;
  readonly periodMs: number;
  readonly settings: PodConfigInput;
  readonly reported: PublishedPods;
  /** By uid, when a pod was first seen; kept when it has to be published again. */
  readonly seen: Readonly<Record<string, string>>;
  /** By key, the published version of a ConfigMap or Secret; `null` before the first publication. */
  readonly versions: Readonly<Record<string, string>> | null;
  /** By file, the error that was last said. */
  readonly errors: Readonly<Record<string, string>>;
  /** Between a crash and the next start. */
  readonly crashed: readonly SourceActor[];
}

type Event =
  | {
      type: 'manifests.changed';
      manifests: readonly Manifest[];
      objects: readonly ConfigObject[];
      errors: readonly ManifestError[];
    }
  | ConfigWanted
  | StatusWanted
  | Ended
  | { type: 'source.respawn'; id: SourceActor };

type SourceActor = 'apiSource' | 'httpSource';

const s = setup({
  types: { input: {} as PodConfigInput, context: {} as Context, events: {} as Event },
  actors: {
    apiSource: apiSourceMachine,
    httpSource: httpSourceMachine,
    ...pick(hostOperations, 'host.watchManifests'),
  },
});

const takeManifests = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'manifests.changed') return;
  const { apiServer, unseenFields, staticPodReferences } = context.settings;
  const hasApiServer = apiServer !== undefined;
  const merged = mergeManifests(event.manifests, context.nodeName, hasApiServer, staticPodReferences);
  const atFirst = new Date(now(args)).toISOString();
  const pods = merged.pods.map((pod) =>
    withSource(pod, SOURCE, context.seen[pod.metadata.uid] ?? atFirst, unseenFields),
  );
  const known = errorsByFile([...event.errors, ...merged.errors]);
  for (const [level, text, fields] of errorLines(context.errors, known)) enqueue(line(level, [text, fields]));
  const versions = hasApiServer ? context.versions : sendObjects(enqueue, context.versions, event.objects);
  const published = publishStaticPods(enqueue, { source: SOURCE, pods, before: context.reported, hasApiServer });
  enqueue.assign({ ...published, versions, errors: known });
});

type Enqueue = Parameters<Parameters<typeof s.enqueueActions>[0]>[0]['enqueue'];

/** Pods find their objects when they come. */
function sendObjects(enqueue: Enqueue, reported: Context['versions'], objects: readonly ConfigObject[]) {
  const byKey = Object.fromEntries(objects.map((each) => [objectKey(each.kind, each.namespace, each.name), each]));
  const versions = Object.fromEntries(Object.entries(byKey).map(([key, { version }]) => [key, version]));
  if (JSON.stringify(reported ?? {}) !== JSON.stringify(versions)) {
    const message: ObjectsReported = { type: 'config.objects', objects: byKey };
    enqueue.sendTo(to('syncLoop'), message);
  }
  return versions;
}

/** Forgets what was published, so that the stream's next list publishes it again. */
const forget = s.assign({
  versions: ({ context, event }) => (event.type === 'config.wanted' && event.uids === null ? null : context.versions),
  reported: ({ context, event }) =>
    event.type === 'config.wanted' ? forgotten(context.reported, event.uids) : context.reported,
});

// ---- the other sources ----------------------------------------------------------------------------------------------

const hasSource = ({ staticPodURL, apiServer }: PodConfigInput, id: SourceActor): boolean =>
  id === 'apiSource' ? apiServer !== undefined : Boolean(staticPodURL);

const openSources = s.enqueueActions(({ context, enqueue }) => {
  const { settings } = context;
  if (hasSource(settings, 'httpSource')) enqueue.spawnChild('httpSource', { id: 'httpSource', input: settings });
  if (hasSource(settings, 'apiSource')) enqueue.spawnChild('apiSource', { id: 'apiSource', input: settings });
});

/** A source that starts anew publishes everything. */
const forwardToSources = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'config.wanted' && event.type !== 'status.wanted') return;
  for (const id of ['httpSource', 'apiSource'] as const) {
    const concerns = event.type === 'config.wanted' || id === 'apiSource';
    const isThere = hasSource(context.settings, id) && !context.crashed.includes(id);
    if (concerns && isThere) enqueue.sendTo<AnyActorRef>(id, event);
  }
});

const reapCrashed = s.enqueueActions(({ context, event, enqueue }) => {
  const id = event.type.slice('xstate.error.actor.'.length) as SourceActor;
  const { message } = errorOf(event);
  enqueue(line('error', ['A source of pods crashed and starts again', { source: id, error: message }]));
  enqueue.stopChild(id);
  enqueue.assign({ crashed: [...context.crashed, id] });
  enqueue.raise({ type: 'source.respawn', id }, { delay: RESPAWN_MS, id: `respawn-${id}` });
});

const respawn = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'source.respawn') return;
  const { id } = event;
  enqueue.spawnChild(id, { id, input: context.settings });
  enqueue.assign({ crashed: context.crashed.filter((each) => each !== id) });
});

export const podConfigMachine = s.createMachine({
  id: 'podConfig',
  context: ({ input }) => ({
    nodeName: input.nodeName,
    path: input.staticPodPath,
    periodMs: input.fileCheckFrequencyMs,
    settings: input,
    reported: {},
    seen: {},
    versions: null,
    errors: {},
    crashed: [],
  }),
  initial: 'choosing',
  entry: openSources,
  on: {
    'config.wanted': { target: '.choosing', actions: [forget, forwardToSources] },
    'status.wanted': { actions: forwardToSources },
    'xstate.error.actor.apiSource': { actions: reapCrashed },
    'xstate.error.actor.httpSource': { actions: reapCrashed },
    'source.respawn': { actions: respawn },
  },
  states: {
    choosing: { always: [{ guard: ({ context }) => context.path === '', target: 'empty' }, { target: 'watching' }] },
    /** No `staticPodPath`: the source is ready and has nothing. */
    empty: {
      entry: s.enqueueActions(({ context, enqueue }) => {
        enqueue.sendTo(to('syncLoop'), { type: 'config.sourceReady', source: SOURCE, uids: [] } satisfies SourceReady);
        if (context.settings.apiServer !== undefined) sendMirrorsReady(enqueue, SOURCE);
      }),
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

// ---- errors ---------------------------------------------------------------------------------------------------------

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
