/**
 * The capacity of this node, its reservations, and the part allocatable to pods.
 *
 * Amounts are exact (1e-9 units as bigint inside, quantity texts outside). Pure. Upstream:
 * pkg/kubelet/cm/node_container_manager_linux.go.
 */

import { parseEvictionThresholds } from '../configuration/eviction-thresholds.ts';
import type { StringMap } from '../configuration/field-types.ts';
import type { KubeletConfiguration } from '../configuration/fields.ts';
import { thresholdAmount } from '../eviction/thresholds.ts';
import type { MachineInfo } from '../operations/host.ts';
import { type Decider, hasBehavior } from '../settings/behaviors.ts';
import { formatCpuSet, parseCpuSet } from '../values/cpu-set.ts';
import { type Parsed, quote } from '../values/go-text.ts';
import { divideUp, formatBinary, formatDecimal, fromWhole, type Nano, nanoOf, wholeUnits } from '../values/quantity.ts';
import { mapValues } from '../values/tables.ts';

export interface NodeResources {
  readonly capacity: StringMap;
  readonly allocatable: StringMap;
  /** Resources reserved for the daemons of Kubernetes and of the system. */
  readonly kubeReserved: StringMap;
  readonly systemReserved: StringMap;
  /** The limit of the cgroup of all pods, where it is enforced: allocatable minus the eviction reserve. */
  readonly podsLimit: StringMap;
  /** The kernel's maximum number of processes. */
  readonly pidMax: string;
}

type Amounts = Readonly<Record<string, Nano>>;
type Settings = Pick<
  KubeletConfiguration,
  'kubeReserved' | 'systemReserved' | 'evictionHard' | 'maxPods' | 'podsPerCore' | 'reservedSystemCPUs'
> & { readonly ignoreEviction: boolean };

export interface NodeFacts {
  readonly machine: MachineInfo;
  /** Size of the file system of the root directory; `null` if local storage is not counted. */
  readonly storageBytes: string | null;
}

const HUGE_PAGES = 'hugepages-';

/** Fails if a reserved CPU does not exist, or more is reserved than the machine has. */
export function nodeResources(settings: Settings, facts: NodeFacts, decider: Decider): Parsed<NodeResources> {
  const reserved = reservations(settings, facts.machine);
  if (reserved.error !== undefined) return reserved;
  const capacity = capacityOf(settings, facts);
  const eviction = evictionReservation(settings, capacity);
  const { kube, system } = reserved.value;
  const isAsKubelet = hasBehavior(decider, 'groupsAsKubelet');
  const kept = [kube, system, eviction];
  const problem = overcommitment(capacity, kept, isAsKubelet);
  if (problem !== null) return { error: problem };
  const pids = { pid: fromWhole(BigInt(facts.machine.pidMax)) };
  return {
    value: {
      capacity: texts(capacity),
      allocatable: texts(withoutPages(without(capacity, kept), isAsKubelet ? capacity : null)),
      kubeReserved: texts(kube),
      systemReserved: texts(system),
      podsLimit: texts(without({ ...capacity, ...pids }, [kube, system])),
      pidMax: facts.machine.pidMax,
    },
  };
}

function capacityOf({ maxPods, podsPerCore }: Settings, { machine, storageBytes }: NodeFacts): Amounts {
  const pods = podsPerCore > 0 ? Math.min(maxPods, podsPerCore * machine.cores) : maxPods;
  return {
    cpu: fromWhole(BigInt(machine.cores)),
    memory: fromWhole(BigInt(machine.memoryBytes)),
    ...amounts(machine.hugePageTotals),
    ...(storageBytes === null ? {} : { 'ephemeral-storage': fromWhole(BigInt(storageBytes)) }),
    pods: fromWhole(BigInt(pods)),
  };
}

/** `--reserved-cpus` overrides the CPU of the other reservations. */
function reservations(settings: Settings, machine: MachineInfo): Parsed<{ kube: Amounts; system: Amounts }> {
  const kube = amounts(settings.kubeReserved);
  const system = amounts(settings.systemReserved);
  const text = settings.reservedSystemCPUs;
  if (text === '') return { value: { kube, system } };
  const cpus = parseCpuSet(text);
  if (cpus.error !== undefined) return { error: `unable to parse reserved-cpus list: ${cpus.error}` };
  if (cpus.value.some((cpu) => cpu >= machine.cores)) {
    const online = formatCpuSet(Array.from({ length: machine.cores }, (_, cpu) => cpu));
    return { error: `reserved-cpus: ${text} is not a subset of online-cpus: ${online}` };
  }
  const { cpu: _overwritten, ...others } = kube;
  return { value: { kube: others, system: { ...system, cpu: fromWhole(BigInt(cpus.value.length)) } } };
}

/** The eviction reserve by the hard thresholds: memory, and disk of pods. */
function evictionReservation({ evictionHard, ignoreEviction }: Settings, capacity: Amounts): Amounts {
  if (ignoreEviction) return {};
  const settings = { evictionHard, evictionSoft: {}, evictionSoftGracePeriod: {}, evictionMinimumReclaim: {} };
  const parsed = parseEvictionThresholds(settings);
  if (parsed.error !== undefined) return {};
  const kept: Record<string, Nano> = {};
  for (const { signal, value } of parsed.value) {
    const name = signal === 'memory.available' ? 'memory' : signal === 'nodefs.available' ? 'ephemeral-storage' : null;
    const whole = name === null ? undefined : capacity[name];
    if (name === null || whole === undefined) continue;
    kept[name] = fromWhole(thresholdAmount(value, wholeUnits(whole)));
  }
  return kept;
}

const NANO = 1_000_000_000n;

const without = (capacity: Amounts, kept: readonly Amounts[]): Amounts =>
  mapValues(capacity, (amount, name) => atLeastZero(amount - total(kept, name)));

/**
 * Memory of huge pages cannot be used otherwise, so the scheduler must not count it twice. The kernel does not count
 * it. `capacity`: all pages of the node, reserved ones included; `null`: reserved pages count as memory.
 */
function withoutPages(left: Amounts, capacity: Amounts | null): Amounts {
  const huge = Object.entries(capacity ?? left).reduce(
    (sum, [name, amount]) => (name.startsWith(HUGE_PAGES) ? sum + amount : sum),
    0n,
  );
  return { ...left, memory: atLeastZero((left['memory'] ?? 0n) - huge) };
}

const total = (kept: readonly Amounts[], name: string): Nano =>
  kept.reduce((sum, each) => sum + (each[name] ?? 0n), 0n);
const atLeastZero = (amount: Nano): Nano => (amount < 0n ? 0n : amount);

/** Upstream's words since 1.36, with amounts as people write them instead of the fields of a Go structure. */
function overcommitment(capacity: Amounts, kept: readonly Amounts[], isAsKubelet: boolean): string | null {
  const errors = Object.entries(capacity).flatMap(([name, amount]) => {
    const reserved = total(kept, name);
    if (reserved <= amount) return [];
    const [has, asked, rest] = [amount, reserved, amount - reserved].map((each) => format(name, each));
    return isAsKubelet
      ? [`Resource ${quote(name)} has a reservation of ${asked} but capacity of ${has}. ${EXPECTED}`]
      : [`Resource ${quote(name)} has an allocatable of ${asked}, capacity of ${rest}`];
  });
  return errors.length === 0 ? null : `invalid Node Allocatable configuration. ${errors.join(' ')}`;
}

const EXPECTED = 'Expected capacity >= reservation.';

const amounts = (map: StringMap): Amounts => mapValues(map, nanoOf);

const texts = (map: Amounts): StringMap => mapValues(map, (amount, name) => format(name, amount));

/** An amount as upstream reports it: bytes as `24684096Ki` if that is exact, otherwise a plain number. */
function format(name: string, amount: Nano): string {
  const isBytes = ['memory', 'ephemeral-storage'].includes(name) || name.startsWith(HUGE_PAGES);
  if (!isBytes) return formatDecimal(amount);
  const bytes = divideUp(amount < 0n ? -amount : amount, NANO);
  return `${amount < 0n ? '-' : ''}${formatBinary(fromWhole(bytes))}`;
}
