/**
 * The sandboxes and containers of the runtime, in memory and on disk.
 *
 * Owns ids and names. Invariants: records are written to disk before memory; a name belongs to one id; a prefix of an
 * id finds an object only if it is unique.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { containerNotFound, sandboxNotFound, wrongState } from '../errors.ts';
import type { ContainerRecord, ExitRecord, ProcessRecord, SandboxRecord } from './records.ts';
import { containerFiles, isContainerRecord, isSandboxRecord, readJson, writeJson } from './records.ts';

/** For the owner only: records contain environments. */
const DIRECTORY_MODE = 0o700;
/** Attempts to delete a folder: the last process of a killed container may still write into it. */
const DELETION_RETRIES = 5;

/** A container in the running runtime. */
export class Container {
  record: ContainerRecord;
  readonly directory: string;
  readonly files: ReturnType<typeof containerFiles>;
  process: ProcessRecord | undefined;
  exit: ExitRecord | undefined;
  starting = false;
  removing = false;
  stopSignalSent = false;
  /** The shim ended without reporting, and its remaining processes are being killed. */
  losing = false;
  /** Called after each reading of the files. */
  readonly listeners = new Set<() => void>();

  constructor(directory: string, record: ContainerRecord) {
    this.directory = directory;
    this.record = record;
    this.files = containerFiles(directory);
  }

  get id(): string {
    return this.record.id;
  }

  get running(): boolean {
    return this.process !== undefined && this.exit === undefined;
  }

  save(changes: Partial<ContainerRecord>): void {
    const record = { ...this.record, ...changes };
    writeJson(this.files.record, record);
    this.record = record;
  }
}

export class Store {
  readonly sandboxes = new Map<string, SandboxRecord>();
  readonly containers = new Map<string, Container>();
  readonly #sandboxRoot: string;
  readonly #containerRoot: string;
  readonly #sandboxNames = new Map<string, string>();
  readonly #containerNames = new Map<string, string>();

  constructor(root: string) {
    this.#sandboxRoot = join(root, 'sandboxes');
    this.#containerRoot = join(root, 'containers');
    for (const directory of [this.#sandboxRoot, this.#containerRoot]) {
      mkdirSync(directory, { recursive: true, mode: DIRECTORY_MODE });
    }
  }

  /** Loads the records of an earlier runtime. Returns the ids of containers with unusable records. */
  load(): readonly string[] {
    for (const file of readdirSync(this.#sandboxRoot)) {
      const record = file.endsWith('.json') ? readJson(join(this.#sandboxRoot, file), isSandboxRecord) : undefined;
      if (record) this.#keepSandbox(record);
      else rmSync(join(this.#sandboxRoot, file), { force: true, recursive: true });
    }
    const unusable: string[] = [];
    for (const id of readdirSync(this.#containerRoot)) {
      const container = this.#loadContainer(id);
      if (container) this.#keepContainer(container);
      else unusable.push(id);
    }
    return unusable;
  }

  #loadContainer(id: string): Container | undefined {
    const directory = join(this.#containerRoot, id);
    const record = readJson(join(directory, 'container.json'), isContainerRecord);
    if (record?.id !== id || !this.sandboxes.has(record.sandboxId)) return undefined;
    return new Container(directory, record);
  }

  /** Deletes the folder of a container that `load` could not use. */
  forgetUnusable(id: string): void {
    rmSync(join(this.#containerRoot, id), { force: true, recursive: true, maxRetries: DELETION_RETRIES });
  }

  newId(): string {
    return randomBytes(32).toString('hex');
  }

  addSandbox(record: SandboxRecord): void {
    const holder = this.#sandboxNames.get(record.name);
    if (holder !== undefined) throw reserved('sandbox', record.name, holder);
    this.saveSandbox(record);
  }

  saveSandbox(record: SandboxRecord): void {
    writeJson(this.#sandboxFile(record.id), record);
    this.#keepSandbox(record);
  }

  removeSandbox(record: SandboxRecord): void {
    rmSync(this.#sandboxFile(record.id), { force: true });
    this.sandboxes.delete(record.id);
    this.#sandboxNames.delete(record.name);
  }

  addContainer(record: ContainerRecord): Container {
    const holder = this.#containerNames.get(record.name);
    if (holder !== undefined) throw reserved('container', record.name, holder);
    const container = new Container(join(this.#containerRoot, record.id), record);
    mkdirSync(container.directory, { mode: DIRECTORY_MODE });
    container.save({});
    this.#keepContainer(container);
    return container;
  }

  removeContainer(container: Container): void {
    rmSync(container.directory, { force: true, recursive: true });
    this.containers.delete(container.id);
    this.#containerNames.delete(container.record.name);
  }

  sandbox(idOrPrefix: string): SandboxRecord {
    const found = findByPrefix(this.sandboxes, idOrPrefix);
    if (!found) throw sandboxNotFound(idOrPrefix);
    return found;
  }

  container(idOrPrefix: string): Container {
    const found = findByPrefix(this.containers, idOrPrefix);
    if (!found) throw containerNotFound(idOrPrefix);
    return found;
  }

  containersOf(sandboxId: string): readonly Container[] {
    return [...this.containers.values()].filter(({ record }) => record.sandboxId === sandboxId);
  }

  #sandboxFile(id: string): string {
    return join(this.#sandboxRoot, `${id}.json`);
  }

  #keepSandbox(record: SandboxRecord): void {
    this.sandboxes.set(record.id, record);
    this.#sandboxNames.set(record.name, record.id);
  }

  #keepContainer(container: Container): void {
    this.containers.set(container.id, container);
    this.#containerNames.set(container.record.name, container.id);
  }
}

export function findByPrefix<T>(objects: ReadonlyMap<string, T>, idOrPrefix: string): T | undefined {
  const exact = objects.get(idOrPrefix);
  if (exact !== undefined || idOrPrefix === '') return exact;
  const matching = [...objects.keys()].filter((id) => id.startsWith(idOrPrefix));
  return matching.length === 1 && matching[0] !== undefined ? objects.get(matching[0]) : undefined;
}

function reserved(kind: 'sandbox' | 'container', name: string, holder: string) {
  return wrongState(`failed to reserve ${kind} name "${name}": name "${name}" is reserved for "${holder}"`);
}
