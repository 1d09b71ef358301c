/**
 * A login manager that answers like systemd's, on a real bus: delays, inhibitor locks as descriptors, and the signal
 * before a shutdown. It has the other end of each lock, and so knows which locks are held.
 */
import { execFileSync } from 'node:child_process';
import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs';
import { createRequire } from 'node:module';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { createClient, defineInterface, type Message, type MessageBus } from 'dbus-native';
import { onTestFinished } from 'vitest';

const SERVICE = 'org.freedesktop.login1';
const OBJECT = '/org/freedesktop/login1';
const MANAGER = 'org.freedesktop.login1.Manager';
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
const MSG_NOSIGNAL = 0x4000;

interface Lock {
  /** `what who why mode` as given by the client. */
  readonly asked: readonly string[];
  isHeld(): boolean;
}

export class FakeLogind {
  readonly locks: Lock[] = [];
  /** The signals that were sent to it by systemd. */
  readonly reloads: unknown[][] = [];
  delayUs = 5_000_000n;
  /** The duration of reading its configuration again. */
  reloadMs = 0;
  /** The folder of its configuration, which is read again at each reload. */
  readonly #configuration: string;
  readonly #folder: string;
  #bus: MessageBus | undefined;

  constructor(folder: string) {
    this.#folder = folder;
    this.#configuration = join(folder, 'logind.conf.d/99-kubelet.conf');
  }

  async serve(address: string): Promise<void> {
    const bus = createClient({ stream: descriptorStream(connect(address.replace(/^unix:path=([^,]*).*$/, '$1'))) });
    this.#bus = bus;
    onTestFinished(() => void bus.close());
    await bus.export(OBJECT, this.#definition());
    const reload = (...args: readonly unknown[]): null => this.#reload(args.slice(0, -1));
    bus.setMethodCallHandler('/org/freedesktop/systemd1', 'org.freedesktop.systemd1.Manager', 'KillUnit', [reload, '']);
    await bus.ownName(SERVICE);
    await bus.ownName('org.freedesktop.systemd1');
  }

  prepareForShutdown(active: boolean): void {
    this.#bus?.sendSignal(OBJECT, MANAGER, 'PrepareForShutdown', 'b', [active]);
  }

  async disconnect(): Promise<void> {
    await this.#bus?.close();
  }

  #definition() {
    return defineInterface({
      name: MANAGER,
      methods: {
        Inhibit: {
          in: { what: 's', who: 's', why: 's', mode: 's' },
          out: { lock: 'h' },
          handler: (asked: Record<string, string>, { message }: { message?: Message }) =>
            this.#inhibit(message!, Object.values(asked)),
        },
      },
      properties: { InhibitDelayMaxUSec: { type: 't', get: () => this.delayUs } },
      signals: { PrepareForShutdown: { args: { active: 'b' } } },
    });
  }

  #reload(body: unknown[]): null {
    this.reloads.push(body);
    const read = (): void => {
      const seconds = /^InhibitDelayMaxSec=(\d+)$/m.exec(readFileSync(this.#configuration, 'utf8'))?.[1];
      this.delayUs = BigInt(seconds ?? 5) * 1_000_000n;
    };
    if (this.reloadMs === 0) read();
    else setTimeout(read, this.reloadMs);
    return null;
  }

  /** A lock is the writing end of a pipe: it is held while a process has it open. */
  #inhibit(message: Message, asked: readonly string[]): Promise<never> {
    const pipe = join(this.#folder, `lock-${this.locks.length}`);
    execFileSync('mkfifo', [pipe]);
    const reading = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
    const writing = openSync(pipe, constants.O_WRONLY);
    onTestFinished(() => closeSync(reading));
    const { sender, serial } = message;
    this.#bus?.connection.message({
      type: 2,
      serial: this.#bus.serial++,
      replySerial: serial!,
      destination: sender!,
      signature: 'h',
      body: [0],
      fds: [writing],
    });
    closeSync(writing);
    this.locks.push({ asked, isHeld: () => isOpenElsewhere(reading) });
    // The library cannot answer with a descriptor: the answer has been sent above.
    return new Promise(() => {});
  }
}

function isOpenElsewhere(reading: number): boolean {
  try {
    return readSync(reading, Buffer.alloc(1)) > 0;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EAGAIN';
  }
}

/** A socket that can send descriptors, which Node's own cannot. */
function descriptorStream(socket: Socket): Socket {
  const koffi: typeof import('koffi') = createRequire(import.meta.url)('koffi');
  const sendmsg: (...args: readonly unknown[]) => number = koffi
    .load(null)
    .func('int64_t sendmsg(int fd, const void *message, int flags)');
  const writeWithFds = (bytes: Buffer, fds: readonly number[]): boolean => {
    const { fd } = (socket as unknown as { _handle: { fd: number } })._handle;
    const control = controlMessage(fds);
    const vector = Buffer.alloc(16);
    vector.writeBigUInt64LE(koffi.address(bytes), 0);
    vector.writeBigUInt64LE(BigInt(bytes.length), 8);
    const message = Buffer.alloc(56);
    message.writeBigUInt64LE(koffi.address(vector), 16);
    message.writeBigUInt64LE(1n, 24);
    message.writeBigUInt64LE(koffi.address(control), 32);
    message.writeBigUInt64LE(BigInt(control.length), 40);
    if (sendmsg(fd, message, MSG_NOSIGNAL) !== bytes.length) throw new Error('a descriptor could not be sent');
    return true;
  };
  return Object.assign(socket, { writeWithFds });
}

/** `struct cmsghdr` with the descriptors, on a 64-bit machine. */
function controlMessage(fds: readonly number[]): Buffer {
  const control = Buffer.alloc(16 + Math.ceil((fds.length * 4) / 8) * 8);
  control.writeBigUInt64LE(BigInt(16 + fds.length * 4), 0);
  control.writeInt32LE(SOL_SOCKET, 8);
  control.writeInt32LE(SCM_RIGHTS, 12);
  for (const [index, fd] of fds.entries()) control.writeInt32LE(fd, 16 + index * 4);
  return control;
}
