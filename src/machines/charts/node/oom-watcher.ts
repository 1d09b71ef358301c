/**
 * The OOM watcher: records when the machine as a whole ran out of memory.
 *
 * Decides: whether a kill concerns the node (a container that exceeds its own limit concerns only its pod), and whether
 *   an unreadable log keeps the node from starting.
 * Owns: nothing but the watch.
 * Hears: `oom.*` of its watch.
 * Asks: `host.watchOom`.
 * Sends: `eventRecorder` the event `SystemOOM`; the supervisor `oomWatcher.failed` when the node must not start.
 * Invariants:
 *   O1 an event for each kill, no more.
 *   O2 a failure is fatal only at the start; later it is retried.
 * Seeds: S154, S235. Upstream: pkg/kubelet/oom/oom_watcher_linux.go, pkg/kubelet/kubelet.go.
 */
import { errorOf, type ItemOf, line, pick, sendParent, setup, stateIn, to, typed } from '../../../kernel/xstate.ts';
import { hostOperations, type OomKill } from '../../model/operations/host.ts';
import { type EventRecorded, nodeEvent } from '../../model/pods/pod-messages.ts';
import { nodeEvents } from '../../model/reasons/reasons.ts';

export interface OomWatcherInput {
  readonly nodeName: string;
  /** The path of the kernel's log. */
  readonly path: string;
  /** The file that records which kills were reported. */
  readonly seenFile: string;
  /** A node may start without access to the kernel's log: in a user namespace, or with the embedded runtime. */
  readonly optional: boolean;
}

type Event = ItemOf<(typeof hostOperations)['host.watchOom']>;

/** The pause before a log whose reading failed is reopened. */
const RETRY_MS = 60_000;
/** The cgroup in an OOM record that concerns the whole machine. */
const MACHINE = '/';

/** The event of an OOM kill; `null` if a container exceeded its own limit. */
function oomEvent(nodeName: string, kill: OomKill): EventRecorded | null {
  if (kill.victimContainer !== MACHINE) return null;
  const hasVictim = kill.processName !== '' && kill.pid !== 0;
  const victim = hasVictim ? `, victim process: ${kill.processName}, pid: ${kill.pid}` : '';
  return nodeEvent(nodeName, nodeEvents.systemOOM(victim));
}

const s = setup({
  types: typed<{ input: OomWatcherInput; context: OomWatcherInput; events: Event }>(),
  actors: pick(hostOperations, 'host.watchOom'),
  guards: { isOpen: stateIn({ opening: 'watching' }) },
});

const record = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'oom.killed') return;
  const recorded = oomEvent(context.nodeName, event);
  if (recorded === null) return;
  enqueue(line('warn', ['Got sys oom event', { process: event.processName, pid: event.pid }]));
  enqueue.sendTo(to('eventRecorder'), recorded);
});

const watch = {
  id: 'oom',
  src: 'host.watchOom' as const,
  input: ({ context: { path, seenFile } }: { context: OomWatcherInput }) => ({ path, seenFile }),
};

export const oomWatcherMachine = s.createMachine({
  id: 'oomWatcher',
  context: ({ input }) => input,
  initial: 'opening',
  states: {
    opening: {
      initial: 'first',
      on: { 'oom.watching': '.watching', 'oom.killed': { actions: record } },
      states: { first: {}, watching: {} },
      invoke: {
        ...watch,
        onError: [
          {
            guard: ({ context }) => context.optional,
            target: 'unavailable',
            actions: line('warn', ({ event }) => [
              'Failed to create an oomWatcher, ignoring',
              { err: errorOf(event).message },
            ]),
          },
          {
            guard: 'isOpen',
            target: 'broken',
          },
          {
            target: 'unavailable',
            actions: sendParent(({ event }) => ({
              type: 'oomWatcher.failed',
              message: `failed to create kubelet: ${errorOf(event).message}`,
            })),
          },
        ],
      },
    },
    unavailable: {},
    broken: {
      entry: line('error', 'Unexpectedly stopped receiving OOM notifications'),
      after: { [RETRY_MS]: 'watching' },
    },
    watching: {
      on: { 'oom.killed': { actions: record } },
      invoke: { ...watch, onDone: 'broken', onError: 'broken' },
    },
  },
});
