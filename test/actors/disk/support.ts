/** A machine of files and programs that stand in for iSCSI targets and Fibre Channel networks; disks are loop devices. */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { diskPorts } from '../../../src/actors/disk/index.ts';
import type { DiskMachine } from '../../../src/actors/disk/machine.ts';
import { Vault } from '../../../src/kernel/journal/secrets.ts';
import type { InputOf, OutputOf } from '../../../src/kernel/operation.ts';
import type { diskOperations } from '../../../src/machines/model/operations/disk.ts';
import { requirement } from '../../support/require.ts';
import { writeProgram } from '../../support/stand-in.ts';
import { needsMounts } from '../volume/support.ts';

type Operations = typeof diskOperations;

const DISK_BYTES = 16 * 1024 * 1024;
const LOOP_CONTROL = '/dev/loop-control';
export const needsDisks =
  needsMounts || requirement('loop', existsSync(LOOP_CONTROL) ? null : `no ${LOOP_CONTROL}`).skip;

export class DiskRoom {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), 'statelet-disks-')));
  readonly pod = join(this.root, 'pods/u1');
  readonly vault = new Vault(Buffer.alloc(32, 1));
  readonly machine: DiskMachine = {
    sys: this.file('machine/sys'),
    dev: this.file('machine/dev'),
    programs: `${this.file('machine/bin')}/`,
    pollMs: 5,
  };
  readonly ports = diskPorts({ vault: this.vault, machine: this.machine });
  readonly #loops: string[] = [];

  constructor() {
    for (const folder of ['class/iscsi_host', 'class/scsi_host', 'block']) this.folder('machine/sys', folder);
    for (const folder of ['disk/by-path', 'disk/by-id']) this.folder('machine/dev', folder);
    this.folder('machine/bin');
    mkdirSync(this.pod, { recursive: true });
    for (const name of ['mount', 'umount', 'blkid', 'fsck', 'mkfs.ext4', 'tee']) this.become(name, `exec ${name} "$@"`);
    for (const name of ['multipath', 'blockdev']) this.become(name, 'true');
  }

  file(...parts: readonly string[]): string {
    return join(this.root, ...parts);
  }

  folder(...parts: readonly string[]): string {
    const path = this.file(...parts);
    mkdirSync(path, { recursive: true });
    return path;
  }

  /** Makes a program do this after it has written down its arguments. */
  become(name: string, script: string): void {
    const calls = `echo "${name} $*" >> ${this.file('calls')}`;
    writeProgram(this.file('machine/bin', name), `#!/bin/bash\n${calls}\n${script}\n`);
  }

  /** The calls since the last question, without the paths of this room. */
  calls(): readonly string[] {
    const file = this.file('calls');
    if (!existsSync(file)) return [];
    const lines = readFileSync(file, 'utf8').trim().split('\n');
    rmSync(file);
    return lines
      .map((line) => this.#loops.reduce((text, loop) => text.replaceAll(loop, 'LOOP'), line))
      .map((line) => line.replaceAll(this.root, ''));
  }

  /** A blank disk, as `/dev/loop0`. */
  disk(): string {
    const image = this.file(`disk-${this.#loops.length}.img`);
    writeFileSync(image, '');
    truncateSync(image, DISK_BYTES);
    const loop = execFileSync('losetup', ['--find', '--show', image], { encoding: 'utf8' }).trim();
    this.#loops.push(loop);
    return loop;
  }

  /** A link below the folder of devices. */
  link(path: string, device: string): void {
    symlinkSync(device, this.file('machine/dev', path));
  }

  async ask<Name extends keyof Operations>(
    name: Name,
    input: Omit<InputOf<Operations[Name]>, 'root'>,
  ): Promise<OutputOf<Operations[Name]>> {
    const { signal } = new AbortController();
    const call = { id: 1, input: { root: this.root, ...input }, resume: false, signal, emit: () => {} };
    return await (this.ports[name] as (call: unknown) => Promise<OutputOf<Operations[Name]>>)(call);
  }

  mounts(): readonly string[] {
    return readFileSync('/proc/self/mountinfo', 'utf8')
      .split('\n')
      .filter((line) => line.includes(this.root));
  }

  close(): void {
    for (const line of this.mounts().toReversed()) execFileSync('umount', ['--lazy', line.split(' ')[4]!]);
    for (const loop of this.#loops) execFileSync('losetup', ['--detach', loop]);
    rmSync(this.root, { recursive: true, force: true });
  }
}
