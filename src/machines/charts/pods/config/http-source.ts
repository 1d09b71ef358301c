/**
 * A URL as a source of static pods (`httpSource` below `podConfig`): one Pod, or a list of Pods.
 *
 * Decides: which pods were added, changed or removed.
 * Owns: of each pod the hashes of its last publication, and the last error; pods until they are published.
 * Hears: `manifests.fetched` of the stream, `config.wanted`.
 * Asks: `host.watchManifestUrl`.
 * Sends: `pods` `config.pods`; `syncLoop` `config.sourceReady` and `config.sourceChanged`; `mirrorPods` its pods.
 * Invariants:
 *   H1 a failed fetch removes no pod, and does not make the source ready; nor does an answer with an invalid pod. An
 *      empty answer does both, although it is an error.
 *   H2 an error is logged once, and its end once.
 *   H3 this actor has handles in place of the values of headers.
 */
import { type Ended, errorOf, type ItemOf, line, now, pick, setup, typed } from '../../../../kernel/xstate.ts';
import { hostOperations } from '../../../model/operations/host.ts';
import { type ConfigWanted, type Receiver } from '../../../model/pods/source-messages.ts';
import { mergeManifests } from '../../../model/pods/static-pod.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import {
  type NextPortion,
  publisherOf,
  publishNext,
  publishStaticPods,
  type StaticPublication,
  withoutPods,
  withSource,
} from './pod-source.ts';

const SOURCE = 'http';
/** The pause before the stream is opened again after it broke. */
const REOPEN_MS = 1_000;
const PERIOD_DEFAULT_MS = 20_000;

export type HttpSourceInput = Receiver &
  Pick<
    NodeSettings,
    | 'nodeName'
    | 'staticPodURL'
    | 'staticPodURLHeader'
    | 'httpCheckFrequencyMs'
    | 'apiServer'
    | 'unseenFields'
    | 'staticPodReferences'
    | 'behavior'
  >;

type Context = HttpSourceInput & StaticPublication & { readonly error: string };

type Event = ItemOf<(typeof hostOperations)['host.watchManifestUrl']> | ConfigWanted | NextPortion | Ended;

const s = setup({
  types: typed<{ input: HttpSourceInput; context: Context; events: Event }>(),
  actors: pick(hostOperations, 'host.watchManifestUrl'),
});

const handleManifests = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  if (event.type !== 'manifests.fetched') return;
  const hasApiServer = context.apiServer !== undefined;
  const { seen, unseenFields, staticPodReferences } = context;
  const manifests = event.manifests ?? [];
  const reader = { behavior: context.behavior, source: SOURCE } as const;
  const merged = mergeManifests(manifests, context.nodeName, hasApiServer, staticPodReferences, reader);
  const error = [event.error, ...merged.errors.map(({ message }) => message)].filter((each) => each !== '').join('; ');
  if (error !== context.error) {
    enqueue(
      error === ''
        ? line('info', ['The pods of the URL are read again', { url: context.staticPodURL ?? '' }])
        : line('error', ['Failed to read pods from URL', { url: context.staticPodURL ?? '', error }]),
    );
    enqueue.assign({ error });
  }
  if (event.manifests === null || !merged.isValid) return;
  const atFirst = new Date(now(args)).toISOString();
  const pods = merged.pods.map((pod) => withSource(pod, SOURCE, seen[pod.metadata.uid] ?? atFirst, unseenFields));
  enqueue.assign(publishStaticPods(enqueue, publisherOf(SOURCE, context), context, pods));
});

const handleNext = s.enqueueActions(({ context, enqueue }) => {
  enqueue.assign(publishNext(enqueue, publisherOf(SOURCE, context), context));
});

export const httpSourceMachine = s.createMachine({
  id: 'httpSource',
  context: ({ input }) => ({
    ...input,
    reported: {},
    seen: {},
    error: '',
  }),
  initial: 'watching',
  on: {
    'config.wanted': {
      target: '.watching',
      actions: s.assign(({ context, event }) =>
        event.type === 'config.wanted'
          ? { reported: withoutPods(context.reported, event.uids), publishing: undefined }
          : {},
      ),
    },
    'source.next': { actions: handleNext },
  },
  states: {
    watching: {
      invoke: {
        id: 'watch',
        src: 'host.watchManifestUrl',
        input: ({ context }) => ({
          url: context.staticPodURL ?? '',
          headers: context.staticPodURLHeader ?? {},
          nodeName: context.nodeName,
          periodMs: context.httpCheckFrequencyMs ?? PERIOD_DEFAULT_MS,
        }),
        onDone: 'reopening',
        onError: {
          target: 'reopening',
          actions: line('error', ({ context, event }) => [
            'Failed to read pods from URL',
            { url: context.staticPodURL ?? '', error: errorOf(event).message },
          ]),
        },
      },
      on: { 'manifests.fetched': { actions: handleManifests } },
    },
    reopening: { after: { [REOPEN_MS]: 'watching' } },
  },
});
