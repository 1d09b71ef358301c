/**
 * A manager of units that answers like systemd's, on a bus of its own: `dbus-daemon` or the library's broker, both on a
 * real unix socket. A slice is a folder below `tree`; every call is recorded.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createBroker, createClient, DBusError, defineInterface, type MessageBus } from 'dbus-native';
import { onTestFinished } from 'vitest';

const DBUS_DAEMON = '/usr/bin/dbus-daemon';
const OBJECT = '/org/freedesktop/systemd1';
const MANAGER = 'org.freedesktop.systemd1.Manager';

export type BusKind = 'broker' | 'dbus-daemon';
export const BUS_KINDS: readonly BusKind[] = existsSync(DBUS_DAEMON) ? ['broker', 'dbus-daemon'] : ['broker'];

export async function startBus(kind: BusKind, folder: string): Promise<string> {
  const socket = join(folder, 'bus');
  if (kind === 'dbus-daemon') {
    const args = ['--session', '--nofork', '--nopidfile', '--print-address=1', `--address=unix:path=${socket}`];
    const daemon = spawn(DBUS_DAEMON, args, { stdio: ['ignore', 'pipe', 'ignore'] });
    onTestFinished(() => void daemon.kill('SIGKILL'));
    return firstLine(daemon);
  }
  const broker = createBroker();
  onTestFinished(() => void broker.close());
  return new Promise((resolve, reject) => {
    broker.listen({ socket }, (error, address) => (error ? reject(error) : resolve(address)));
  });
}

/** The address of a bus that accepts connections and answers nothing, as on an overloaded machine. */
export async function startMuteBus(folder: string): Promise<string> {
  const socket = join(folder, 'mute');
  const server = createServer((client) =>
    client.on('data', (chunk) => {
      if (String(chunk).includes('AUTH')) client.write(`OK ${'0'.repeat(32)}\r\n`);
      if (String(chunk).includes('NEGOTIATE_UNIX_FD')) client.write('ERROR\r\n');
    }),
  );
  onTestFinished(() => void server.close());
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  return `unix:path=${socket}`;
}

const firstLine = (daemon: ChildProcess): Promise<string> =>
  new Promise((resolve) => daemon.stdout!.once('data', (chunk) => resolve(String(chunk).split('\n')[0]!)));

type Properties = Readonly<Record<string, unknown>>;

export class FakeSystemd {
  readonly units = new Map<string, Properties>();
  readonly calls: string[] = [];
  /** The result of jobs. */
  result = 'done';
  /** The version in systemd's form. */
  version = '252.39-1~deb12u1';
  private bus: MessageBus | undefined;
  private readonly tree: string;
  private jobs = 0;

  constructor(tree: string) {
    this.tree = tree;
  }

  async serve(address: string): Promise<void> {
    const bus = createClient({ busAddress: address });
    this.bus = bus;
    onTestFinished(() => void bus.close());
    await bus.export(OBJECT, this.definition());
    await bus.ownName('org.freedesktop.systemd1');
  }

  async disconnect(): Promise<void> {
    await this.bus?.close();
  }

  private definition() {
    return defineInterface({
      name: MANAGER,
      methods: {
        Subscribe: { handler: () => null },
        StartTransientUnit: {
          in: { name: 's', mode: 's', properties: 'a(sv)', aux: 'a(sa(sv))' },
          out: { job: 'o' },
          handler: ({ name, mode, properties }) => this.start(name, mode, properties),
        },
        SetUnitProperties: {
          in: { name: 's', runtime: 'b', properties: 'a(sv)' },
          handler: ({ name, runtime, properties }) => this.set(name, runtime, properties),
        },
        StopUnit: {
          in: { name: 's', mode: 's' },
          out: { job: 'o' },
          handler: ({ name }) => this.stop(name),
        },
      },
      properties: { Version: { type: 's', get: () => this.version } },
      signals: { JobRemoved: { args: { id: 'u', job: 'o', unit: 's', result: 's' } } },
    });
  }

  private start(name: string, mode: string, properties: readonly [string, unknown][]): string {
    this.calls.push(`StartTransientUnit ${name} ${mode}`);
    if (this.units.has(name)) throw refusal('UnitExists', `Unit ${name} already exists.`);
    this.units.set(name, Object.fromEntries(properties));
    if (this.result === 'done') mkdirSync(this.folderOf(name), { recursive: true });
    return this.job(name);
  }

  private set(name: string, runtime: boolean, properties: readonly [string, unknown][]): null {
    this.calls.push(`SetUnitProperties ${name} ${String(runtime)}`);
    const unit = this.units.get(name);
    if (!unit) throw refusal('NoSuchUnit', `Unit ${name} not loaded.`);
    this.units.set(name, { ...unit, ...Object.fromEntries(properties) });
    return null;
  }

  private stop(name: string): string {
    this.calls.push(`StopUnit ${name}`);
    if (!this.units.delete(name)) throw refusal('NoSuchUnit', `Unit ${name} not loaded.`);
    rmSync(this.folderOf(name), { recursive: true, force: true });
    return this.job(name);
  }

  private job(name: string): string {
    this.jobs += 1;
    const path = `${OBJECT}/job/${this.jobs}`;
    const args = [this.jobs, path, name, this.result];
    setTimeout(() => this.bus?.sendSignal(OBJECT, MANAGER, 'JobRemoved', 'uoss', args), 5);
    return path;
  }

  /** `a-b.slice` is inside `a.slice`. */
  private folderOf(name: string): string {
    const steps = name.replace(/\.slice$/, '').split('-');
    return join(this.tree, ...steps.map((_, depth) => `${steps.slice(0, depth + 1).join('-')}.slice`));
  }
}

const refusal = (name: string, message: string): Error => {
  const error = new DBusError(message);
  error.dbusName = `org.freedesktop.systemd1.${name}`;
  return error;
};
