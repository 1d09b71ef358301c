/**
 * Validates the policies of CPU and memory manager against the reserved resources.
 *
 * Invariant: a share of the machine's memory (`10%`) requires the machine; without it, the sum is not checked.
 */
import type { StringMap } from '../../model/configuration/field-types.ts';
import type { KubeletConfiguration } from '../../model/configuration/fields.ts';
import { parseCpuSet } from '../../model/values/cpu-set.ts';
import { byBytes, logLines, type Parsed, parseDecimal, quote, trimRight } from '../../model/values/go-text.ts';
import { formatQuantity, parseQuantity, type Quantity } from '../../model/values/quantity.ts';
import { decideFeatures, isEnabled } from '../fields/feature-gates.ts';

/** The error, and the log lines before it. */
export interface SettingsError {
  readonly error: string;
  readonly before: readonly string[];
}

function failed(manager: string, error: string): SettingsError {
  return { error, before: logLines(`Failed to initialize ${manager} manager`, error) };
}

function amount(text: string | undefined): Quantity {
  const parsed = parseQuantity(text ?? '0');
  return parsed.error === undefined ? parsed.value : { nano: 0n, format: 'decimalSI' };
}

/** A sum, printed in the format of its first non-zero part. */
function sum(quantities: readonly Quantity[]): Quantity {
  return quantities.reduce(
    (total, { nano, format }) => ({ nano: total.nano + nano, format: total.nano === 0n ? format : total.format }),
    { nano: 0n, format: 'decimalSI' },
  );
}

export function cpuManagerError(configuration: KubeletConfiguration): SettingsError | null {
  const { cpuManagerPolicy: policy, kubeReserved, systemReserved, reservedSystemCPUs } = configuration;
  if (policy === 'none') return noneCpuError(configuration);
  if (policy !== 'static') return failed('cpu', `unknown policy: ${quote(policy)}`);
  const reserved = sum([amount(kubeReserved['cpu']), amount(systemReserved['cpu'])]);
  if (reservedSystemCPUs !== '' || reserved.nano > 0n) return cpuOptionsError(configuration);
  return failed('cpu', '[cpumanager] unable to determine reserved CPU resources for static policy');
}

function noneCpuError({ cpuManagerPolicyOptions: options }: KubeletConfiguration): SettingsError | null {
  const error = noneOptionsError(options);
  return error === '' ? null : failed('cpu', `new none policy error: ${error}`);
}

/** Checked after the reserved resources, whose errors upstream reports first. */
function cpuOptionsError(configuration: KubeletConfiguration): SettingsError | null {
  const error = cpuPolicyOptionsError(configuration);
  if (error === '') return null;
  const { error: sentence, before } = failed('cpu', `new static policy error: ${error}`);
  return { error: sentence, before: [...reservedCPULines(configuration), ...before] };
}

/**
 * The log lines about `--reserved-cpus`, which replaces the reserved CPU time: the previous time and the new number.
 */
export function reservedCPULines({
  reservedSystemCPUs,
  kubeReserved,
  systemReserved,
}: KubeletConfiguration): readonly string[] {
  const cpus = parseCpuSet(reservedSystemCPUs);
  if (reservedSystemCPUs === '' || cpus.error !== undefined) return [];
  const { cpu: _kube, ...kube } = kubeReserved;
  const { cpu: _system, ...system } = systemReserved;
  const given = `kubeReserved=${printed(kubeReserved)} systemReserved=${printed(systemReserved)}`;
  const kept = `kubeReserved=${printed(kube)} systemReserved=${printed({ cpu: String(cpus.value.length), ...system })}`;
  const option =
    'Option --reserved-cpus is specified, it will overwrite the cpu setting in KubeReserved and SystemReserved';
  return [`${quote(option)} ${given}`, `${quote('After cpu setting is overwritten')} ${kept}`];
}

const printed = (amounts: Readonly<Record<string, string>>): string =>
  Object.keys(amounts).length === 0 ? 'null' : JSON.stringify(amounts);

/** The facts about the machine that the check of reserved memory needs. */
export interface MemoryMachine {
  readonly memoryBytes: string;
  /** Ids of its NUMA nodes. */
  readonly nodes: readonly number[];
}

/** Without a `machine`, only errors that hold on every machine. */
export function memoryManagerError(
  configuration: KubeletConfiguration,
  machine: MemoryMachine | null = null,
): SettingsError | null {
  const { memoryManagerPolicy: policy, reservedMemory } = configuration;
  if (policy === 'None') return null;
  if (policy === 'BestEffort') return failed('memory', 'policy "BestEffort" is not available for platform "linux"');
  if (policy !== 'Static') return failed('memory', `unknown policy: ${quote(policy)}`);
  const isThere = (node: number): boolean => (machine === null ? node >= 0 : machine.nodes.includes(node));
  const missing = reservedMemory.find(({ numaNode }) => !isThere(numaNode));
  if (missing !== undefined) {
    const node = `a NUMA node ${missing.numaNode} that does not exist on this machine`;
    return failed('memory', `the reserved memory configuration references ${node}`);
  }
  return unequalReservation(configuration, machine);
}

function unequalReservation(configuration: KubeletConfiguration, machine: MemoryMachine | null): SettingsError | null {
  const { reservedMemory } = configuration;
  const types = ['memory', ...reservedMemory.flatMap(({ limits }) => Object.keys(limits))];
  for (const type of new Set(types)) {
    const total = sum(reservedMemory.map(({ limits }) => amount(limits[type])));
    const expected = type === 'memory' ? allocatableReservation(configuration, machine) : amount('0');
    if (expected === null || expected.nano === total.nano) continue;
    const amounts = `the total amount ${quote(formatQuantity(total))} of type ${quote(type)} is not equal to the value`;
    return failed('memory', `${amounts} ${quote(formatQuantity(expected))} determined by Node Allocatable feature`);
  }
  const isReserved = reservedMemory.some(({ limits }) => amount(limits['memory']).nano > 0n);
  if (isReserved || allocatableReservation(configuration, machine) === null) return null;
  return failed('memory', '[memorymanager] you should specify the system reserved memory');
}

const NANO = 1_000_000_000n;

/** Memory reserved by node allocatable, or null if it depends on the size of an unknown machine. */
function allocatableReservation(configuration: KubeletConfiguration, machine: MemoryMachine | null): Quantity | null {
  const { kubeReserved, systemReserved, evictionHard } = configuration;
  const threshold = evictionHard['memory.available'] ?? '0';
  const kept = [amount(kubeReserved['memory']), amount(systemReserved['memory'])];
  if (!threshold.endsWith('%')) return sum([...kept, amount(threshold)]);
  if (machine === null) return null;
  const share = Math.fround(Number(threshold.slice(0, -1)) / 100);
  const bytes = BigInt(Math.trunc(Number(machine.memoryBytes) * share));
  return sum([...kept, { nano: bytes * NANO, format: 'binarySI' }]);
}

/** The resources allowed in `kubeReserved`, `systemReserved` and `qosReserved`, in non-negative amounts. */
const RESERVABLE = ['cpu', 'memory', 'ephemeral-storage', 'pid'];
const ONLY_CLASS_RESOURCE = 'memory';
const WHOLE = 100;

/** Resources with canonical quantities. */
export function parseReservedResources(settings: StringMap): Parsed<StringMap> {
  const reserved: [string, string][] = [];
  for (const [resource, text] of Object.entries(settings).toSorted(([left], [right]) => byBytes(left, right))) {
    if (!RESERVABLE.includes(resource)) return { error: `cannot reserve ${quote(resource)} resource` };
    const parsed = parseQuantity(text);
    if (parsed.error !== undefined) {
      return { error: `failed to parse quantity ${quote(text)} for ${quote(resource)} resource: ${parsed.error}` };
    }
    if (parsed.value.nano < 0n) {
      return { error: `resource quantity for ${quote(resource)} cannot be negative: ${text}` };
    }
    reserved.push([resource, formatQuantity(parsed.value)]);
  }
  return { value: Object.fromEntries(reserved) };
}

/** Percentages of a resource that lower QoS classes may not use. */
export function parseQosReserved(settings: StringMap): Parsed<Readonly<Record<string, number>>> {
  const reserved: [string, number][] = [];
  for (const [resource, text] of Object.entries(settings).toSorted(([left], [right]) => byBytes(left, right))) {
    if (resource !== ONLY_CLASS_RESOURCE) return { error: `cannot reserve ${quote(resource)} resource` };
    const share = parsePercentage(text);
    if (share.error !== undefined) {
      return { error: `failed to parse percentage ${quote(text)} for ${quote(resource)} resource: ${share.error}` };
    }
    reserved.push([resource, share.value]);
  }
  return { value: Object.fromEntries(reserved) };
}

function parsePercentage(text: string): Parsed<number> {
  if (!text.endsWith('%')) return { error: `percentage expected, got '${text}'` };
  const number = trimRight(text, '%');
  const parsed = parseDecimal(number);
  if (parsed.error !== undefined) return { error: `invalid number in percentage '${text}'` };
  const share = parsed.value;
  if (share < 0 || share > WHOLE) return { error: 'percentage must be between 0 and 100' };
  return { value: share };
}

const FULL_CORES = 'full-pcpus-only';
const STRICT_RESERVATION = 'strict-cpu-reservation';
const ACROSS_NUMA = 'distribute-cpus-across-numa';
const ACROSS_CORES = 'distribute-cpus-across-cores';

const BY_SOCKET = 'align-by-socket';

const ALPHA = [BY_SOCKET, ACROSS_CORES];
const BY_CACHE = 'prefer-align-cpus-by-uncorecache';
const BETA = [ACROSS_NUMA];
const STABLE = [FULL_CORES, STRICT_RESERVATION, BY_CACHE];
/** Options that contradict each other, in the order in which upstream checks them. */
const CONTRADICTING_OPTIONS = [
  [FULL_CORES, ACROSS_CORES],
  [ACROSS_NUMA, ACROSS_CORES],
  [BY_CACHE, ACROSS_CORES],
  [BY_CACHE, ACROSS_NUMA],
];
const ONE_NODE = 'single-numa-node';
const SOCKET_REFUSAL = `Topolgy manager ${ONE_NODE} policy is incompatible with CPUManager ${BY_SOCKET} policy option`;
/** The texts that Go parses as true. */
const TRUE = ['1', 't', 'T', 'true', 'TRUE', 'True'];
const FALSE = ['0', 'f', 'F', 'false', 'FALSE', 'False'];

/** Upstream's error about the options; empty if they are valid. */
function cpuPolicyOptionsError(configuration: KubeletConfiguration): string {
  const { cpuManagerPolicyOptions: options, featureGates, topologyManagerPolicy } = configuration;
  const { changed } = decideFeatures(featureGates);
  for (const [name, value] of Object.entries(options)) {
    if (![...ALPHA, ...BETA, ...STABLE].includes(name)) return `unknown CPU Manager Policy option: ${quote(name)}`;
    if (ALPHA.includes(name) && !isEnabled(changed, 'CPUManagerPolicyAlphaOptions')) return notEnabled('Alpha', name);
    if (BETA.includes(name) && !isEnabled(changed, 'CPUManagerPolicyBetaOptions')) return notEnabled('Beta', name);
    if (![...TRUE, ...FALSE].includes(value)) {
      return `bad value for option ${quote(name)}: strconv.ParseBool: parsing ${quote(value)}: invalid syntax`;
    }
  }
  const isOn = (name: string): boolean => isOptionOn(options, name);
  const rivals = CONTRADICTING_OPTIONS.find((pair) => pair.every(isOn));
  if (rivals !== undefined) return `static policy options ${rivals.join(' and ')} can not be used at the same time`;
  return isOn(BY_SOCKET) && topologyManagerPolicy === ONE_NODE ? SOCKET_REFUSAL : '';
}

/** The policy `none` takes no options; empty if there are none. */
function noneOptionsError(options: Readonly<Record<string, string>>): string {
  return Object.keys(options).length === 0 ? '' : `None policy: received unsupported options=${goMap(options)}`;
}

/** A map as Go prints it: sorted by key. */
const goMap = (map: Readonly<Record<string, string>>): string =>
  `map[${Object.entries(map)
    .toSorted(([left], [right]) => byBytes(left, right))
    .map(([key, value]) => `${key}:${value}`)
    .join(' ')}]`;

/**
 * Validates the options of the CPU manager's static policy.
 *
 * Upstream: cpumanager/policy_options.go.
 */
export const isOptionOn = (options: Readonly<Record<string, string>>, name: string): boolean =>
  TRUE.includes(options[name] ?? 'false');

export const alphaCpuOptions = (options: Readonly<Record<string, string>>): readonly string[] =>
  Object.keys(options).filter((name) => isOptionOn(options, name) && ALPHA.includes(name));

const notEnabled = (level: string, name: string): string =>
  `CPU Manager Policy ${level}-level Options not enabled, but option ${quote(name)} provided`;
