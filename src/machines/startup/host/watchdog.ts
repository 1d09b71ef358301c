/**
 * Watchdog: notifies the service manager periodically, as long as this process is healthy.
 *
 * Decides: whether systemd wants notifications (`WATCHDOG_USEC`, `WATCHDOG_PID`), how often, and when to stop.
 * Owns: the time since when pods are not synchronised.
 * Hears: `sync.going` and `sync.halted` of the supervisor; `watchdog.unheard` and `watchdog.heard` of
 *   `host.feedWatchdog`.
 * Asks: `host.watchdogSettings`, `host.feedWatchdog`, which sends notifications from the event loop of the turns, so
 *   that a hanging loop sends none.
 * Sends: the supervisor `watchdog.ready`, or `watchdog.failed` when the settings cannot be understood.
 * Invariants:
 *   W1 settings for another process are ignored.
 *   W2 it sends two notifications within the timeout.
 *   W3 it stops when pods were not synchronised for so long that upstream's /healthz would fail, and resumes when they
 *      are.
 * Seeds: S113, S230. Upstream: pkg/kubelet/watchdog.
 */
import { assign, errorOf, type ItemOf, line, pick, sendParent, setup, typed } from '../../../kernel/xstate.ts';
import { operations } from '../../model/operations/index.ts';
import { formatDuration } from '../../model/values/time.ts';
import type { Answer } from '../context/types.ts';

export interface WatchdogInput {
  readonly syncFrequencyMs: number;
}

export interface WatchdogSettings {
  /** `WATCHDOG_USEC`; empty without it. */
  readonly usec: string;
  /** `WATCHDOG_PID`; empty without it. */
  readonly pid: string;
  readonly ownPid: number;
}

interface Context extends WatchdogInput {
  /** The notification interval of the service manager; 0 if it wants none. */
  readonly intervalMs: number;
  readonly error: string;
}

type Event =
  | { readonly type: 'sync.going' }
  | { readonly type: 'sync.halted' }
  | ItemOf<(typeof operations)['host.feedWatchdog']>;

const MICROSECONDS = 1_000;
const NANOSECONDS = 1_000_000;
/** Upstream's limit of the time without a sync of pods after which the sync loop counts as stuck. */
const STUCK_MS = 300_000;
/** Upstream's limit: a timeout up to this cannot be met. */
const SHORTEST_MS = 1_000;
/** Upstream's attempts at one notification. */
const TRIES = 2;
const STUCK = 'checker syncloop failed: sync Loop took longer than expected';

const isNumber = (text: string): boolean => /^[+-]?\d+$/.test(text);
const refused = (message: string): Answer<never> => ({ ok: false, message: `configure watchdog${message}` });
const notNumber = (name: string, text: string): Answer<never> =>
  refused(`: error converting ${name}: strconv.Atoi: parsing ${JSON.stringify(text)}: invalid syntax`);
const durationOf = (ms: number): string => formatDuration(BigInt(Math.round(ms * NANOSECONDS)));

/** Half of the service manager's timeout, in milliseconds; 0 if it has none for this process. */
export function watchdogInterval({ usec, pid, ownPid }: WatchdogSettings): Answer<number> {
  if (usec === '') return { ok: true, value: 0 };
  if (!isNumber(usec)) return notNumber('WATCHDOG_USEC', usec);
  if (Number(usec) <= 0) return refused(': error WATCHDOG_USEC must be a positive number');
  if (pid !== '' && !isNumber(pid)) return notNumber('WATCHDOG_PID', pid);
  if (pid !== '' && Number(pid) !== ownPid) return { ok: true, value: 0 };
  const givenMs = Number(usec) / MICROSECONDS;
  return givenMs > SHORTEST_MS
    ? { ok: true, value: givenMs / 2 }
    : refused(` timeout too small: ${durationOf(givenMs)}`);
}

export const watchdogMachine = setup({
  types: typed<{ input: WatchdogInput; context: Context; events: Event }>(),
  actors: pick(operations, 'host.watchdogSettings', 'host.feedWatchdog'),
  guards: {
    isMisconfigured: ({ context }) => context.error !== '',
    isWanted: ({ context }) => context.intervalMs > 0,
  },
  delays: { stuck: ({ context }) => Math.max(2 * context.syncFrequencyMs, STUCK_MS) },
}).createMachine({
  id: 'watchdog',
  context: ({ input }) => ({ syncFrequencyMs: input.syncFrequencyMs, intervalMs: 0, error: '' }),
  initial: 'reading',
  states: {
    reading: {
      meta: { waitsFor: 'what the service manager wants of its watchdog' },
      invoke: {
        id: 'settings',
        src: 'host.watchdogSettings',
        input: {},
        onDone: {
          target: 'judging',
          actions: assign(({ event }) => {
            const interval = watchdogInterval(event.output);
            return interval.ok ? { intervalMs: interval.value } : { error: interval.message };
          }),
        },
        onError: { target: 'judging', actions: assign({ error: ({ event }) => errorOf(event).message }) },
      },
    },
    judging: {
      always: [
        { guard: 'isMisconfigured', target: 'misconfigured' },
        { guard: 'isWanted', target: 'feeding' },
        { target: 'unwanted' },
      ],
    },
    misconfigured: {
      entry: sendParent(({ context }) => ({
        type: 'watchdog.failed',
        message: `create health checker: ${context.error}`,
      })),
    },
    unwanted: { entry: [line('info', 'Systemd watchdog is not enabled'), sendParent({ type: 'watchdog.ready' })] },
    feeding: {
      entry: [
        line('info', ({ context }) => [
          'Starting systemd watchdog with interval',
          { interval: durationOf(context.intervalMs) },
        ]),
        sendParent({ type: 'watchdog.ready' }),
      ],
      initial: 'trusted',
      on: {
        'watchdog.unheard': {
          actions: line('error', ({ event }) => ['Failed to notify watchdog', { err: event.message, retries: TRIES }]),
        },
        'watchdog.heard': { actions: line('info', 'The service manager hears the watchdog again') },
      },
      states: {
        trusted: {
          invoke: {
            id: 'feed',
            src: 'host.feedWatchdog',
            input: ({ context }) => ({ intervalMs: context.intervalMs, tries: TRIES }),
            onError: {
              actions: line('error', ({ event }) => [
                'Failed to notify watchdog',
                { err: errorOf(event).message, retries: TRIES },
              ]),
            },
          },
          initial: 'going',
          states: {
            going: { on: { 'sync.halted': 'halted' } },
            halted: {
              on: { 'sync.going': 'going' },
              after: { stuck: '#watchdog.feeding.doubted' },
            },
          },
        },
        doubted: {
          entry: line('error', [
            'Do not notify watchdog this iteration as the kubelet is reportedly not healthy',
            { err: STUCK },
          ]),
          on: { 'sync.going': 'trusted' },
        },
      },
    },
  },
});
