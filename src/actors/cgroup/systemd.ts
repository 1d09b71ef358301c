/**
 * Cgroups created by systemd: slices as transient units, over D-Bus.
 *
 * Owns the connection to the system bus, opened on demand and again after it broke. Starting an existing unit and
 * stopping a missing one succeed; a unit counts as started when systemd has finished its job.
 * Source: org.freedesktop.systemd1(5), systemd.resource-control(5).
 */
import { basename } from 'node:path';
import { DBusError, type Message, type MessageBus, Variant, variantValue } from 'dbus-native';
import { OperationError } from '../../kernel/json.ts';
import { keepNewest } from '../../kernel/keep-newest.ts';
import type { CgroupResources } from '../../machines/model/operations/cgroup.ts';
import { cpuIds } from '../../machines/model/values/cpu-set.ts';
import { busErrorName, connectBus, systemBusAddress } from '../bus.ts';
import { atLeastOne, isLimit } from './hierarchies.ts';

export interface SystemdManager {
  start(path: string, resources: CgroupResources, version: 1 | 2): Promise<void>;
  set(path: string, resources: CgroupResources, version: 1 | 2): Promise<void>;
  stop(path: string): Promise<void>;
  close(): void;
}

const SERVICE = 'org.freedesktop.systemd1';
const OBJECT = '/org/freedesktop/systemd1';
const MANAGER = 'org.freedesktop.systemd1.Manager';
/** systemd finishes the job of a slice at once; beyond this time it is stuck. */
const JOB_TIMEOUT_MS = 30_000;
/** systemd's "no limit". */
const INFINITY = 2n ** 64n - 1n;
const SLICE = '.slice';

type Property = readonly [name: string, value: Variant];

const flag = (name: string, value: boolean): Property => [name, new Variant('b', value)];
const amount = (name: string, value: bigint): Property => [name, new Variant('t', value)];

/** The properties of each slice of the agent, whatever its limits. */
function propertiesOfSlice(path: string, version: 1 | 2): Property[] {
  const parent = basename(path.slice(0, path.lastIndexOf('/'))) || `-${SLICE}`;
  return [
    ['Description', new Variant('s', `Kubernetes pods: ${basename(path)}`)],
    ['Wants', new Variant('as', [parent])],
    flag('DefaultDependencies', false),
    flag('MemoryAccounting', true),
    flag('CPUAccounting', true),
    flag(version === 2 ? 'IOAccounting' : 'BlockIOAccounting', true),
    flag('TasksAccounting', true),
  ];
}

const MICROSECONDS = 1_000_000n;
/** systemd keeps whole per cents of a CPU, so the quota is rounded up. */
const ONE_PER_CENT_US = 10_000n;
const DEFAULT_PERIOD_US = '100000';

/**
 * Limits that systemd can keep. Files get the rounded quota as well: on version 1 runtimes round the quotas of
 * containers in the same way, and the kernel refuses a quota above that of the group's parent.
 */
export function inWholePerCents(resources: CgroupResources): CgroupResources {
  const { cpuQuotaUs, cpuPeriodUs = DEFAULT_PERIOD_US } = resources;
  if (cpuQuotaUs === undefined || BigInt(cpuQuotaUs) <= 0n) return resources;
  const perSecond = quotaPerSecond(BigInt(cpuQuotaUs), BigInt(cpuPeriodUs));
  const rounded = (perSecond * BigInt(cpuPeriodUs)) / MICROSECONDS;
  return rounded > BigInt(cpuQuotaUs) ? { ...resources, cpuQuotaUs: String(rounded) } : resources;
}

/** The first versions of systemd that know a property; older ones refuse the whole request. */
const KNOWS_QUOTA_PERIOD = 242;
const KNOWS_CPUS = 244;

/** Properties that came late to cgroup v2. Without them systemd takes its default period, and the cpuset controller. */
function newerProperties({ cpuQuotaUs, cpuPeriodUs, cpus }: CgroupResources, release: number): Property[] {
  return [
    ...(cpuQuotaUs === undefined || cpuPeriodUs === undefined || release < KNOWS_QUOTA_PERIOD
      ? []
      : [amount('CPUQuotaPeriodUSec', BigInt(cpuPeriodUs))]),
    ...(cpus === undefined || release < KNOWS_CPUS
      ? []
      : [['AllowedCPUs', new Variant('ay', bitsOf(cpus))] satisfies Property]),
  ];
}

/** One bit a CPU, the first CPU in the lowest bit of the first byte. */
function bitsOf(cpus: string): Buffer {
  const ids = cpuIds(cpus);
  const bytes = Buffer.alloc(Math.floor(Math.max(0, ...ids) / 8) + 1);
  for (const id of ids) bytes.writeUInt8(bytes.readUInt8(id >> 3) | (1 << (id & 7)), id >> 3);
  return bytes;
}

const needsRelease = ({ cpuPeriodUs, cpus }: CgroupResources, version: 1 | 2): boolean =>
  version === 2 && (cpuPeriodUs !== undefined || cpus !== undefined);

/** Files of v2 that systemd overwrites from its own properties whenever it realizes the unit. */
const UNIFIED_PROPERTIES: Readonly<Record<string, string>> = {
  'memory.min': 'MemoryMin',
  'memory.low': 'MemoryLow',
  'memory.high': 'MemoryHigh',
  'memory.swap.max': 'MemorySwapMax',
};

function unifiedProperties(unified: Readonly<Record<string, string>>): Property[] {
  return Object.entries(unified).flatMap(([file, value]) => {
    const name = UNIFIED_PROPERTIES[file];
    return name === undefined ? [] : [amount(name, value === 'max' ? INFINITY : BigInt(value))];
  });
}

/** The same limits as systemd properties. The agent itself writes those that systemd cannot express. */
function propertiesOf(resources: CgroupResources, version: 1 | 2, weight: (shares: bigint) => bigint): Property[] {
  const { cpuShares, cpuQuotaUs, cpuPeriodUs = DEFAULT_PERIOD_US, memoryBytes, pids, unified = {} } = resources;
  return [
    ...(isLimit(memoryBytes)
      ? [amount(version === 2 ? 'MemoryMax' : 'MemoryLimit', memoryBytes === '-1' ? INFINITY : BigInt(memoryBytes))]
      : []),
    ...(cpuShares === undefined
      ? []
      : [version === 2 ? amount('CPUWeight', weight(BigInt(cpuShares))) : amount('CPUShares', BigInt(cpuShares))]),
    ...(cpuQuotaUs === undefined
      ? []
      : [amount('CPUQuotaPerSecUSec', quotaPerSecond(BigInt(cpuQuotaUs), BigInt(cpuPeriodUs)))]),
    ...(pids === undefined ? [] : [amount('TasksMax', pids === 'max' ? INFINITY : BigInt(atLeastOne(pids)))]),
    ...(version === 2 ? unifiedProperties(unified) : []),
  ];
}

function quotaPerSecond(quotaUs: bigint, periodUs: bigint): bigint {
  if (quotaUs <= 0n) return INFINITY;
  const exact = (quotaUs * MICROSECONDS) / periodUs;
  return ((exact + ONE_PER_CENT_US - 1n) / ONE_PER_CENT_US) * ONE_PER_CENT_US;
}

/** `address`: of the bus, in D-Bus notation; default: the system bus. */
export function systemdManager(
  weight: (shares: bigint) => bigint,
  address = systemBusAddress(),
  timeoutMs?: number,
): SystemdManager {
  let connecting: Promise<Connection> | undefined;
  const connection = (): Promise<Connection> =>
    (connecting ??= connect(address, timeoutMs, () => (connecting = undefined)).catch((error: unknown) => {
      connecting = undefined;
      throw error;
    }));
  const limits = async (resources: CgroupResources, version: 1 | 2): Promise<Property[]> => {
    const release = needsRelease(resources, version) ? await (await connection()).release() : 0;
    return [...propertiesOf(resources, version, weight), ...newerProperties(resources, release)];
  };
  const setProperties: SystemdManager['set'] = async (path, resources, version) => {
    const body = [unitOf(path), true, await limits(resources, version)];
    await (await connection()).call('SetUnitProperties', 'sba(sv)', body);
  };
  const job = async (member: string, signature: string, body: unknown[]) =>
    (await connection()).job(member, signature, body);
  return {
    async start(path, resources, version) {
      const properties = [...propertiesOfSlice(path, version), ...(await limits(resources, version))];
      const body = [unitOf(path), 'replace', properties, []];
      await ignoreError('UnitExists', job('StartTransientUnit', 'ssa(sv)a(sa(sv))', body));
      await setProperties(path, resources, version);
    },
    set: setProperties,
    async stop(path) {
      await ignoreError('NoSuchUnit', job('StopUnit', 'ss', [unitOf(path), 'replace']));
    },
    close() {
      void connecting?.then((open) => open.close()).catch(() => undefined);
    },
  };
}

function unitOf(path: string): string {
  const unit = basename(path);
  if (!unit.endsWith(SLICE)) throw new OperationError(`not a slice of systemd: ${JSON.stringify(path)}`);
  return unit;
}

async function ignoreError(name: string, promise: Promise<unknown>): Promise<void> {
  try {
    await promise;
  } catch (error) {
    if (!(error instanceof OperationError) || error.code !== `${SERVICE}.${name}`) throw error;
  }
}

interface Connection {
  call(member: string, signature: string, body: unknown[]): Promise<unknown>;
  /** Resolves when the job that the call started has finished. */
  job(member: string, signature: string, body: unknown[]): Promise<void>;
  /** The release of systemd, `255`; 0 if it does not say. */
  release(): Promise<number>;
  close(): void;
}

async function connect(address: string, timeoutMs: number | undefined, onClosed: () => void): Promise<Connection> {
  const { bus, broken } = connectBus(address, (why) => unreachable(address, why), timeoutMs);
  broken.catch(onClosed);
  const call = async (member: string, signature: string, body: unknown[]) => {
    const message: Message = { destination: SERVICE, path: OBJECT, interface: MANAGER, member, signature, body };
    try {
      return await Promise.race([bus.invoke(signature === '' ? withoutBody(message) : message), broken]);
    } catch (error) {
      throw asOperationError(member, error);
    }
  };
  const jobs = finishedJobs(bus);
  let found: number | undefined;
  await Promise.race([bus.watch(`type='signal',interface='${MANAGER}',member='JobRemoved'`), broken]);
  await call('Subscribe', '', []);
  return {
    call,
    async job(member, signature, body) {
      const path = String(await call(member, signature, body));
      const result = await Promise.race([jobs.finished(path), broken]);
      if (result !== 'done') throw new OperationError(`systemd: the job of ${member} ${String(body[0])}: ${result}`);
    },
    release: async () => (found ??= await Promise.race([releaseOf(bus), broken])),
    close: () => void bus.close(),
  };
}

const PROPERTIES = 'org.freedesktop.DBus.Properties';

async function releaseOf(bus: MessageBus): Promise<number> {
  const of = { destination: SERVICE, path: OBJECT, interface: PROPERTIES, member: 'Get' };
  const version = await bus.invoke({ ...of, signature: 'ss', body: [MANAGER, 'Version'] }).catch(() => '');
  return Number(/\d+/.exec(String(variantValue(version)))?.[0] ?? 0);
}

const withoutBody = ({ signature: _signature, body: _body, ...message }: Message): Message => message;

const unreachable = (address: string, why: string): OperationError =>
  new OperationError(
    `cannot speak to systemd over ${address}: ${why}; is this machine started by systemd? ` +
      'If not, use cgroupDriver cgroupfs in the configuration of kubelet and runtime',
    { code: 'UNAVAILABLE', retriable: true },
  );

function asOperationError(member: string, error: unknown): unknown {
  if (!(error instanceof DBusError)) return error;
  return new OperationError(`systemd: ${member}: ${error.message}`, { code: busErrorName(error) });
}

/** The results of jobs, including those that end before the caller awaits them. */
function finishedJobs(bus: MessageBus) {
  const ended = new Map<string, string>();
  const waiting = new Map<string, (result: string) => void>();
  bus.connection.on('message', ({ member, interface: name, body }: Message) => {
    if (name !== MANAGER || member !== 'JobRemoved' || !Array.isArray(body)) return;
    const [, path, , result] = body.map(String);
    if (path === undefined || result === undefined) return;
    const settle = waiting.get(path);
    if (settle) settle(result);
    else keepNewest(ended.set(path, result), ENDED_JOBS_MAX);
  });
  return {
    finished(path: string): Promise<string> {
      const early = ended.get(path);
      if (early !== undefined) return Promise.resolve(early);
      return new Promise((resolve) => {
        const timer = setTimeout(() => finish('timed out'), JOB_TIMEOUT_MS);
        const finish = (result: string) => {
          clearTimeout(timer);
          waiting.delete(path);
          resolve(result);
        };
        waiting.set(path, finish);
      });
    },
  };
}

/** Results kept for later callers; they include other programs' jobs, so the oldest are dropped. */
const ENDED_JOBS_MAX = 256;
