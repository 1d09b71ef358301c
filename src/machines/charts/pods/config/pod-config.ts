/**
 * The sources of pods of a node, an actor each: the manifests (`file-source.ts`), a URL (`http-source.ts`), the API
 * server (`api-source.ts`).
 *
 * Decides: when the sources open; when one that crashed starts again.
 * Owns: which sources are open.
 * Hears: `sources.wanted` of `syncLoop`; `config.wanted` and `status.wanted` when a receiver lost its state.
 * Asks: nothing; its sources do.
 * Sends: `syncLoop` `sources.started`; the sources publish to `pods` themselves.
 * Invariants:
 *   D1 no source opens before `syncLoop` wants them; a restarted source publishes everything.
 */

import {
  type AnyActorRef,
  childIn,
  type Ended,
  errorOf,
  line,
  reapChild,
  setup,
  to,
  typed,
} from '../../../../kernel/xstate.ts';
import type { StatusWanted } from '../../../model/pods/pod-messages.ts';
import type { ConfigWanted, SourcesMessage } from '../../../model/pods/source-messages.ts';
import { type ApiSourceInput, apiSourceMachine } from './api-source.ts';
import { type FileSourceInput, fileSourceMachine } from './file-source.ts';
import { type HttpSourceInput, httpSourceMachine } from './http-source.ts';

/** The pause before a source whose actor crashed is opened again. */
const RESPAWN_MS = 1_000;

export type PodConfigInput = ApiSourceInput & FileSourceInput & HttpSourceInput;

type SourceActor = 'fileSource' | 'httpSource' | 'apiSource';

interface Context {
  readonly settings: PodConfigInput;
  /** Open sources, without a crashed source that has not restarted yet. */
  readonly open: readonly SourceActor[];
}

type Event =
  | SourcesMessage
  | ConfigWanted
  | StatusWanted
  | Ended
  | { readonly type: 'source.respawn'; readonly id: SourceActor };

const s = setup({
  types: typed<{ input: PodConfigInput; context: Context; events: Event }>(),
  actors: { fileSource: fileSourceMachine, httpSource: httpSourceMachine, apiSource: apiSourceMachine },
});

const sourcesOf = ({ staticPodURL, apiServer }: PodConfigInput): readonly SourceActor[] => [
  'fileSource',
  ...(staticPodURL ? (['httpSource'] as const) : []),
  ...(apiServer === undefined ? [] : (['apiSource'] as const)),
];

const openAll = s.enqueueActions(({ context, enqueue }) => {
  const { settings } = context;
  const open = sourcesOf(settings);
  for (const id of open) enqueue.spawnChild(id, { id, input: settings });
  enqueue.assign({ open });
});

/** Every source publishes its pods again. */
const wantAll = s.enqueueActions(({ context, enqueue }) => {
  const everything: ConfigWanted = { type: 'config.wanted', uids: null };
  for (const id of context.open) enqueue.sendTo<AnyActorRef>(id, everything);
});

const forward = s.enqueueActions(({ context, event, enqueue }) => {
  for (const id of context.open) enqueue.sendTo<AnyActorRef>(id, event);
});

const forwardToApi = s.enqueueActions(({ context, event, enqueue }) => {
  if (context.open.includes('apiSource')) enqueue.sendTo<AnyActorRef>('apiSource', event);
});

const reapCrashed = s.enqueueActions(({ context, event, enqueue }) => {
  const id = childIn(event) as SourceActor;
  const { message } = errorOf(event);
  enqueue(line('error', ['A source of pods crashed and starts again', { source: id, error: message }]));
  enqueue.assign({ open: context.open.filter((each) => each !== id) });
  reapChild(enqueue, id, { type: 'source.respawn', id }, RESPAWN_MS);
});

const respawn = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'source.respawn') return;
  const { id } = event;
  enqueue.spawnChild(id, { id, input: context.settings });
  enqueue.assign({ open: [...context.open, id] });
});

export const podConfigMachine = s.createMachine({
  id: 'podConfig',
  context: ({ input }) => ({ settings: input, open: [] }),
  entry: s.enqueueActions(({ enqueue }) => enqueue.sendTo(to('syncLoop'), { type: 'sources.started' })),
  initial: 'waiting',
  states: {
    /** Waits until `syncLoop` wants the sources. */
    waiting: { on: { 'sources.wanted': { target: 'open', actions: openAll } } },
    open: {
      on: {
        'sources.wanted': { actions: wantAll },
        'config.wanted': { actions: forward },
        'status.wanted': { actions: forwardToApi },
        'source.respawn': { actions: respawn },
        'xstate.error.actor.*': { actions: reapCrashed },
      },
    },
  },
});
