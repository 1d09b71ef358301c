/**
 * Mirror pods: the objects that represent static pods in the API server. One actor per full name (`mirror-pod.ts`).
 *
 * Decides: which static pod and which mirror pod belong together, and when a mirror pod without a static pod may be
 *   deleted.
 * Owns: the names, whether the API server's mirror pods were listed.
 * Hears: `mirror.wanted`, `mirror.unwanted` of the sources of static pods, `mirror.seen` and `mirror.listed` of the API
 *   server, `mirror.ready` of each source of static pods, `mirror.released` of `pods`.
 * Asks: nothing; its actors do. Asks `podConfig` to publish everything again when it restarts.
 * Invariants:
 *   I1 before every source has published, no mirror pod is deleted for having no static pod.
 */

import { type AnyActorRef, childIn, type Ended, errorOf, line, setup, to, typed } from '../../../../kernel/xstate.ts';
import type { PodRef } from '../../../model/api/pod.ts';
import type { MirrorMessage } from '../../../model/pods/source-messages.ts';
import type { NodeSettings } from '../../../model/settings/node-settings.ts';
import { mirrorPodMachine } from './mirror-pod.ts';

export type MirrorPodsInput = Pick<NodeSettings, 'nodeName' | 'staticPodURL'>;

interface Context {
  readonly nodeName: string;
  readonly names: readonly string[];
  /** Sources of static pods that have not published yet. */
  readonly silent: readonly ('file' | 'http')[];
  readonly isListed: boolean;
}

const s = setup({
  types: typed<{ input: MirrorPodsInput; context: Context; events: MirrorMessage | Ended }>(),
  actors: { mirror: mirrorPodMachine },
});

const idOf = ({ namespace, name }: Pick<PodRef, 'namespace' | 'name'>): string => `mirror-${namespace}_${name}`;

const route = s.enqueueActions(({ context, event, enqueue }) => {
  if (!('pod' in event)) return;
  const ref = event.type === 'mirror.wanted' ? event.pod.metadata : event.pod;
  const id = idOf(ref);
  if (!context.names.includes(id)) {
    if (event.type === 'mirror.seen' && event.seen === null) return;
    const { namespace, name } = ref;
    const { nodeName, silent, isListed } = context;
    const input = { namespace, name, nodeName, judges: silent.length === 0, isListed };
    enqueue.spawnChild('mirror', { id, input });
    enqueue.assign({ names: [...context.names, id] });
  }
  enqueue.sendTo<AnyActorRef>(id, event);
});

/** A pod of which an earlier agent left only files has no name: every mirror actor gets its uid. */
const release = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'mirror.released') return;
  const id = idOf(event.pod);
  const ids = event.pod.name === '' ? context.names : context.names.filter((each) => each === id);
  for (const each of ids) enqueue.sendTo<AnyActorRef>(each, event);
});

const handleList = s.enqueueActions(({ context, event, enqueue }) => {
  if (!context.isListed) enqueue.assign({ isListed: true });
  for (const id of context.names) enqueue.sendTo<AnyActorRef>(id, event);
});

const noteReady = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'mirror.ready' || !context.silent.includes(event.source)) return;
  const silent = context.silent.filter((each) => each !== event.source);
  enqueue.assign({ silent });
  if (silent.length > 0) return;
  for (const id of context.names) enqueue.sendTo<AnyActorRef>(id, { type: 'mirror.judged' });
});

const reap = s.enqueueActions(({ context, event, enqueue }) => {
  const id = childIn(event);
  enqueue.stopChild(id);
  enqueue.assign({ names: context.names.filter((each) => each !== id) });
});

const reapCrashed = s.enqueueActions(({ event, enqueue }) => {
  const { message } = errorOf(event);
  enqueue(
    line('error', ['The actor of a mirror pod crashed and starts again', { id: childIn(event), error: message }]),
  );
  enqueue.sendTo(to('podConfig'), { type: 'config.wanted', uids: null });
});

export const mirrorPodsMachine = s.createMachine({
  id: 'mirrorPods',
  context: ({ input }) => ({
    nodeName: input.nodeName,
    names: [],
    silent: input.staticPodURL ? ['file', 'http'] : ['file'],
    isListed: false,
  }),
  entry: s.enqueueActions(({ enqueue }) => enqueue.sendTo(to('podConfig'), { type: 'config.wanted', uids: null })),
  on: {
    'mirror.wanted': { actions: route },
    'mirror.unwanted': { actions: route },
    'mirror.seen': { actions: route },
    'mirror.listed': { actions: handleList },
    'mirror.released': { actions: release },
    'mirror.ready': { actions: noteReady },
    'xstate.done.actor.*': { actions: reap },
    'xstate.error.actor.*': { actions: [reapCrashed, reap] },
  },
});
