/** A node's folder, a CSI driver on a real socket, and the ports between them. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { csiPorts } from '../../../src/actors/csi/index.ts';
import { systemCalls } from '../../../src/actors/host/kernel/syscall.ts';
import { mountsBelow } from '../../../src/actors/volume/mounter.ts';
import { Vault } from '../../../src/kernel/journal/secrets.ts';
import type { InputOf, OutputOf } from '../../../src/kernel/operation.ts';
import type { csiOperations } from '../../../src/machines/model/operations/csi.ts';
import { type CsiDriver, startCsiDriver } from '../../fakes/csi-driver.ts';

type Operations = typeof csiOperations;

export class CsiRoom {
  readonly root = mkdtempSync(join(tmpdir(), 'statelet-csi-'));
  readonly podDirectory = join(this.root, 'pods/u1');
  readonly endpoint = join(this.root, 'csi.sock');
  readonly vault = new Vault(Buffer.alloc(32, 1));
  readonly ports = csiPorts({ vault: this.vault });
  driver!: CsiDriver;

  async open(capabilities: readonly string[] = ['STAGE_UNSTAGE_VOLUME']): Promise<this> {
    mkdirSync(this.podDirectory, { recursive: true });
    this.driver = await startCsiDriver({ socket: join(this.root, 'reg.sock'), endpoint: this.endpoint, capabilities });
    return this;
  }

  async ask<Name extends keyof Operations>(
    name: Name,
    input: Omit<InputOf<Operations[Name]>, 'root' | 'endpoint' | 'podDirectory'>,
  ): Promise<OutputOf<Operations[Name]>> {
    const { root, podDirectory, endpoint } = this;
    const { signal } = new AbortController();
    const call = { id: 1, input: { root, podDirectory, endpoint, ...input }, resume: false, signal, emit: () => {} };
    return await (this.ports[name] as (call: unknown) => Promise<OutputOf<Operations[Name]>>)(call);
  }

  mounts(): Promise<readonly string[]> {
    return mountsBelow(this.root);
  }

  methods(): string[] {
    return this.driver.calls.map(({ method }) => method);
  }

  record(directory: string): unknown {
    const path = join(directory, 'vol_data.json');
    return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : null;
  }

  async close(): Promise<void> {
    this.driver.close();
    for (const point of await this.mounts()) systemCalls()!.unmount(point);
    rmSync(this.root, { recursive: true, force: true });
  }
}
