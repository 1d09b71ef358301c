/** The connection to one runtime, shared by the groups of ports. */
import { randomBytes } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { steadyNow } from '../../kernel/clock.ts';
import { type SecretHandle, Vault } from '../../kernel/journal/secrets.ts';
import { memberOf, OperationError } from '../../kernel/json.ts';
import type { ContainerStatus, Image, PodSandboxStatus } from '../../machines/model/api/cri.ts';
import type { PodRuntimeStatus } from '../../machines/model/operations/cri.ts';
import { type OnRuntimeActivity, observedClient } from './activity.ts';
import { CallsInProgress, type Outcome, StartingCalls } from './calls-in-progress.ts';
import { type CallOptions, connectRuntime, type Endpoints, type RuntimeClient } from './client.ts';
import { showsOutcome } from './hints.ts';
import { type Ids, Inspections, inspectInstance, PodIds } from './inspect.ts';
import { DEFAULT_RELIST_PERIODS, type RelistPeriods } from './relist-timer.ts';
import { ContainerSecrets, redactingClient, withoutSecrets } from './secrets.ts';
import type { PodWatcher } from './watch-pods.ts';

/** How long a runtime may take, after its answer to a call, to show the effect; then the pod is inspected. */
const SHOW_MS = 2_000;
/** The default of runtimeRequestTimeout. */
const REQUEST_TIMEOUT_MS = 120_000;
/** Calls per core that may be starting sandboxes or containers when a further sandbox is created. */
const STARTS_PER_CORE = 3;

export interface CriOptions extends Endpoints {
  /** runtimeRequestTimeout. Default 2 m. */
  readonly requestTimeoutMs?: number;
  readonly relistPeriods?: RelistPeriods;
  /** Milliseconds of the clock that stamps observations. */
  readonly now?: () => number;
  /** Receives faults that no machine handles, such as a broken event stream, which is reopened. */
  readonly warn?: (message: string) => void;
  readonly onSeen?: OnRuntimeActivity;
  /** Holds the values of Secrets for containers; absent if containers get none. */
  readonly vault?: Vault;
}

interface Statuses {
  readonly sandbox: PodSandboxStatus;
  readonly container: ContainerStatus;
}

export const isNotFound = (error: unknown) => error instanceof OperationError && error.code === 'NOT_FOUND';

/** The image name in the runtime's status; empty without one. */
export function sandboxImageIn(info: Readonly<Record<string, string>>): string {
  try {
    const image = memberOf(JSON.parse(info['config'] ?? '{}'), 'sandboxImage');
    return typeof image === 'string' ? image : '';
  } catch {
    return '';
  }
}

/**
 * The image of every sandbox. In a runtime that does not pin this image (containerd before 1.7.3), image garbage
 * collection would remove it, and no pod could start without a registry.
 *
 * The name is requested once per connection: the runtime reads it from its configuration at its start.
 */
export class SandboxImage {
  readonly #client: RuntimeClient;
  #name: Promise<string> | undefined;

  constructor(client: RuntimeClient) {
    this.#client = client;
  }

  async pinnedIn(images: readonly Image[], options: CallOptions): Promise<readonly Image[]> {
    this.#name ??= this.#client.call('Status', { verbose: true }, options).then(({ info }) => sandboxImageIn(info));
    const name = await this.#name.catch(() => {
      this.#name = undefined;
      return '';
    });
    if (name === '') return images;
    return images.map((image) => (image.repo_tags.includes(name) ? { ...image, pinned: true } : image));
  }
}

/** State and calls that the groups of ports share. */
export class Adapter {
  readonly client: RuntimeClient;
  readonly timeoutMs: number;
  readonly now: () => number;
  readonly periods: RelistPeriods;
  readonly warn: (message: string) => void;
  readonly onSeen: OnRuntimeActivity;
  readonly vault: Vault;
  readonly secrets = new ContainerSecrets();
  readonly watchers = new Set<PodWatcher>();
  readonly inspections = new Inspections();
  readonly own = new CallsInProgress();
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
    this.client = redactingClient(
      observedClient(connectRuntime(options), this.onSeen),
      (id) => this.secrets.of(id),
      this.vault,
    );
    this.sandboxImage = new SandboxImage(this.client);
  }

  limits(call: { readonly signal: AbortSignal }, timeoutMs: number | null = this.timeoutMs): CallOptions {
    return { timeoutMs, signal: call.signal };
  }

  /** Creates a sandbox or container of a pod. A failed call may have created one as well. */
  async making(kind: keyof Ids, uid: string | undefined, make: () => Promise<string>): Promise<string> {
    if (uid === undefined) return make();
    try {
      const id = await make();
      this.podIds.made(uid, kind, id);
      for (const watcher of this.watchers) watcher.learn(id, uid);
      return id;
    } catch (error) {
      this.podIds.invalidate(uid);
      throw error;
    }
  }

  /** Publishes an inspection that the pod's own actor requested. */
  publishOwnInspection(status: PodRuntimeStatus): void {
    for (const watcher of this.watchers) watcher.publishOwnInspection(status);
  }

  /**
   * The state that the runtime shows after a call with this expected outcome: from the event about it, or by an
   * inspection. `null`: the pod has to be inspected, which its watchers do as well.
   */
  async after<Kind extends keyof Statuses>(kind: Kind, id: string, outcome: Outcome): Promise<Statuses[Kind] | null> {
    const limits = { timeoutMs: SHOW_MS, signal: AbortSignal.timeout(SHOW_MS) };
    const observed = outcome === 'running' ? await this.own.stateAfterCall(id) : undefined;
    const instance = observed ?? (await inspectInstance(this.client, kind, id, limits).catch(() => undefined));
    if (!instance?.uid || !showsOutcome(outcome, instance)) {
      this.changed(id, outcome);
      return null;
    }
    for (const watcher of this.watchers) watcher.publishOwnInstance(instance);
    return instance.status as Statuses[Kind];
  }

  changed(id: string, outcome: Outcome): void {
    for (const watcher of this.watchers) watcher.called(id, outcome);
  }

  /** Stops a sandbox or container. A sandbox or container that the runtime does not know has ended. */
  async stopping<Kind extends keyof Statuses>(
    kind: Kind,
    id: string,
    stop: Promise<unknown>,
  ): Promise<{ status: Statuses[Kind] | null }> {
    const wasThere = await this.#nullIfNotFound(id, stop);
    const isKnown = !wasThere || [...this.watchers].some((watcher) => watcher.hasEnded(id));
    return { status: isKnown ? null : await this.after(kind, id, 'exited') };
  }

  /** Removes a sandbox or container. A sandbox or container that the runtime does not know is removed. */
  async removing(id: string, remove: () => Promise<unknown>): Promise<null> {
    const uid = [...this.watchers].map((watcher) => watcher.podOf(id)).find((pod) => pod !== undefined) ?? '';
    await this.own.removing(uid, () => this.#nullIfNotFound(id, remove()));
    this.podIds.gone(uid, new Set([id]));
    this.changed(id, 'gone');
    return null;
  }

  /** Removes secret values from errors, because the runtime may quote its input. */
  async redactingErrors<T>(secrets: readonly SecretHandle[], call: Promise<T>): Promise<T> {
    try {
      return await call;
    } catch (error) {
      throw withoutSecrets(error, secrets, this.vault);
    }
  }

  /** Changes a sandbox or container; after a failure its pod is inspected. */
  async attempt<T>(id: string, change: Promise<T>): Promise<T> {
    try {
      return await change;
    } catch (error) {
      this.changed(id, 'changed');
      throw error;
    }
  }

  /** As {@link after}; `false`: the runtime does not know the sandbox or container. */
  async #nullIfNotFound(id: string, change: Promise<unknown>): Promise<boolean> {
    try {
      await this.attempt(id, change);
      return true;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }
}
