/**
 * logind over the system bus: its maximum delay, shutdowns of the machine, and the inhibitor lock.
 *
 * The lock is a descriptor, which Node cannot receive over D-Bus; `systemd-inhibit` holds it as long as its child runs,
 * and the child runs as long as our end of its input is open. So the lock ends with this process, however it ends.
 * Source: org.freedesktop.login1(5), systemd-inhibit(1), logind.conf(5).
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { DBusError, type Message } from 'dbus-native';
import { OperationError } from '../../kernel/json.ts';
import type { Ports } from '../../kernel/operation.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { logindOperations } from '../../machines/model/operations/logind.ts';
import { busErrorName, CALL_TIMEOUT_MS, connectBus, systemBusAddress } from '../bus.ts';
import { replaceFile } from '../host/soft-state.ts';

const SERVICE = 'org.freedesktop.login1';
const OBJECT = '/org/freedesktop/login1';
const MANAGER = 'org.freedesktop.login1.Manager';
const CONFIGURATION = '/etc/systemd/logind.conf.d';
const OVERRIDE = '99-kubelet.conf';
const SIGHUP = 1;
const US_PER_MS = 1_000n;
const MS_PER_SECOND = 1_000;
/** The pauses between reads of the delay after a reload, as upstream. */
const DELAY_CHECK_PAUSES_MS = [100, 200, 400, 800];
/** Go's zero time in JSON. */
const GO_ZERO_TIME = '0001-01-01T00:00:00Z';

export interface LogindOptions {
  /** The address of the system bus, in D-Bus notation. */
  readonly address?: string;
  /** logind's drop-in folder. */
  readonly configuration?: string;
}

type LogindPorts = Ports<typeof logindOperations>;

export function logindPorts(options: LogindOptions = {}): LogindPorts {
  const address = options.address ?? systemBusAddress();
  const configuration = options.configuration ?? CONFIGURATION;
  return {
    'logind.inhibitDelay': async () => ({ delayMs: await inhibitDelay(address) }),
    'logind.overrideInhibitDelay': async ({ input: { seconds } }) => {
      await overrideDelay(configuration, seconds);
      await reloadLogind(address);
      await untilInhibitDelay(address, seconds * MS_PER_SECOND);
      return null;
    },
    'logind.inhibitShutdown': async ({ signal, ...call }) => {
      await holdLock(address, signal, () => call.emit({ type: 'inhibit.held' }));
      return null;
    },
    'logind.watchShutdown': async ({ signal, ...call }) => {
      await watchShutdown(address, signal, (active) => call.emit({ type: 'shutdown.prepared', active }));
      return null;
    },
    'logind.storeShutdown': async ({ id, input: { path, startMs, endMs } }) => {
      const timeOf = (ms: number | null): string => (ms === null ? GO_ZERO_TIME : new Date(ms).toISOString());
      const state = { startTime: timeOf(startMs), endTime: timeOf(endMs) };
      // The machine may lose its power at any moment from now on.
      await replaceFile(path, JSON.stringify(state), id);
      return null;
    },
  };
}

interface Bus {
  call(message: Message): Promise<unknown>;
  /** Receives every message; rejects when the bus connection breaks. */
  listen(match: string, onMessage: (message: Message) => void, signal: AbortSignal): Promise<void>;
  close(): void;
}

function openBus(address: string): Bus {
  const explain = (why: string): OperationError =>
    new OperationError(`cannot speak to the system's bus over ${address}: ${why}`, {
      code: 'UNAVAILABLE',
      retriable: true,
    });
  const { bus: client, broken } = connectBus(address, explain);
  return {
    call: (message) => Promise.race([client.invoke(message, { timeout: CALL_TIMEOUT_MS }), broken]),
    async listen(match, onMessage, signal) {
      client.connection.on('message', onMessage);
      await Promise.race([client.watch(match), broken]);
      const aborted = once(signal, 'abort');
      if (!signal.aborted) await Promise.race([aborted, broken]);
    },
    close: () => void client.close(),
  };
}

async function withBus<Result>(address: string, use: (bus: Bus) => Promise<Result>): Promise<Result> {
  const bus = openBus(address);
  try {
    return await use(bus);
  } finally {
    bus.close();
  }
}

/** The error of a call, with the peer's name of the error. */
function refusal(what: string, error: unknown): unknown {
  if (!(error instanceof DBusError)) return error;
  return new OperationError(`${what}: ${error.message}`, { code: busErrorName(error), retriable: true });
}

async function inhibitDelay(address: string): Promise<number> {
  const message: Message = {
    destination: SERVICE,
    path: OBJECT,
    interface: 'org.freedesktop.DBus.Properties',
    member: 'Get',
    signature: 'ss',
    body: [MANAGER, 'InhibitDelayMaxUSec'],
  };
  try {
    const value = await withBus(address, (bus) => bus.call(message));
    const delayUs = BigInt(String(unwrapped(value)));
    return Number(delayUs / US_PER_MS);
  } catch (error) {
    throw refusal('failed reading InhibitDelayMaxUSec property from logind', error);
  }
}

/** logind reads its configuration only after it has answered: waits briefly for the longer delay. */
async function untilInhibitDelay(address: string, wantedMs: number): Promise<void> {
  for (const pauseMs of DELAY_CHECK_PAUSES_MS) {
    if ((await inhibitDelay(address)) >= wantedMs) return;
    await sleep(pauseMs);
  }
}

/** A variant, in any form that the library returns. */
function unwrapped(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if ('value' in value) return unwrapped(value.value);
  return Array.isArray(value) ? unwrapped(value.at(-1)) : value;
}

async function reloadLogind(address: string): Promise<void> {
  const message: Message = {
    destination: 'org.freedesktop.systemd1',
    path: '/org/freedesktop/systemd1',
    interface: 'org.freedesktop.systemd1.Manager',
    member: 'KillUnit',
    signature: 'ssi',
    body: ['systemd-logind.service', 'all', SIGHUP],
  };
  try {
    await withBus(address, (bus) => bus.call(message));
  } catch (error) {
    throw refusal('unable to reload logind conf', error);
  }
}

async function overrideDelay(folder: string, seconds: number): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o755 });
  const text = `# Kubelet logind override\n[Login]\nInhibitDelayMaxSec=${seconds}\n`;
  await writeFile(`${folder}/${OVERRIDE}`, text, { mode: 0o644 });
}

async function watchShutdown(address: string, signal: AbortSignal, report: (active: boolean) => void): Promise<void> {
  const match = `type='signal',interface='${MANAGER}',member='PrepareForShutdown',path='${OBJECT}'`;
  const onMessage = ({ interface: name, member, body }: Message): void => {
    const active: unknown = body?.[0];
    if (name === MANAGER && member === 'PrepareForShutdown' && typeof active === 'boolean') report(active);
  };
  await withBus(address, (bus) => bus.listen(match, onMessage, signal));
}

const LOCK = [
  '--what=shutdown',
  '--who=kubelet',
  '--why=Kubelet needs time to handle node shutdown',
  '--mode=delay',
  // `cat` returns its input: its answer shows that it runs, so the lock is held. It ends when its input ends.
  'cat',
];

async function holdLock(address: string, signal: AbortSignal, onAcquired: () => void): Promise<void> {
  const environment = { ...process.env, DBUS_SYSTEM_BUS_ADDRESS: address };
  const holder = spawn('systemd-inhibit', LOCK, { env: environment, stdio: 'pipe' });
  let output = '';
  holder.stderr.on('data', (chunk) => (output = `${output}${String(chunk)}`.slice(-1_000)));
  holder.stdout.once('data', onAcquired);
  holder.stdin.on('error', () => {});
  const release = (): void => void holder.stdin.end();
  signal.addEventListener('abort', release, { once: true });
  holder.stdin.write('.');
  if (signal.aborted) release();
  try {
    const [code] = (await once(holder, 'close')) as [number | null];
    if (!signal.aborted)
      throw new OperationError(`failed creating systemd inhibitor: ${output.trim() || `exit code ${code}`}`);
  } catch (error) {
    const [code, message] = [codeOf(error), messageOf(error)];
    if (code !== 'ENOENT') throw error;
    throw new OperationError(`failed creating systemd inhibitor: ${message}; is systemd installed?`, { code });
  } finally {
    signal.removeEventListener('abort', release);
  }
}
