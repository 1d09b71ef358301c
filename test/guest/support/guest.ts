/**
 * A guest with systemd and cgroup v2, in software emulation (no kvm): booted from a copy of the system's disk,
 * controlled by scripts in its root shell.
 *
 * Emulation is 10 to 50 times slower than the real machine: tests wait for states, and time limits are only for hangs.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../support/ports.ts';
import { diskFile, type Hardware, makeDisk, processorsAndMemory } from './hardware.ts';
import type { System } from './system.ts';

/** The name of the node. */
export const NODE = 'guest';
const AGENT_PORT = 5000;
/** What takes seconds on the real machine may take minutes here. */
const SCRIPT_LIMIT_MS = 15 * 60_000;
const STATE_LIMIT_MS = 30 * 60_000;
/** Each poll starts a shell in the guest. */
const POLL_MS = 2_000;
/**
 * systemd gives a disk or a service 90 seconds and then gives up, which is too short for an emulator on a busy machine.
 */
const PATIENCE = 'systemd.default_device_timeout_sec=1800 systemd.default_timeout_start_sec=1800';
/**
 * Timers are late there, too: the kernel must not measure them, and a panic causes a reboot. Without `tsc=reliable` it
 * considers the processor's clock wrong, and then uses a clock that is slow to read and takes half of the time.
 */
const KERNEL = 'root=LABEL=system rw console=ttyS0 mitigations=off no_timer_check nowatchdog tsc=reliable panic=1';
const STATUS = /\n?status (\d+)\n$/;

export class Guest {
  private machine: ChildProcess | undefined;
  private port = 0;
  private readonly system: System;
  private readonly hardware: Hardware;
  /** Contains `disk.img`, which is changed, `input.img`, the other disks, and `console.log`. */
  private readonly folder: string;

  constructor(system: System, hardware: Hardware, folder: string) {
    this.system = system;
    this.hardware = hardware;
    this.folder = folder;
  }

  /** Starts the machine; resolves when systemd reports that it is up. */
  async boot(): Promise<void> {
    this.port = await freePort();
    const [program, ...argv] = emulator(this.system, this.hardware, this.folder, this.port);
    this.machine = spawn(program!, argv, { stdio: 'inherit' });
    await this.comesUp();
  }

  async comesUp(): Promise<void> {
    await this.until('the guest comes up', 'systemctl is-system-running', (printed) =>
      /^(running|degraded)/.test(printed),
    );
  }

  /** Runs a script and returns its output. Rejects if the script fails, unless `mayFail`. */
  async run(script: string, mayFail = false): Promise<string> {
    const printed = await this.exchange(script);
    const status = STATUS.exec(printed)?.[1];
    const output = printed.replace(STATUS, '');
    if (status !== '0' && !mayFail)
      throw new Error(`in the guest: ${script}\nended with ${status ?? 'no status'}:\n${output}`);
    return output;
  }

  /** Repeats the script until its output is as wanted. */
  async until(
    what: string,
    script: string,
    isSo: (output: string) => boolean,
    limitMs = STATE_LIMIT_MS,
  ): Promise<string> {
    const end = Date.now() + limitMs;
    let output = '';
    while (Date.now() < end) {
      if (!this.isOn()) throw new Error(`${what}: the guest is off`);
      output = await this.run(script, true).catch((error: Error) => error.message);
      if (isSo(output)) return output;
      await sleep(POLL_MS);
    }
    throw new Error(`${what}: not within ${limitMs / 60_000} minutes; ${script} said last:\n${output}`);
  }

  isOn(): boolean {
    return this.machine?.exitCode === null && this.machine.signalCode === null;
  }

  /** Waits until the machine turns itself off. */
  async goesOff(): Promise<void> {
    if (this.isOn()) await once(this.machine!, 'exit');
  }

  /** Ends the machine as a loss of power does. */
  async cut(): Promise<void> {
    this.machine?.kill('SIGKILL');
    await this.goesOff();
  }

  private exchange(script: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port: this.port, allowHalfOpen: true });
      const printed: Buffer[] = [];
      socket.setTimeout(SCRIPT_LIMIT_MS, () => socket.destroy(new Error(`no answer to ${script}`)));
      socket.on('data', (chunk: Buffer) => printed.push(chunk));
      socket.on('error', reject);
      socket.on('end', () => socket.end());
      socket.on('close', () => resolve(Buffer.concat(printed).toString('utf8')));
      socket.end(script);
    });
  }
}

function emulator(system: System, hardware: Hardware, folder: string, port: number): readonly string[] {
  const { emulator: root, kernel, initrd } = system;
  const [usr, libraries] = [join(root, 'usr'), join(root, 'usr/lib/x86_64-linux-gnu')];
  const disk = (file: string) => `file=${file},format=raw,if=virtio,cache=unsafe`;
  const options: Record<string, readonly string[]> = {
    '-M': ['q35'],
    '-accel': ['tcg,thread=multi,tb-size=1024'],
    // Without virtualization in the guest, whose driver would take long to load.
    '-cpu': ['max,-la57,-svm'],
    ...processorsAndMemory(hardware),
    '-L': [join(usr, 'share/qemu'), join(usr, 'share/seabios')],
    '-display': ['none'],
    '-monitor': ['none'],
    '-serial': [`file:${join(folder, 'console.log')}`],
    '-kernel': [kernel],
    '-initrd': [initrd],
    '-append': [`${KERNEL} ${PATIENCE} ${hardware.kernelOptions.join(' ')}`],
    '-drive': [
      disk(join(folder, 'disk.img')),
      `${disk(join(folder, 'input.img'))},readonly=on`,
      ...hardware.disks.map((each) => disk(diskFile(folder, each))),
    ],
    '-netdev': [`user,id=net,hostfwd=tcp:127.0.0.1:${port}-:${AGENT_PORT}`],
    '-device': ['virtio-net-pci,netdev=net,romfile=', 'virtio-rng-pci'],
  };
  const loader = join(libraries, 'ld-linux-x86-64.so.2');
  const given = Object.entries(options).flatMap(([name, values]) => values.flatMap((value) => [name, value]));
  return [loader, '--library-path', libraries, join(usr, 'bin/qemu-system-x86_64'), ...given];
}

/** The disks of a guest: its own, one with its input, and those of its hardware. */
export function makeDisks(system: System, hardware: Hardware, folder: string, input: string): void {
  if (!existsSync(system.disk)) throw new Error(`no disk at ${system.disk}`);
  execFileSync('cp', ['--sparse=always', '--reflink=auto', system.disk, join(folder, 'disk.img')]);
  execFileSync('mke2fs', ['-q', '-t', 'ext4', '-L', 'input', '-d', input, join(folder, 'input.img'), '320M']);
  for (const disk of hardware.disks) makeDisk(folder, disk);
}
