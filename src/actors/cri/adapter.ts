/** The connection to one runtime, and what its groups of ports share. */
import { randomBytes } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { steadyNow } from '../../kernel/clock.ts';
import { type SecretHandle, Vault } from '../../kernel/journal/index.ts';
import { OperationError } from '../../kernel/json.ts';
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';
import { type CallOptions, connectRuntime, type Endpoints, type RuntimeClient } from './client.ts';
import type { Outcome } from './expectations.ts';
import { Inspections } from './inspections.ts';
import { type Ids, PodIds } from './pod-ids.ts';
import { SandboxImage } from './sandbox-image.ts';
import { discreet, HeldSecrets, withoutSecrets } from './secrets.ts';
import { counted, type OnRuntime } from './seen.ts';
import { StartingCalls } from './starting-calls.ts';
import { DEFAULT_RELIST_PERIODS, type PodWatcher, type RelistPeriods } from './watch-pods.ts';

/** The default of runtimeRequestTimeout. */
const REQUEST_TIMEOUT_MS = 120_000;
/** Calls that start something at once, for each core, when a sandbox begins. */
const STARTS_PER_CORE = 3;

export interface CriOptions extends Endpoints {
  /** runtimeRequestTimeout. Default 2 m. */
  readonly requestTimeoutMs?: number;
  readonly relistPeriods?: RelistPeriods;
  /** Milliseconds of the clock that stamps observations. */
  readonly now?: () => number;
  /** Hears what no machine needs to know: an event stream that broke and is being opened again. */
  readonly warn?: (message: string) => void;
  readonly onSeen?: OnRuntime;
  /** Holds the values of Secrets that containers get; without one there are none. */
  readonly vault?: Vault;
}

export const isNotFound = (error: unknown) => error instanceof OperationError && error.code === 'NOT_FOUND';

/** What the groups of ports share. */
export class Adapter {
  readonly client: RuntimeClient;
  readonly timeoutMs: number;
  readonly now: () => number;
  readonly periods: RelistPeriods;
  readonly warn: (message: string) => void;
  readonly onSeen: OnRuntime;
  readonly vault: Vault;
  readonly secrets = new HeldSecrets();
  readonly watchers = new Set<PodWatcher>();
  readonly inspections = new Inspections();
  readonly podIds = new PodIds();
  readonly sandboxImage: SandboxImage;
  readonly starts = new StartingCalls(STARTS_PER_CORE * availableParallelism());

  constructor(options: CriOptions) {
    this.timeoutMs = options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
    this.now = options.now ?? steadyNow;
    this.periods = options.relistPeriods ?? DEFAULT_RELIST_PERIODS;
    this.warn = options.warn ?? (() => {});
    this.onSeen = options.onSeen ?? (() => {});
    this.vault = options.vault ?? new Vault(randomBytes(32));
    this.client = discreet(counted(connectRuntime(options), this.onSeen), (id) => this.secrets.of(id), this.vault);
    this.sandboxImage = new SandboxImage(this.client);
  }

  limits(call: { readonly signal: AbortSignal }, timeoutMs: number | null = this.timeoutMs): CallOptions {
    return { timeoutMs, signal: call.signal };
  }

  /** Makes a sandbox or a container of a pod; of one that failed, the runtime may have something all the same. */
  async making(kind: keyof Ids, uid: string | undefined, make: () => Promise<string>): Promise<string> {
    if (uid === undefined) return make();
    try {
      const id = await make();
      this.podIds.made(uid, kind, id);
      for (const watcher of this.watchers) watcher.learn(id, uid);
      return id;
    } catch (error) {
      this.podIds.doubt(uid);
      throw error;
    }
  }

  /** A pod gets this as the answer to an inspection of its own. */
  saw(status: PodRuntimeStatus): void {
    for (const watcher of this.watchers) watcher.saw(status);
  }

  starting(id: string): void {
    for (const watcher of this.watchers) watcher.starting(id);
  }

  changed(id: string, outcome: Outcome): void {
    for (const watcher of this.watchers) watcher.called(id, outcome);
  }

  /** Ends or removes a sandbox or container. One that the runtime does not know has ended and is removed. */
  ending(id: string, outcome: Outcome, change: Promise<unknown>): Promise<null> {
    return this.changing(
      id,
      outcome,
      change.catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      }),
    );
  }

  /** The runtime may quote in an error what it was given. */
  async discreet<T>(secrets: readonly SecretHandle[], call: Promise<T>): Promise<T> {
    try {
      return await call;
    } catch (error) {
      throw withoutSecrets(error, secrets, this.vault);
    }
  }

  /** Does what changes a sandbox or container, then has its pod inspected, also after a failure. */
  async changing(id: string, outcome: Outcome, change: Promise<unknown>): Promise<null> {
    const came = await change.then(
      () => outcome,
      () => 'changed' as const,
    );
    this.changed(id, came);
    await change;
    return null;
  }
}
