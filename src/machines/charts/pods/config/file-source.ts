/**
 * The folder or file of manifests as a source of static pods (`fileSource` below `podConfig`), and of the ConfigMaps
 * and Secrets in the same folder.
 *
 * Decides: which pods and objects were added, changed or removed.
 * Owns: by pod and object the version that was last published, and the last errors of manifests; pods until they are
 *   published.
 * Hears: `manifests.changed` of the stream; `config.wanted` when a receiver lost its state.
 * Asks: `host.watchManifests`.
 * Sends: `pods` `config.objects` and `config.pods`; `syncLoop` `config.sourceReady` and `config.sourceChanged`;
 *   `mirrorPods` its pods.
 * Invariants:
 *   C1 within one change removals are published first, so that a pod whose file was rewritten is removed before it is
 *      added.
 *   C2 a manifest's error is logged once, and its correction once.
 *   C3 the source is ready when its first complete list is published, even when that list is empty. A path that cannot
 *      be listed is no empty list: no pod ends because of it.
 *   C4 with an API server ConfigMaps and Secrets come from it alone, and a static pod may name none.
 */
import {
  type Ended,
  type EnqueueOf,
  errorOf,
  type ItemOf,
  line,
  now,
  pick,
  setup,
  to,
  typed,
} from '../../../../kernel/xstate.ts';
import { objectKey } from '../../../model/objects/config-objects.ts';
import { hostOperations, type ManifestError } from '../../../model/operations/host.ts';
import type { ConfigObject } from '../../../model/operations/volume.ts';
import type { ConfigWanted, ObjectsReported, Receiver, SourceReady } from '../../../model/pods/source-messages.ts';
import { receiverOf } from '../../../model/pods/source-messages.ts';
import { mergeManifests } from '../../../model/pods/static-pod.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import { mapValues } from '../../../model/values/tables.ts';
import type { NextPortion, StaticPublication } from './pod-source.ts';
import {
  publisherOf,
  publishNext,
  publishStaticPods,
  sendMirrorsReady,
  withoutPods,
  withSource,
} from './pod-source.ts';

/** The pause before the watch of the manifests is opened again after it broke. */
const REOPEN_MS = 1_000;
const SOURCE = 'file';

export type FileSourceInput = Receiver &
  Pick<
    NodeSettings,
    | 'nodeName'
    | 'staticPodPath'
    | 'fileCheckFrequencyMs'
    | 'apiServer'
    | 'unseenFields'
    | 'staticPodReferences'
    | 'behavior'
  >;

interface Context extends StaticPublication {
  readonly settings: FileSourceInput;
  /** By key, the published version of a ConfigMap or Secret; `null` before the first publication. */
  readonly versions: Readonly<Record<string, string>> | null;
  /** By file, the error that was last reported. */
  readonly errors: Readonly<Record<string, string>>;
}

type Event = ItemOf<(typeof hostOperations)['host.watchManifests']> | ConfigWanted | NextPortion | Ended;

const s = setup({
  types: typed<{ input: FileSourceInput; context: Context; events: Event }>(),
  actors: pick(hostOperations, 'host.watchManifests'),
  guards: { hasNoPath: ({ context }) => context.settings.staticPodPath === '' },
});

type Enqueue = EnqueueOf<typeof s>;

const handleManifests = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'manifests.changed') return;
  if (event.isUnread === true) return enqueue.assign({ errors: reported(enqueue, context, event.errors) });
  const { settings, seen } = context;
  const { nodeName, apiServer, unseenFields, staticPodReferences } = settings;
  const hasApiServer = apiServer !== undefined;
  const merged = mergeManifests(event.manifests, nodeName, hasApiServer, staticPodReferences, settings);
  const atFirst = new Date(now(args)).toISOString();
  const pods = merged.pods.map((pod) => withSource(pod, SOURCE, seen[pod.metadata.uid] ?? atFirst, unseenFields));
  const errors = reported(enqueue, context, [...event.errors, ...merged.errors]);
  const versions = hasApiServer ? context.versions : sendObjects(enqueue, context, event.objects);
  const published = publishStaticPods(enqueue, publisherOf(SOURCE, settings), context, pods);
  enqueue.assign({ ...published, versions, errors });
});

/** Logs what changed since the last errors, and returns the new ones by file. */
function reported(enqueue: Enqueue, { errors: before }: Context, found: readonly ManifestError[]): Context['errors'] {
  const errors = errorsByFile(found);
  for (const [level, text, fields] of errorLines(before, errors)) enqueue(line(level, [text, fields]));
  return errors;
}

const handleNext = s.enqueueActions(({ context, enqueue }) => {
  enqueue.assign(publishNext(enqueue, publisherOf(SOURCE, context.settings), context));
});

/** Objects are sent before pods, so that pods find them. */
function sendObjects(enqueue: Enqueue, { versions: reported, settings }: Context, objects: readonly ConfigObject[]) {
  const byKey = Object.fromEntries(objects.map((each) => [objectKey(each.kind, each.namespace, each.name), each]));
  const versions = mapValues(byKey, ({ version }) => version);
  if (JSON.stringify(reported ?? {}) !== JSON.stringify(versions)) {
    const message: ObjectsReported = { type: 'config.objects', objects: byKey };
    enqueue.sendTo(to(receiverOf(settings)), message);
  }
  return versions;
}

/** Forgets the last publication, so that the stream's next list is published completely. */
const forget = s.assign(({ context, event }) => {
  if (event.type !== 'config.wanted') return {};
  const { versions, reported } = context;
  const forgotten = { reported: withoutPods(reported, event.uids), publishing: undefined };
  return { versions: event.uids === null ? null : versions, ...forgotten };
});

const logBroken = line<Context, { error: unknown; type: string }, undefined, Event>('error', ({ context, event }) => [
  'Unable to read config path',
  { path: context.settings.staticPodPath, error: errorOf(event).message },
]);

export const fileSourceMachine = s.createMachine({
  id: 'fileSource',
  context: ({ input }) => ({ settings: input, reported: {}, seen: {}, versions: null, errors: {} }),
  initial: 'choosing',
  on: { 'config.wanted': { target: '.choosing', actions: forget }, 'source.next': { actions: handleNext } },
  states: {
    choosing: { always: [{ guard: 'hasNoPath', target: 'empty' }, { target: 'watching' }] },
    /** Without `staticPodPath` the source is ready and has no pods. */
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
        input: ({ context: { settings } }) => ({
          path: settings.staticPodPath,
          nodeName: settings.nodeName,
          periodMs: settings.fileCheckFrequencyMs,
        }),
        onDone: 'reopening',
        onError: { target: 'reopening', actions: logBroken },
      },
      on: { 'manifests.changed': { actions: handleManifests } },
    },
    reopening: { after: { [REOPEN_MS]: 'watching' } },
  },
});

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
