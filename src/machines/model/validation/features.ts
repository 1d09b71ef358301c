/**
 * Validates what the newer fields of a new pod ask of each other: host names, user namespaces, variables from files,
 * resources of the whole pod, stop signals, rules of a restart.
 *
 * Nodes of 0.2.0 took pods that break these rules, so a journal of theirs is replayed without them.
 */
import type { Container, Pod, PodSpec, ResourceList } from '../api/pod.ts';
import { podLimits, podRequests } from '../spec/resources.ts';
import { formatBinary, formatDecimal, type Nano, nanoOf } from '../values/quantity.ts';
import { type FieldError, forbidden, invalid, notFound, notSupported } from './field.ts';

const HOSTNAME_MAX_BYTES = 64;
const RULES_MAX = 20;
const EXIT_CODES_MAX = 255;
const HUGE_PAGES = 'hugepages-';
const POD_RESOURCES = ['cpu', HUGE_PAGES, 'memory'];

export function validateFeatures(pod: Pod): FieldError[] {
  const { spec } = pod;
  return [
    ...placedContainers(spec).flatMap(([container, path]) => [
      ...validateStopSignal(container, spec, `${path}.lifecycle.stopSignal`),
      ...validateRuleCount(container, `${path}.restartPolicyRules`),
    ]),
    ...validatePodResources(pod, 'spec.resources'),
    ...validateHostUsers(spec),
    ...validateHostnameOverride(spec, 'spec.hostnameOverride'),
    ...validateFileVolumes(spec),
  ];
}

const placedContainers = ({ containers, initContainers = [] }: PodSpec): (readonly [Container, string])[] => [
  ...initContainers.map((each, at) => [each, `spec.initContainers[${at}]`] as const),
  ...containers.map((each, at) => [each, `spec.containers[${at}]`] as const),
];

const numbered = (name: string, sign: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => `${name}${sign}${at + 1}`);
const NAMED_SIGNALS =
  'ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX RTMIN SEGV STKFLT STOP SYS TERM ' +
  'TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ';
const SIGNALS = [...NAMED_SIGNALS.split(' '), ...numbered('RTMIN', '+', 15), ...numbered('RTMAX', '-', 14)]
  .map((name) => `SIG${name}`)
  .toSorted();

/** Which signals there are depends on the system. */
function validateStopSignal({ lifecycle }: Container, { os }: PodSpec, path: string): FieldError[] {
  const signal = lifecycle?.stopSignal;
  if (signal === undefined) return [];
  if (os === undefined) return [forbidden(path, 'may not be set for containers with empty `spec.os.name`')];
  return os.name === 'linux' && signal.startsWith('SIG') && !SIGNALS.includes(signal)
    ? [notSupported(path, signal, SIGNALS)]
    : [];
}

const tooMany = (path: string, count: number, limit: number): FieldError =>
  `${path}: Too many: ${count}: must have at most ${limit} items`;

function validateRuleCount({ restartPolicyRules: rules = [] }: Container, path: string): FieldError[] {
  return [
    ...(rules.length > RULES_MAX ? [tooMany(path, rules.length, RULES_MAX)] : []),
    ...rules.flatMap(({ exitCodes }, at) => {
      const count = exitCodes?.values?.length ?? 0;
      return count > EXIT_CODES_MAX ? [tooMany(`${path}[${at}].exitCodes.values`, count, EXIT_CODES_MAX)] : [];
    }),
  ];
}

const shown = (name: string, amount: Nano): string => (name === 'cpu' ? formatDecimal(amount) : formatBinary(amount));

/** The pod as a whole has at least what its containers request, and each container at most what the pod has. */
function validatePodResources({ spec, ...pod }: Pod, path: string): FieldError[] {
  const { resources, ...rest } = spec;
  if (resources === undefined) return [];
  const { limits = {}, requests = {}, claims } = resources;
  const containers: Pod = { ...pod, spec: rest };
  const limited = Object.entries(podLimits(containers)).filter(([name]) => name.startsWith(HUGE_PAGES));
  return [
    ...(claims === undefined ? [] : [forbidden(`${path}.claims`, 'claims may not be set for Resources at pod-level')]),
    ...unsupported(Object.keys(limits), `${path}.limits`),
    ...unsupported(
      Object.keys(requests).filter((name) => !Object.hasOwn(limits, name)),
      `${path}.requests`,
    ),
    ...below(requests, Object.entries(podRequests(containers)), `${path}.requests`, 'requests'),
    ...below(limits, limited, `${path}.limits`, 'limits'),
    ...spec.containers.flatMap((container, at) =>
      Object.entries(container.resources?.limits ?? {}).flatMap(([name, own]) => {
        const whole = quantityIn(limits, name);
        if (whole === undefined || nanoOf(own) <= nanoOf(whole)) return [];
        const place = `${path}.containers[${at}][${name}].limits`;
        return [invalid(place, own, `must be less than or equal to pod limits of ${whole}`)];
      }),
    ),
  ];
}

/** A resource may be named like a member that every object has, such as `constructor`. */
const quantityIn = (list: ResourceList, name: string): string | undefined =>
  Object.hasOwn(list, name) ? list[name] : undefined;

const unsupported = (names: readonly string[], path: string): FieldError[] =>
  names
    .filter((name) => !POD_RESOURCES.includes(name) && !name.startsWith(HUGE_PAGES))
    .map((name) => notSupported(`${path}[${name}]`, name, POD_RESOURCES));

/** What the pod has of these resources is less than its containers have together. */
function below(
  whole: ResourceList,
  together: readonly (readonly [string, Nano])[],
  path: string,
  of: 'requests' | 'limits',
): FieldError[] {
  return together.flatMap(([name, amount]) => {
    const own = quantityIn(whole, name);
    if (own === undefined || nanoOf(own) >= amount) return [];
    const detail = `must be greater than or equal to aggregate container ${of} of ${shown(name, amount)}`;
    return [invalid(`${path}[${name}]`, own, detail)];
  });
}

/** Devices cannot be mapped to the users of a namespace. */
function validateHostUsers(spec: PodSpec): FieldError[] {
  if (spec.hostUsers !== false) return [];
  return placedContainers(spec)
    .filter(([{ volumeDevices = [] }]) => volumeDevices.length > 0)
    .map(([, path]) => forbidden(`${path}.volumeDevices`, 'when `hostUsers` is false'));
}

function validateHostnameOverride(spec: PodSpec, path: string): FieldError[] {
  const { hostnameOverride, setHostnameAsFQDN, hostNetwork } = spec;
  if (!hostnameOverride) return [];
  return [
    ...(hostnameOverride.length > HOSTNAME_MAX_BYTES
      ? [`${path}: Too long: may not be more than ${HOSTNAME_MAX_BYTES} bytes`]
      : []),
    ...(setHostnameAsFQDN ? [forbidden(path, 'may not be specified when setHostnameAsFQDN is true')] : []),
    ...(hostNetwork ? [forbidden(path, 'may not be specified when hostNetwork is true')] : []),
  ];
}

/** A file that variables come from is in an `emptyDir` of the pod. */
function validateFileVolumes(spec: PodSpec): FieldError[] {
  const { volumes = [] } = spec;
  return placedContainers(spec).flatMap(([{ env = [] }, path]) =>
    env.flatMap(({ valueFrom }, at) => {
      const name = valueFrom?.fileKeyRef === undefined ? undefined : (valueFrom.fileKeyRef.volumeName ?? '');
      if (name === undefined) return [];
      const place = `${path}.env[${at}].valueFrom.fileKeyRef.volumeName`;
      const volume = volumes.find((each) => each.name === name);
      if (volume === undefined) return [notFound(place, name)];
      return volume.emptyDir === undefined ? [invalid(place, name, 'referenced volume must be of type emptyDir')] : [];
    }),
  );
}
