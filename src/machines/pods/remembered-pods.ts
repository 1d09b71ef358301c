/**
 * The pods of the API server that this node may start without it (`rememberedPods`): one file a pod.
 *
 * Decides: when a file is written. Owns: by pod what is to be written, and the version that was.
 * Hears: `pod.remembered`, `pod.forgotten` of pods.
 * Asks: `host.savePod`.
 * Invariants:
 *   B1 one write at a time; of several about one pod the last one counts.
 *   B2 a pod whose end was ordered is forgotten before anything of it ends.
 *   B3 a file that cannot be written costs nobody anything but the memory.
 */
import { line, type PlainError, pick, setup } from '../../kernel/xstate.ts';
import type { NodeSettings } from '../node-settings.ts';
import { versionOf } from '../objects/from-api.ts';
import { hostOperations, type RememberedPod } from '../operations/host.ts';
import type { Ended } from './messages.ts';

export type RememberedPodsInput = Pick<NodeSettings, 'nodeName' | 'rememberedPodsDir'>;

export type RememberedPodsMessage =
  | { readonly type: 'pod.remembered'; readonly uid: string; readonly remembered: RememberedPod }
  | { readonly type: 'pod.forgotten'; readonly uid: string };

interface Context {
  readonly directory: string;
  /** By uid; `null`: its file goes. */
  readonly pending: Readonly<Record<string, RememberedPod | null>>;
  /** By uid, what was written since the agent started. */
  readonly written: Readonly<Record<string, string>>;
}

const s = setup({
  types: { input: {} as RememberedPodsInput, context: {} as Context, events: {} as RememberedPodsMessage | Ended },
  actors: pick(hostOperations, 'host.savePod'),
  guards: { isPending: ({ context }) => Object.keys(context.pending).length > 0 },
});

/** Of what the file has when all is written. */
function versionToBe({ pending, written }: Context, uid: string): string | undefined {
  const next = pending[uid];
  return next === undefined ? written[uid] : next === null ? undefined : versionOf(next);
}

const take = s.assign(({ context, event }) => {
  if (event.type !== 'pod.remembered' && event.type !== 'pod.forgotten') return {};
  const remembered = event.type === 'pod.remembered' ? event.remembered : null;
  if (remembered !== null && versionToBe(context, event.uid) === versionOf(remembered)) return {};
  return { pending: { ...context.pending, [event.uid]: remembered } };
});

const next = ({ pending }: Context): string => Object.keys(pending)[0] ?? '';

const noteDone = s.assign(({ context }) => {
  const uid = next(context);
  const { [uid]: done, ...pending } = context.pending;
  const { [uid]: _old, ...written } = context.written;
  return { pending, written: done ? { ...written, [uid]: versionOf(done) } : written };
});

export const rememberedPodsMachine = s.createMachine({
  id: 'rememberedPods',
  context: ({ input }) => ({ directory: input.rememberedPodsDir ?? '', pending: {}, written: {} }),
  initial: 'saved',
  on: { 'pod.remembered': { actions: take }, 'pod.forgotten': { actions: take } },
  states: {
    saved: { always: { guard: 'isPending', target: 'saving' } },
    saving: {
      invoke: {
        id: 'save',
        src: 'host.savePod',
        input: ({ context }) => ({
          directory: context.directory,
          uid: next(context),
          remembered: context.pending[next(context)] ?? null,
        }),
        onDone: { target: 'saved', actions: noteDone },
        onError: {
          target: 'saved',
          actions: [
            line('error', ({ context, event }) => [
              'Cannot remember a pod for a start without the API server',
              { uid: next(context), error: (event.error as PlainError).message },
            ]),
            noteDone,
          ],
        },
      },
      /** What is being written is not the newest any more: it is written again afterwards. */
      on: {
        'pod.remembered': { target: 'saved', actions: take },
        'pod.forgotten': { target: 'saved', actions: take },
      },
    },
  },
});
