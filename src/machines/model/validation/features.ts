/**
 * Validates the newer fields of a pod, and their combinations: host names, user namespaces, variables from files,
 * resources of the whole pod, stop signals, restart rules.
 *
 * A node of 0.2.0 accepted pods that break these rules; a replay of its journal does not apply them.
 */
import type { Container, Pod, PodSpec, ResourceList } from '../api/pod.ts';
import { podLimits, podRequests } from '../spec/resources.ts';
import { formatBinary, formatDecimal, type Nano, nanoOf } from '../values/quantity.ts';
import type { FieldError } from './field.ts';
import { errorsOf, forbidden, invalid, notFound, notSupported, repeatedAt, required, tooLong } from './field.ts';
import { placedContainers, validateAnnotations, validateObjectMeta, validateProfiles } from './metadata.ts';
import { validateApiProjections } from './projections.ts';
import { validateEphemeralVolumes, validatePodClaims } from './resources.ts';
import { validateScheduling } from './scheduling.ts';
import { validateSystem } from './security.ts';

const HOSTNAME_MAX_BYTES = 64;
const RULES_MAX = 20;
const EXIT_CODES_MAX = 255;
const HUGE_PAGES = 'hugepages-';

export function validateFeatures(pod: Pod): FieldError[] {
  const { metadata, spec } = pod;
  return [
    ...validateObjectMeta(pod, 'metadata'),
    ...validateAnnotations(pod, 'metadata.annotations'),
    ...validateEphemeralVolumes(spec, metadata.name, 'spec.volumes'),
    ...validateApiProjections(spec, 'spec'),
    ...validatePodClaims(spec, 'spec.resourceClaims'),
    ...placedContainers(spec).flatMap(([container, place]) => [
      ...validateStopSignal(container, spec, `spec.${place}.lifecycle.stopSignal`),
      ...validateRuleCount(container, `spec.${place}.restartPolicyRules`),
      ...validateOverlaps(container, `spec.${place}`),
    ]),
    ...validatePodResources(pod, 'spec.resources'),
    ...validateScheduling(spec, 'spec'),
    ...validateSystem(pod, 'spec'),
    ...validateHostUsers(spec),
    ...validateHostnameOverride(spec, 'spec.hostnameOverride'),
    ...validateFileVolumes(spec),
    ...validateProfiles(pod, 'spec'),
  ];
}

const numbered = (name: string, sign: string, count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => `${name}${sign}${at + 1}`);
const NAMED_SIGNALS =
  'ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX RTMIN SEGV STKFLT STOP SYS TERM ' +
  'TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ';
const SIGNALS = [...NAMED_SIGNALS.split(' '), ...numbered('RTMIN', '+', 15), ...numbered('RTMAX', '-', 14)]
  .map((name) => `SIG${name}`)
  .toSorted();

const SIGNALS_OF = new Map<string, readonly string[]>([
  ['linux', SIGNALS],
  ['windows', ['SIGKILL', 'SIGTERM']],
]);

/** The valid signals depend on the operating system of the pod. */
function validateStopSignal({ lifecycle }: Container, { os }: PodSpec, path: string): FieldError[] {
  const signal = lifecycle?.stopSignal;
  if (signal === undefined) return [];
  if (os === undefined) return [forbidden(path, 'may not be set for containers with empty `spec.os.name`')];
  const supported = SIGNALS_OF.get(os.name) ?? [signal];
  return supported.includes(signal) ? [] : [notSupported(path, signal, supported)];
}

const tooMany = (path: string, count: number, limit: number): FieldError =>
  `${path}: Too many: ${count}: must have at most ${limit} items`;

function validateRuleCount({ restartPolicyRules: rules = [] }: Container, path: string): FieldError[] {
  return errorsOf(
    rules.length > RULES_MAX && tooMany(path, rules.length, RULES_MAX),
    rules.flatMap(({ exitCodes }, at) => {
      const count = exitCodes?.values?.length ?? 0;
      return count > EXIT_CODES_MAX ? [tooMany(`${path}[${at}].exitCodes.values`, count, EXIT_CODES_MAX)] : [];
    }),
  );
}

const shown = (name: string, amount: Nano): string => (name === 'cpu' ? formatDecimal(amount) : formatBinary(amount));

/** The pod's requests are at least the sum of its containers', and no container's limit exceeds the pod's. */
function validatePodResources({ spec, ...pod }: Pod, path: string): FieldError[] {
  const { resources, ...rest } = spec;
  if (resources === undefined) return [];
  if (spec.os?.name === 'windows') return [forbidden(path, 'may not be set for a windows pod')];
  const { limits = {}, requests = {}, claims } = resources;
  const containers: Pod = { ...pod, spec: rest };
  const limited = Object.entries(podLimits(containers)).filter(([name]) => name.startsWith(HUGE_PAGES));
  return errorsOf(
    claims !== undefined && forbidden(`${path}.claims`, 'claims may not be set for Resources at pod-level'),
    below(requests, Object.entries(podRequests(containers)), `${path}.requests`, 'requests'),
    below(limits, limited, `${path}.limits`, 'limits'),
    spec.containers.flatMap((container, at) =>
      Object.entries(container.resources?.limits ?? {}).flatMap(([name, own]) => {
        const whole = quantityIn(limits, name);
        if (whole === undefined || nanoOf(own) <= nanoOf(whole)) return [];
        const place = `${path}.containers[${at}][${name}].limits`;
        return [invalid(place, own, `must be less than or equal to pod limits of ${whole}`)];
      }),
    ),
  );
}

/** A resource may have the name of a member of all objects, such as `constructor`. */
const quantityIn = (list: ResourceList, name: string): string | undefined =>
  Object.hasOwn(list, name) ? list[name] : undefined;

/** Errors for resources of which the pod has less than its containers together. */
function below(
  whole: ResourceList,
  together: readonly (readonly [string, Nano])[],
  path: string,
  of: 'requests' | 'limits',
): FieldError[] {
  return together.flatMap(([name, amount]) => {
    const podAmount = quantityIn(whole, name);
    if (podAmount === undefined || nanoOf(podAmount) >= amount) return [];
    const detail = `must be greater than or equal to aggregate container ${of} of ${shown(name, amount)}`;
    return [invalid(`${path}[${name}]`, podAmount, detail)];
  });
}

/** A path or a volume name belongs either to mounts or to one device. */
function validateOverlaps({ volumeMounts: mounts = [], volumeDevices: devices = [] }: Container, path: string) {
  const mounted = {
    names: new Set(mounts.map(({ name }) => name)),
    paths: new Set(mounts.map((each) => each.mountPath)),
  };
  const names = new Set(devices.map(({ name }) => name));
  const paths = new Set(devices.map(({ devicePath }) => devicePath));
  const repeated = {
    name: repeatedAt(devices.map(({ name }, at) => (name === '' ? at : name))),
    path: repeatedAt(devices.map(({ devicePath }, at) => (devicePath.split('/').includes('..') ? at : devicePath))),
  };
  return errorsOf(
    mounts.flatMap(({ name, mountPath }, at) => {
      const place = `${path}.volumeMounts[${at}]`;
      const isPath = 'must not already exist as a path in volumeDevices';
      return errorsOf(
        names.has(name) && invalid(`${place}.name`, name, 'must not already exist in volumeDevices'),
        paths.has(mountPath) && invalid(`${place}.mountPath`, mountPath, isPath),
      );
    }),
    devices.flatMap(({ name, devicePath }, at) => {
      const place = `${path}.volumeDevices[${at}]`;
      const isPath = 'must not already exist as a path in volumeMounts';
      return errorsOf(
        name === '' && required(`${place}.name`),
        repeated.name.has(at) && invalid(`${place}.name`, name, 'must be unique'),
        repeated.path.has(at) && invalid(`${place}.devicePath`, devicePath, 'must be unique'),
        mounted.names.has(name) && invalid(`${place}.name`, name, 'must not already exist in volumeMounts'),
        mounted.paths.has(devicePath) && invalid(`${place}.devicePath`, devicePath, isPath),
      );
    }),
  );
}

/** Block devices cannot be used in a user namespace. */
function validateHostUsers(spec: PodSpec): FieldError[] {
  if (spec.hostUsers !== false) return [];
  return placedContainers(spec)
    .filter(([{ volumeDevices = [] }]) => volumeDevices.length > 0)
    .map(([, place]) => forbidden(`spec.${place}.volumeDevices`, 'when `hostUsers` is false'));
}

function validateHostnameOverride(spec: PodSpec, path: string): FieldError[] {
  const { hostnameOverride, setHostnameAsFQDN, hostNetwork } = spec;
  if (!hostnameOverride) return [];
  return errorsOf(
    hostnameOverride.length > HOSTNAME_MAX_BYTES && tooLong(path, HOSTNAME_MAX_BYTES),
    setHostnameAsFQDN && forbidden(path, 'may not be specified when setHostnameAsFQDN is true'),
    hostNetwork && forbidden(path, 'may not be specified when hostNetwork is true'),
  );
}

/** A file with variables must be in an `emptyDir` of the pod. */
function validateFileVolumes(spec: PodSpec): FieldError[] {
  const named = new Map((spec.volumes ?? []).map((volume) => [volume.name, volume]));
  return placedContainers(spec).flatMap(([{ env = [] }, container]) =>
    env.flatMap(({ valueFrom }, at) => {
      const name = valueFrom?.fileKeyRef === undefined ? undefined : (valueFrom.fileKeyRef.volumeName ?? '');
      if (name === undefined) return [];
      const place = `spec.${container}.env[${at}].valueFrom.fileKeyRef.volumeName`;
      const volume = named.get(name);
      if (volume === undefined) return [notFound(place, name)];
      return volume.emptyDir === undefined ? [invalid(place, name, 'referenced volume must be of type emptyDir')] : [];
    }),
  );
}
