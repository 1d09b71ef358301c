/**
 * Stores the pods of the API server that this node may start without it (`rememberedPods`), one file per pod.
 *
 * Decides: when a file is written.
 * Owns: by pod the content to write, the write in progress, the version that was written.
 * Hears: `pod.remembered`, `pod.forgotten` of pods.
 * Asks: `host.savePod`.
 * Invariants:
 *   B1 one write at a time, which is never left before it ends; of several about one pod the last one counts.
 *   B2 a pod whose end was ordered is forgotten before anything of it ends.
 *   B3 a file that cannot be written loses only the remembered state; removal is retried.
 */

import { type Ended, errorOf, line, pick, setup, typed } from '../../../kernel/xstate.ts';
import { versionOf } from '../../model/objects/config-objects.ts';
import { hostOperations, type RememberedPod } from '../../model/operations/host.ts';
import type { RememberedPodsMessage } from '../../model/pods/pod-messages.ts';
import type { NodeSettings } from '../../model/settings/node-settings.ts';

export type RememberedPodsInput = Pick<NodeSettings, 'nodeName' | 'rememberedPodsDir'>;

/** The content of a file; `null` to remove it. */
type ToWrite = RememberedPod | null;

/** The pause before a failed removal is retried. */
const RETRY_MS = 10_000;
const NOTHING = { uid: '', remembered: null };

interface Context {
  readonly directory: string;
  /** By uid, contents that wait to be written. */
  readonly pending: Readonly<Record<string, ToWrite>>;
  readonly saving: { readonly uid: string; readonly remembered: ToWrite };
  /** By uid, the version that was written since the agent started. */
  readonly written: Readonly<Record<string, string>>;
}

const s = setup({
  types: typed<{ input: RememberedPodsInput; context: Context; events: RememberedPodsMessage | Ended }>(),
  actors: pick(hostOperations, 'host.savePod'),
  guards: {
    isPending: ({ context }) => Object.keys(context.pending).length > 0,
    isRemoval: ({ context }) => context.saving.remembered === null,
  },
});

/** The version that the file has when all pending writes are done. */
function versionAfterWrites({ pending, written }: Context, uid: string): string | undefined {
  const next = pending[uid];
  return next === undefined ? written[uid] : next === null ? undefined : versionOf(next);
}

const handleChange = s.assign(({ context, event }) => {
  if (event.type !== 'pod.remembered' && event.type !== 'pod.forgotten') return {};
  const remembered = event.type === 'pod.remembered' ? event.remembered : null;
  if (remembered !== null && versionAfterWrites(context, event.uid) === versionOf(remembered)) return {};
  return { pending: { ...context.pending, [event.uid]: remembered } };
});

/** Content that is being written counts as written: later content is compared with it. */
const beginNext = s.assign(({ context }) => {
  const uid = Object.keys(context.pending)[0] ?? '';
  const { [uid]: remembered = null, ...pending } = context.pending;
  const { [uid]: _old, ...written } = context.written;
  return {
    pending,
    saving: { uid, remembered },
    written: remembered ? { ...written, [uid]: versionOf(remembered) } : written,
  };
});

const noteDone = s.assign({ saving: NOTHING });

/** Content that arrived in the meantime for the same pod is newer. */
const keepToRemove = s.assign(({ context: { pending, saving } }) => ({
  pending: { [saving.uid]: null, ...pending },
  saving: NOTHING,
}));

type FailureEvent = RememberedPodsMessage | Ended;
const logFailed = line<Context, FailureEvent, undefined, FailureEvent>('error', ({ context, event }) => [
  context.saving.remembered === null
    ? 'Cannot forget a pod that was remembered for a start without the API server'
    : 'Cannot remember a pod for a start without the API server',
  { uid: context.saving.uid, error: errorOf(event).message },
]);

export const rememberedPodsMachine = s.createMachine({
  id: 'rememberedPods',
  context: ({ input }) => ({
    directory: input.rememberedPodsDir ?? '',
    pending: {},
    saving: NOTHING,
    written: {},
  }),
  initial: 'saved',
  on: { 'pod.remembered': { actions: handleChange }, 'pod.forgotten': { actions: handleChange } },
  states: {
    saved: { always: { guard: 'isPending', target: 'saving', actions: beginNext } },
    saving: {
      invoke: {
        id: 'save',
        src: 'host.savePod',
        input: ({ context: { directory, saving } }) => ({ directory, ...saving }),
        onDone: { target: 'saved', actions: noteDone },
        onError: [
          { guard: 'isRemoval', target: 'kept', actions: [logFailed, keepToRemove] },
          { target: 'saved', actions: [logFailed, noteDone] },
        ],
      },
    },
    /** A file could not be removed. */
    kept: { after: { [RETRY_MS]: 'saved' } },
  },
});
