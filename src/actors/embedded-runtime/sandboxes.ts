/**
 * The life of a sandbox: ready, not ready, removed. It has no process: containers only share its name.
 *
 * Invariants: one existing sandbox per name, uid, namespace and attempt; a sandbox that is not ready has no running
 * container; removing it removes its containers.
 */
import { status } from '@grpc/grpc-js';
import type { PodSandboxConfig } from '../../machines/model/api/cri.ts';
import { nowNanos } from './clock.ts';
import type { Containers } from './containers.ts';
import { CriError, invalid, unimplemented, wrongState } from './errors.ts';
import { RECORD_VERSION, type SandboxRecord } from './store/records.ts';
import type { Store } from './store/store.ts';

/** Sandboxes on one node, including stopped ones: far above what a node agent keeps. */
const MAX_SANDBOXES = 2_000;

export type SandboxChange = 'created' | 'started' | 'stopped' | 'deleted';

export class Sandboxes {
  readonly #store: Store;
  readonly #containers: Containers;
  readonly #changed: (record: SandboxRecord, change: SandboxChange) => void;

  constructor(store: Store, containers: Containers, changed: (record: SandboxRecord, change: SandboxChange) => void) {
    this.#store = store;
    this.#containers = containers;
    this.#changed = changed;
  }

  run(config: PodSandboxConfig | undefined, runtimeHandler: string): string {
    if (!config?.metadata) throw invalid('sandbox config must include metadata');
    if (runtimeHandler !== '') {
      throw wrongState(`failed to get sandbox runtime: no runtime for "${runtimeHandler}" is configured`);
    }
    const namespaces = config.linux?.security_context?.namespace_options ?? {};
    // Without user namespaces the containers would run as root of the machine, so such a sandbox is rejected.
    if (namespaces.userns_options?.mode === 'POD') {
      throw unimplemented('user namespaces are not supported: containers run as plain host processes');
    }
    if (this.#store.sandboxes.size >= MAX_SANDBOXES) {
      throw new CriError(status.RESOURCE_EXHAUSTED, `${MAX_SANDBOXES} sandboxes exist: remove some first`);
    }
    const { name = '', namespace = '', uid = '', attempt = 0 } = config.metadata;
    const record: SandboxRecord = {
      version: RECORD_VERSION,
      id: this.#store.newId(),
      name: [name, namespace, uid, attempt].join('_'),
      metadata: { name, namespace, uid, attempt },
      labels: config.labels ?? {},
      annotations: config.annotations ?? {},
      hostname: config.hostname ?? '',
      logDirectory: config.log_directory ?? '',
      namespaces,
      createdAt: String(nowNanos()),
      ready: true,
    };
    this.#store.addSandbox(record);
    this.#changed(record, 'created');
    this.#changed(record, 'started');
    return record.id;
  }

  /** Kills running containers: a caller that wants a grace period stops them first. */
  async stop(record: SandboxRecord): Promise<void> {
    if (record.ready) {
      // Saved first, so that nothing new can start in it.
      this.#store.saveSandbox({ ...record, ready: false });
    }
    await Promise.all(this.#store.containersOf(record.id).map((container) => this.#containers.stop(container, 0)));
    if (record.ready) this.#changed(this.#store.sandboxes.get(record.id) ?? record, 'stopped');
  }

  async remove(record: SandboxRecord): Promise<void> {
    await this.stop(record);
    for (const container of this.#store.containersOf(record.id)) await this.#containers.remove(container);
    this.#store.removeSandbox(record);
    this.#changed(record, 'deleted');
  }
}
