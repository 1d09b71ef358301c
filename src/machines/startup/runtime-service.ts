/**
 * Runtime service: the connection to the container runtime.
 *
 * Decides: which runtime is used (the configured endpoint, or the embedded one when there is no socket and none was
 *   configured), and whether the runtime is up.
 * Owns: the endpoint, the runtime's name and version, its last known conditions.
 * Hears: `runtime.statusChanged` and `runtime.statusFailed` from its watch; `runtime.statusWanted` from `runtimeState`.
 * Asks: `runtime.exists`, `runtime.startEmbedded`, `runtime.connect`, `cri.runtimeConfig`, `cri.status`,
 *   `runtime.watchStatus`.
 * Sends: the supervisor `runtimeService.ready` or `runtimeService.failed`; `runtimeState` every change of condition.
 * Invariants:
 *   R1 the embedded runtime is used only if no endpoint is configured and no socket exists.
 *   R2 the runtime's cgroup driver overrides the configuration; three failures to report it end the start.
 *   R3 losing the runtime later never ends the node.
 * Seeds: S106, S236. Upstream: PreInitRuntimeService, getCgroupDriverFromCRI, updateRuntimeUp.
 */
import { assign, errorOf, line, pick, sendParent, sendTo, setup, to, typed } from '../../kernel/xstate.ts';
import type { RuntimeHandler } from '../model/api/cri.ts';
import { operations } from '../model/operations/index.ts';
import type { RuntimeStatusItem } from '../model/operations/runtime.ts';
import type { RuntimeFacts } from './context/types.ts';

export interface RuntimeServiceInput {
  readonly endpoint: string;
  readonly imageEndpoint: string;
  /** Whether the endpoint came from a flag or a file, not from the defaults. */
  readonly endpointNamed: boolean;
  readonly requestTimeoutMs: number;
  readonly rootDir: string;
}

interface RuntimeServiceContext extends RuntimeServiceInput {
  readonly facts: RuntimeFacts;
}

type RuntimeServiceEvent =
  | RuntimeStatusItem
  /** `runtimeState` restarted and needs the status. */
  | { readonly type: 'runtime.statusWanted' };

/** How often upstream reads the runtime's status. */
const STATUS_PERIOD_MS = 5_000;
/** Upstream's wait between attempts of RuntimeConfig, and their number. */
const RUNTIME_CONFIG_RETRY_MS = 2_000;

const failure = (message: string) => ({ type: 'runtimeService.failed', message }) as const;
const reportFailure = sendParent<
  RuntimeServiceContext,
  { readonly type: string; readonly error: unknown },
  undefined,
  ReturnType<typeof failure>,
  RuntimeServiceEvent
>(({ event }) => failure(errorOf(event).message));

export const runtimeServiceMachine = setup({
  types: typed<{ input: RuntimeServiceInput; context: RuntimeServiceContext; events: RuntimeServiceEvent }>(),
  actors: pick(
    operations,
    'runtime.exists',
    'runtime.startEmbedded',
    'runtime.connect',
    'runtime.watchStatus',
    'cri.runtimeConfig',
    'cri.status',
  ),
  guards: { isNamed: ({ context }) => context.endpointNamed },
  delays: { runtimeConfigRetry: RUNTIME_CONFIG_RETRY_MS },
}).createMachine({
  id: 'runtimeService',
  context: ({ input }) => ({
    ...input,
    facts: { endpoint: input.endpoint, embedded: false, name: '', version: '', cgroupDriver: null, handlers: {} },
  }),
  initial: 'choosing',
  states: {
    choosing: { always: [{ guard: 'isNamed', target: 'connecting' }, { target: 'checkingSocket' }] },
    checkingSocket: {
      meta: { waitsFor: 'the check of the default runtime socket' },
      invoke: {
        id: 'exists',
        src: 'runtime.exists',
        input: ({ context }) => ({ endpoint: context.endpoint }),
        onDone: [{ guard: ({ event }) => event.output.exists, target: 'connecting' }, { target: 'embedding' }],
        onError: { target: 'failed', actions: reportFailure },
      },
    },
    embedding: {
      meta: { waitsFor: 'the embedded runtime to serve its socket' },
      entry: line('warn', ({ context }) => [
        'No container runtime found; using the embedded runtime, which runs containers as plain host processes without isolation',
        { endpoint: context.endpoint },
      ]),
      invoke: {
        id: 'startEmbedded',
        src: 'runtime.startEmbedded',
        input: ({ context }) => ({ rootDir: context.rootDir }),
        onDone: {
          target: 'connecting',
          actions: assign({
            facts: ({ context, event }) => ({ ...context.facts, endpoint: event.output.endpoint, embedded: true }),
          }),
        },
        onError: { target: 'failed', actions: reportFailure },
      },
    },
    connecting: {
      meta: { waitsFor: 'the CRI endpoint to answer Version' },
      invoke: {
        id: 'connect',
        src: 'runtime.connect',
        input: ({ context }) => ({
          endpoint: context.facts.endpoint,
          imageEndpoint: context.imageEndpoint,
          requestTimeoutMs: context.requestTimeoutMs,
        }),
        onDone: {
          target: 'discoveringCgroupDriver',
          actions: assign({
            facts: ({ context, event }) => ({
              ...context.facts,
              name: event.output.runtimeName,
              version: event.output.runtimeVersion,
            }),
          }),
        },
        onError: { target: 'failed', actions: reportFailure },
      },
    },
    discoveringCgroupDriver: {
      meta: { waitsFor: 'the runtime to name its cgroup driver' },
      initial: 'first',
      states: {
        first: { invoke: runtimeConfigAttempt('waitingForSecond') },
        waitingForSecond: { after: { runtimeConfigRetry: 'second' } },
        second: { invoke: runtimeConfigAttempt('waitingForThird') },
        waitingForThird: { after: { runtimeConfigRetry: 'third' } },
        third: { invoke: runtimeConfigAttempt('#runtimeService.failed') },
        given: { type: 'final' },
      },
      onDone: 'learningAbilities',
    },
    learningAbilities: {
      meta: { waitsFor: 'the runtime to say what its handlers can do' },
      invoke: {
        id: 'abilities',
        src: 'cri.status',
        input: {},
        onDone: {
          target: 'connected',
          actions: assign({
            facts: ({ context, event }) => ({ ...context.facts, handlers: abilitiesOf(event.output.handlers) }),
          }),
        },
        // An unavailable property counts as missing; the watch reports why.
        onError: 'connected',
      },
    },
    connected: {
      entry: [
        line('info', ({ context }) => ['Container runtime initialized', { ...context.facts }]),
        sendParent(({ context }) => ({ type: 'runtimeService.ready', runtime: context.facts })),
      ],
      on: {
        'runtime.statusChanged': { actions: sendTo(to('runtimeState'), ({ event }) => event) },
        'runtime.statusFailed': {
          actions: [
            line('error', ({ event }) => ['Container runtime sanity check failed', { err: event.message }]),
            sendTo(to('runtimeState'), ({ event }) => event),
          ],
        },
      },
      initial: 'watching',
      states: {
        watching: {
          invoke: {
            id: 'watchStatus',
            src: 'runtime.watchStatus',
            input: { periodMs: STATUS_PERIOD_MS },
            onDone: 'pausing',
            onError: 'pausing',
          },
          on: { 'runtime.statusWanted': { target: 'watching', reenter: true } },
        },
        pausing: { after: { [STATUS_PERIOD_MS]: 'watching' } },
      },
    },
    /** A start ends here; a service that crashed later retries. */
    failed: { after: { [STATUS_PERIOD_MS]: 'connecting' } },
  },
});

const abilitiesOf = (handlers: readonly RuntimeHandler[]): RuntimeFacts['handlers'] =>
  Object.fromEntries(
    handlers.map(({ name, features }) => [
      name,
      {
        userNamespaces: features?.user_namespaces ?? false,
        recursiveReadOnlyMounts: features?.recursive_read_only_mounts ?? false,
      },
    ]),
  );

/** One attempt of RuntimeConfig. A runtime without it answers `null`, and the configured driver stays. */
function runtimeConfigAttempt(otherwise: 'waitingForSecond' | 'waitingForThird' | '#runtimeService.failed') {
  return {
    id: 'runtimeConfig',
    src: 'cri.runtimeConfig' as const,
    input: {},
    onDone: {
      target: 'given' as const,
      actions: assign<
        RuntimeServiceContext,
        { type: string; output: { cgroupDriver: RuntimeFacts['cgroupDriver'] } },
        undefined,
        RuntimeServiceEvent,
        never
      >({
        facts: ({ context, event }) => ({ ...context.facts, cgroupDriver: event.output.cgroupDriver }),
      }),
    },
    onError: {
      target: otherwise,
      ...(otherwise.startsWith('#') ? { actions: reportFailure } : {}),
    },
  };
}
