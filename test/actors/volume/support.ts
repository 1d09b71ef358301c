/** A folder for volumes, ports on it, and a reader of the resulting files. */
import { execFileSync } from 'node:child_process';
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemCalls } from '../../../src/actors/host/kernel/syscall.ts';
import { type VolumeOptions, volumePorts } from '../../../src/actors/volume/index.ts';
import { Vault } from '../../../src/kernel/journal/secrets.ts';
import type { InputOf, OutputOf } from '../../../src/kernel/operation.ts';
import type { volumeOperations } from '../../../src/machines/model/operations/volume.ts';
import { requirement } from '../../support/require.ts';

type Operations = typeof volumeOperations;

export class VolumeRoom {
  readonly root = mkdtempSync(join(tmpdir(), 'statelet-volumes-'));
  readonly podDirectory = join(this.root, 'pods/u1');
  readonly vault = new Vault(Buffer.alloc(32, 1));
  readonly ports;

  constructor(options: VolumeOptions = {}) {
    mkdirSync(this.podDirectory, { recursive: true, mode: 0o750 });
    this.ports = volumePorts({ vault: this.vault, ...options });
  }

  async ask<Name extends keyof Operations>(
    name: Name,
    input: Omit<InputOf<Operations[Name]>, 'root' | 'podDirectory'>,
    signal = new AbortController().signal,
  ): Promise<OutputOf<Operations[Name]>> {
    const { root, podDirectory } = this;
    const call = { id: 1, input: { root, podDirectory, ...input }, resume: false, signal, emit: () => {} };
    return await (this.ports[name] as (call: unknown) => Promise<OutputOf<Operations[Name]>>)(call);
  }

  path(plugin: string, name: string): string {
    return join(this.podDirectory, 'volumes', `kubernetes.io~${plugin}`, name);
  }

  async close(): Promise<void> {
    await this.ask('volume.tearDown', {}).catch(() => {});
    rmSync(this.root, { recursive: true, force: true });
  }
}

interface Entry {
  readonly dir?: true;
  readonly link?: string;
  readonly mode?: string;
  readonly uid?: number;
  readonly gid?: number;
  readonly size?: number;
  readonly text?: string;
}

/** What lies below a folder, as the recordings write it. */
export function treeOf(folder: string, prefix = ''): Record<string, Entry> {
  return Object.assign(
    {},
    ...readdirSync(folder)
      .toSorted()
      .map((name) => {
        const path = join(folder, name);
        const shown = `${prefix}${plain(name)}`;
        const found = lstatSync(path);
        if (found.isSymbolicLink()) return { [shown]: { link: plain(readlinkSync(path)) } };
        const mode = (found.mode & 0o7777).toString(8).padStart(4, '0');
        const owner = { uid: found.uid, gid: found.gid };
        if (found.isDirectory()) return { [shown]: { dir: true, mode, ...owner }, ...treeOf(path, `${shown}/`) };
        return { [shown]: { mode, ...owner, size: found.size, text: readFileSync(path, 'utf8') } };
      }),
  ) as Record<string, Entry>;
}

const plain = (name: string): string => name.replace(/^\.\.\d{4}(_\d\d){5}\.\d+$/, '..<rand>');

const isRoot = process.getuid?.() === 0;
export const needsRoot = requirement('root', isRoot ? null : 'these tests change owners and mount').skip;
/** Why this kernel has no loop devices; null if it has. */
export function loopProblem(): string | null {
  try {
    execFileSync('losetup', ['-f'], { stdio: 'pipe' });
    return null;
  } catch (error) {
    return `losetup -f: ${String(error)}`;
  }
}

export const needsMounts = needsRoot || requirement('root', mountProblem()).skip;

/** Why this machine allows no mounts; null if it does. */
function mountProblem(): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'statelet-mount-'));
  try {
    const system = systemCalls();
    if (system === null) return 'no system calls here';
    system.mount('tmpfs', folder, 'size=65536');
    system.unmount(folder);
    return null;
  } catch (error) {
    return `mounting is not allowed: ${(error as Error).message}`;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
