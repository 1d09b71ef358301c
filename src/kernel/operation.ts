/**
 * Operations: the only way out of the actor system.
 *
 * A machine names an operation as the `src` of an `invoke`; the kernel journals the request, and performs it through a
 * port after the turn is written. The result comes back as an input of a later turn, so `onDone`, `onError` and
 * cancel-on-exit keep their XState meaning.
 *
 * The class of an operation decides what happens when its outcome is unknown (a crash between request and result):
 *
 * | class        | meaning                                                   | after a crash              |
 * | ------------ | --------------------------------------------------------- | -------------------------- |
 * | `query`      | reads the world, changes nothing                          | ask again                  |
 * | `idempotent` | doing it twice is doing it once                           | do it again                |
 * | `once`       | doing it twice would be a mistake                         | observe first, then decide |
 * | `stream`     | stays open and emits events to the actor that invoked it  | subscribe again            |
 */
import type { ActorLogic, ActorScope, ActorSystem, ActorSystemInfo, AnyActorRef, EventObject, Snapshot } from 'xstate';
import type { JsonEvent, PlainError } from './json.ts';
import { memberOf } from './json.ts';

export type OperationClass = 'query' | 'idempotent' | 'once' | 'stream';

/** The declaration of one operation. The type parameters are for the compiler only. */
export interface Operation<Input = unknown, Output = unknown, Item extends JsonEvent = never> {
  readonly class: OperationClass;
  /** Never present at run time. */
  readonly types?: { input: Input; output: Output; item: Item };
}

export const query = <Input, Output>(): Operation<Input, Output> => ({ class: 'query' });
export const idempotent = <Input, Output>(): Operation<Input, Output> => ({ class: 'idempotent' });
export const once = <Input, Output>(): Operation<Input, Output> => ({ class: 'once' });
/** A stream. It ends with `Output` when the world closes it; most never end. */
export const stream = <Input, Item extends JsonEvent, Output = null>(): Operation<Input, Output, Item> => ({
  class: 'stream',
});

// oxlint-disable-next-line typescript/no-explicit-any -- a table holds operations of every type
export type OperationTable = Readonly<Record<string, Operation<any, any, any>>>;
export type InputOf<O> = O extends Operation<infer Input, infer _Output, infer _Item> ? Input : never;
export type OutputOf<O> = O extends Operation<infer _Input, infer Output, infer _Item> ? Output : never;
export type ItemOf<O> = O extends Operation<infer _Input, infer _Output, infer Item> ? Item : never;

/** One request to the world. */
export interface PortCall<Input, Item extends JsonEvent = never> {
  readonly id: number;
  readonly input: Input;
  /** True if an earlier incarnation made the request and its outcome is unknown. */
  readonly resume: boolean;
  /** Aborted when the machine leaves the invoking state. */
  readonly signal: AbortSignal;
  /** Sends an event to the actor that invoked the stream. */
  emit(item: Item): void;
}

/** Performs one operation. A rejection becomes a {@link PlainError} and reaches the machine as `onError`. */
export type CallOf<O> = PortCall<InputOf<O>, ItemOf<O>>;
export type Port<O> = (call: CallOf<O>) => Promise<OutputOf<O>>;
export type Ports<Table extends OperationTable> = { readonly [Name in keyof Table]: Port<Table[Name]> };

/** The services of the kernel that its actors use. */
export interface ActorHost {
  /** Milliseconds since the epoch, constant during a turn. */
  readonly now: number;
  /** The next seeded number in [0, 1). */
  random(): number;
  effectStarted(self: AnyActorRef, name: string, cls: OperationClass, input: unknown): void;
  effectSettled(self: AnyActorRef): void;
  effectCancelled(self: AnyActorRef): void;
}

export type AnyActorSystem = ActorSystem<ActorSystemInfo>;

const hosts = new WeakMap<object, ActorHost>();
/** The kernel whose root is being created: actors take their first step before their system is registered. */
let creating: ActorHost | undefined;

/** Creates a root actor and registers its system with the kernel that runs it. */
export function createHosted<Root extends { system: AnyActorSystem }>(host: ActorHost, create: () => Root): Root {
  creating = host;
  try {
    const root = create();
    hosts.set(root.system, host);
    return root;
  } finally {
    creating = undefined;
  }
}

export function hostOf(system: object): ActorHost {
  const host = hosts.get(system) ?? creating;
  if (!host) throw new Error('this actor runs outside a kernel: boot its machine with Kernel.boot()');
  return host;
}

type EffectEvent =
  | { type: 'effect.done'; output: unknown }
  | { type: 'effect.failed'; error: PlainError }
  | { type: 'xstate.stop' };

/** The logic of one running request, as XState sees it. */
export type EffectLogic<Input, Output> = ActorLogic<EffectSnapshot<Output>, EventObject, Input, AnyActorSystem>;
export type EffectSnapshot<Output> = Snapshot<Output> & { input?: unknown };

function transition(
  name: string,
  snapshot: EffectSnapshot<unknown>,
  event: EffectEvent,
  scope: Scope,
): EffectSnapshot<unknown> {
  if (snapshot.status !== 'active') return snapshot;
  switch (event.type) {
    case 'effect.done':
      hostOf(scope.system).effectSettled(scope.self);
      return { status: 'done', output: event.output, error: undefined };
    case 'effect.failed':
      hostOf(scope.system).effectSettled(scope.self);
      return { status: 'error', output: undefined, error: event.error };
    case 'xstate.stop':
      hostOf(scope.system).effectCancelled(scope.self);
      return { status: 'stopped', output: undefined, error: undefined };
    default:
      throw new Error(`operation ${name} cannot understand ${String(memberOf(event, 'type'))}`);
  }
}

type Scope = ActorScope<EffectSnapshot<unknown>, EventObject, AnyActorSystem>;

const effectLogics = new WeakSet<object>();
/** True for the logic of an operation: its traffic is recorded as requests and results, not as messages. */
export const isEffectLogic = (logic: object): boolean => effectLogics.has(logic);

function effectLogic<Input, Output>(name: string, cls: OperationClass): EffectLogic<Input, Output> {
  const logic: ActorLogic<EffectSnapshot<unknown>, EventObject, unknown, AnyActorSystem> = {
    getInitialSnapshot: (_scope, input) => ({ status: 'active', output: undefined, error: undefined, input }),
    start: (snapshot, scope) => {
      if (snapshot.status !== 'active') return;
      hostOf(scope.system).effectStarted(scope.self, name, cls, snapshot.input);
    },
    transition: (snapshot, event, scope) => transition(name, snapshot, event as EffectEvent, scope),
    getPersistedSnapshot: (snapshot) => snapshot,
    restoreSnapshot: (snapshot) => snapshot,
  };
  effectLogics.add(logic);
  return logic as EffectLogic<Input, Output>;
}

/**
 * The actor sources of a table, for `setup({ actors: { ...pick(operations, 'cri.version', 'host.hostname') } })`. Each
 * key is the operation's name, so input and output of `invoke: { src: 'cri.version' }` are typed.
 */
export function pick<Table extends OperationTable, Name extends keyof Table & string>(
  table: Table,
  ...names: readonly Name[]
): { [K in Name]: EffectLogic<InputOf<Table[K]>, OutputOf<Table[K]>> } {
  const logics = names.map((name) => {
    const operation = table[name];
    if (!operation) throw new Error(`no such operation: ${name}`);
    return [name, effectLogic(name, operation.class)] as const;
  });
  return Object.fromEntries(logics) as never;
}
