/** Validates containers: names, images, ports and environment here, other fields in their own files. */
import type { Container, EnvFromSource, EnvVar, PodSpec } from '../api/pod.ts';
import {
  checked,
  duplicate,
  duplicates,
  errorsOf,
  type FieldError,
  forbidden,
  invalid,
  isConfigKey,
  isDnsLabel,
  isDnsSubdomain,
  isEnvironmentName,
  isLongName,
  isPortName,
  isShortName,
  nonReservedPath,
  notSupported,
  oneOf,
  portNumber,
  repeatedAt,
  required,
  supportedOnly,
  withoutBacksteps,
} from './field.ts';
import { refuseHandlers, validateHandlers } from './handlers.ts';
import { ENV_FIELD_PATHS, validateFieldRef, validateResourceFieldRef } from './projections.ts';
import { type Claims, claimsOf, validateResources } from './resources.ts';
import { validateSecurityContext } from './security.ts';
import { type VolumesByName, validateMounts, volumesByName } from './volumes.ts';

export function validateContainers(spec: PodSpec, path: string, asKubelet: boolean): FieldError[] {
  const { containers, initContainers = [] } = spec;
  const grace = spec.terminationGracePeriodSeconds ?? 0;
  const pod: Holder = { spec, volumes: volumesByName(spec.volumes), claims: claimsOf(spec), asKubelet };
  const names = (list: readonly Container[], field: string) =>
    list.map(({ name }, at) => [`${path}.${field}[${at}].name`, name] as const);
  return errorsOf(
    containers.length === 0 && required(`${path}.containers`),
    containers.flatMap((container, at) => {
      const place = `${path}.containers[${at}]`;
      return errorsOf(
        validateContainer(container, pod, place),
        validateHandlers(container, grace, place, asKubelet),
        validateContainerRestart(container, place, asKubelet),
        asKubelet && validateHostNetworkPorts(container, spec, place),
      );
    }),
    validateHostPorts(containers, `${path}.containers`),
    initContainers.flatMap((container, at) => {
      const place = `${path}.initContainers[${at}]`;
      const isSidecar = container.restartPolicy === 'Always';
      return errorsOf(
        validateContainer(container, pod, place),
        validateContainerRestart(container, place, asKubelet),
        isSidecar ? validateHandlers(container, grace, place, asKubelet) : refuseHandlers(container, place),
        asKubelet && !isSidecar && refuseRestarts(container, `${place}.resizePolicy`),
        validateHostPorts([container], `${path}.initContainers`),
      );
    }),
    duplicates([
      ...names(containers, 'containers'),
      ...names(initContainers, 'initContainers').filter(([, name]) => !(asKubelet && name === '')),
    ]),
  );
}

/** The pod of a container, with its volumes and claims by name. Without `asKubelet`, the rules of 0.2.0 apply. */
interface Holder {
  readonly spec: PodSpec;
  readonly volumes: VolumesByName;
  readonly claims: Claims;
  readonly asKubelet: boolean;
}

const MESSAGE_POLICIES = ['FallbackToLogsOnError', 'File'];

function validateContainer(
  container: Container,
  { spec, volumes, claims, asKubelet }: Holder,
  path: string,
): FieldError[] {
  const { name, image, ports = [], env = [], envFrom = [], resources = {}, securityContext } = container;
  return errorsOf(
    name ? checked(`${path}.name`, name, asKubelet ? isShortName : isDnsLabel) : required(`${path}.name`),
    !image && required(`${path}.image`),
    image && image !== image.trim() && invalid(`${path}.image`, image, 'must not have leading or trailing whitespace'),
    oneOf(
      `${path}.terminationMessagePolicy`,
      container.terminationMessagePolicy,
      asKubelet ? MESSAGE_POLICIES.toReversed() : MESSAGE_POLICIES,
    ),
    ports.flatMap((port, at) => validatePort(port, `${path}.ports[${at}]`)),
    !asKubelet && validateHostNetworkPorts(container, spec, path),
    duplicates(portNames(ports, path, asKubelet)),
    env.flatMap((variable, at) => validateVariable(variable, `${path}.env[${at}]`, asKubelet)),
    envFrom.flatMap((source, at) =>
      asKubelet
        ? validateEnvSource(source, `${path}.envFrom`, at)
        : validateEnvFrom(source, `${path}.envFrom[${at}]`, `${path}.envFrom[${at}]`),
    ),
    validateMounts(container, volumes, path, asKubelet),
    oneOf(`${path}.imagePullPolicy`, container.imagePullPolicy, ['Always', 'IfNotPresent', 'Never']),
    validateResources(resources, `${path}.resources`, asKubelet ? { level: 'container', claims } : null),
    validateResizePolicy(container, spec, `${path}.resizePolicy`, asKubelet),
    securityContext && validateSecurityContext(securityContext, spec, `${path}.securityContext`, asKubelet),
  );
}

type Port = NonNullable<Container['ports']>[number];

/** Upstream compares only names that are valid. */
const portNames = (ports: readonly Port[], path: string, asKubelet: boolean) =>
  ports.flatMap(({ name = '' }, at) => {
    const counts = name !== '' && !(asKubelet && isPortName(name).length > 0);
    return counts ? [[`${path}.ports[${at}].name`, name] as const] : [];
  });

function validatePort(port: Port, path: string): FieldError[] {
  const { name = '', containerPort, hostPort = 0, protocol } = port;
  return errorsOf(
    name !== '' && checked(`${path}.name`, name, isPortName),
    containerPort === 0 ? required(`${path}.containerPort`) : portNumber(`${path}.containerPort`, containerPort),
    hostPort !== 0 && portNumber(`${path}.hostPort`, hostPort),
    oneOf(`${path}.protocol`, protocol, ['SCTP', 'TCP', 'UDP']),
  );
}

/** On the host's network, a container port must equal its host port. */
function validateHostNetworkPorts({ ports = [] }: Container, { hostNetwork }: PodSpec, path: string): FieldError[] {
  const mustMatch = 'must match `containerPort` when `hostNetwork` is true';
  return ports.flatMap(({ hostPort = 0, containerPort }, at) =>
    hostNetwork && hostPort !== containerPort ? [invalid(`${path}.ports[${at}].hostPort`, hostPort, mustMatch)] : [],
  );
}

/** A container that ends cannot be restarted for a resize. */
const refuseRestarts = ({ resizePolicy = [] }: Container, path: string): FieldError[] =>
  resizePolicy.flatMap(({ restartPolicy: policy }, at) =>
    policy === 'RestartContainer'
      ? [
          invalid(
            `${path}[${at}].restartPolicy`,
            policy,
            "must not be set to 'RestartContainer' for non-sidecar initContainers",
          ),
        ]
      : [],
  );

function validateHostPorts(containers: readonly Container[], path: string): FieldError[] {
  const used = containers.flatMap(({ ports = [] }, container) =>
    ports.flatMap(({ protocol = '', hostIP = '', hostPort = 0 }, at) =>
      hostPort === 0
        ? []
        : [[`${path}[${container}].ports[${at}].hostPort`, `${protocol}/${hostIP}/${hostPort}`] as const],
    ),
  );
  return duplicates(used);
}

function validateVariable({ name, value = '', valueFrom }: EnvVar, path: string, asKubelet: boolean): FieldError[] {
  const nameErrors = name ? checked(`${path}.name`, name, isEnvironmentName) : [required(`${path}.name`)];
  if (!valueFrom) return nameErrors;
  const place = `${path}.valueFrom`;
  const { fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef, fileKeyRef } = valueFrom;
  const sources = Object.keys(valueFrom).length;
  const choose =
    'must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`';
  return errorsOf(
    nameErrors,
    fieldRef && validateFieldRef(fieldRef, ENV_FIELD_PATHS, `${place}.fieldRef`, asKubelet),
    resourceFieldRef &&
      validateResourceFieldRef(resourceFieldRef, `${place}.resourceFieldRef`, { containerName: false, asKubelet }),
    configMapKeyRef && validateKeySelector(configMapKeyRef, `${place}.configMapKeyRef`),
    secretKeyRef && validateKeySelector(secretKeyRef, `${place}.secretKeyRef`),
    fileKeyRef && validateFileSelector(fileKeyRef, `${place}.fileKeyRef`, asKubelet),
    sources === 0 && invalid(place, '', choose),
    sources > 0 && value !== '' && invalid(place, '', 'may not be specified when `value` is not empty'),
    sources > 1 && value === '' && invalid(place, '', 'may not have more than one field specified at a time'),
  );
}

function validateFileSelector(
  { volumeName = '', path: file = '', key = '' }: { volumeName?: string; path?: string; key?: string },
  path: string,
  asKubelet: boolean,
): FieldError[] {
  const inVolume = asKubelet ? withoutBacksteps : nonReservedPath;
  const named = asKubelet ? isShortName : isDnsLabel;
  return [
    ...(volumeName === '' ? [required(`${path}.volumeName`)] : checked(`${path}.volumeName`, volumeName, named)),
    ...(file === '' ? [required(`${path}.path`)] : checked(`${path}.path`, file, inVolume)),
    ...(key === '' ? [required(`${path}.key`)] : checked(`${path}.key`, key, isEnvironmentName)),
  ];
}

function validateKeySelector({ name = '', key = '' }: { name?: string; key?: string }, path: string): FieldError[] {
  return [
    ...checked(`${path}.name`, name, isDnsSubdomain),
    ...(key === '' ? [required(`${path}.key`)] : checked(`${path}.key`, key, isConfigKey)),
  ];
}

/** Upstream reports a wrong choice of a source at the path of the list, not of the item. */
function validateEnvSource(source: EnvFromSource, list: string, at: number): FieldError[] {
  const path = `${list}[${at}]`;
  const named = (name = '', place: string) =>
    name === '' ? [required(`${place}.name`)] : checked(`${place}.name`, name.replace(/-$/, 'a'), isLongName);
  return errorsOf(
    source.configMapRef && named(source.configMapRef.name, `${path}.configMapRef`),
    source.secretRef && named(source.secretRef.name, `${path}.secretRef`),
    validateEnvFrom(source, path, list),
  );
}

function validateEnvFrom(
  { prefix = '', configMapRef, secretRef }: EnvFromSource,
  path: string,
  place: string,
): FieldError[] {
  const sources = [configMapRef, secretRef].filter((source) => source !== undefined);
  const choose = 'must specify one of: `configMapRef` or `secretRef`';
  return errorsOf(
    prefix !== '' && checked(`${path}.prefix`, prefix, isEnvironmentName),
    sources.length === 0 && invalid(place, '', choose),
    sources.length > 1 && invalid(place, '', 'may not have more than one field specified at a time'),
  );
}

function validateResizePolicy(
  { resizePolicy = [] }: Container,
  spec: PodSpec,
  path: string,
  asKubelet: boolean,
): FieldError[] {
  const never = `must be 'NotRequired' when ${asKubelet ? 'pod ' : ''}\`restartPolicy\` is 'Never'`;
  const repeated = repeatedAt(resizePolicy.map(({ resourceName }) => resourceName));
  return resizePolicy.flatMap(({ resourceName, restartPolicy }, at) =>
    errorsOf(
      repeated.has(at) && duplicate(`${path}[${at}]`, resourceName),
      oneOf(path, resourceName, ['cpu', 'memory']),
      oneOf(path, restartPolicy, ['NotRequired', 'RestartContainer']),
      spec.restartPolicy === 'Never' && restartPolicy !== 'NotRequired' && invalid(path, restartPolicy, never),
    ),
  );
}

const RESTART_POLICIES = ['Always', 'Never', 'OnFailure'];

/** A container's own restart policy, and the rules that refine it. */
function validateContainerRestart(
  { restartPolicy, restartPolicyRules = [] }: Container,
  path: string,
  asKubelet: boolean,
): FieldError[] {
  const choice = asKubelet ? supportedOnly : oneOf;
  const place = `${path}.restartPolicyRules`;
  return errorsOf(
    restartPolicy !== undefined &&
      !RESTART_POLICIES.includes(restartPolicy) &&
      notSupported(`${path}.restartPolicy`, restartPolicy, RESTART_POLICIES),
    restartPolicyRules.length > 0 &&
      restartPolicy === undefined &&
      required(`${path}.restartPolicy`, 'must specify restartPolicy when restart rules are used'),
    restartPolicyRules.flatMap(({ action, exitCodes }, at) => [
      ...choice(`${place}[${at}].action`, action, ['Restart', 'RestartAllContainers']),
      ...(exitCodes
        ? choice(`${place}[${at}].exitCodes.operator`, exitCodes.operator, ['In', 'NotIn'])
        : [required(`${place}[${at}].exitCodes`, 'must be specified')]),
    ]),
  );
}

/** Ephemeral containers are added to a running pod; a new pod has none. */
export const refuseEphemeralContainers = (spec: PodSpec, path: string): FieldError[] =>
  (spec.ephemeralContainers ?? []).length > 0
    ? [forbidden(`${path}.ephemeralContainers`, 'cannot be set on create')]
    : [];
