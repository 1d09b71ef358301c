/** Validates containers: names, images, ports and environment here, other fields in their own files. */
import type { Container, EnvFromSource, EnvVar, PodSpec } from '../api/pod.ts';
import {
  checked,
  duplicate,
  duplicates,
  type FieldError,
  forbidden,
  invalid,
  isConfigKey,
  isDnsLabel,
  isDnsSubdomain,
  isEnvironmentName,
  isPortName,
  nonReservedPath,
  notSupported,
  oneOf,
  portNumber,
  repeatedAt,
  required,
} from './field.ts';
import { ENV_FIELD_PATHS, validateFieldRef, validateResourceFieldRef } from './field-refs.ts';
import { refuseHandlers, validateHandlers } from './handlers.ts';
import { validateResources } from './resources.ts';
import { validateSecurityContext } from './security.ts';
import { type VolumesByName, validateMounts, volumesByName } from './volumes.ts';

export function validateContainers(spec: PodSpec, path: string): FieldError[] {
  const { containers, initContainers = [] } = spec;
  const grace = spec.terminationGracePeriodSeconds ?? 0;
  const volumes = volumesByName(spec.volumes);
  const names = (list: readonly Container[], field: string) =>
    list.map(({ name }, at) => [`${path}.${field}[${at}].name`, name] as const);
  return [
    ...(containers.length === 0 ? [required(`${path}.containers`)] : []),
    ...containers.flatMap((container, at) => {
      const place = `${path}.containers[${at}]`;
      return [
        ...validateContainer(container, spec, volumes, place),
        ...validateHandlers(container, grace, place),
        ...validateContainerRestart(container, place),
      ];
    }),
    ...validateHostPorts(containers, `${path}.containers`),
    ...initContainers.flatMap((container, at) => {
      const place = `${path}.initContainers[${at}]`;
      const isSidecar = container.restartPolicy === 'Always';
      return [
        ...validateContainer(container, spec, volumes, place),
        ...validateContainerRestart(container, place),
        ...(isSidecar ? validateHandlers(container, grace, place) : refuseHandlers(container, place)),
        ...validateHostPorts([container], `${path}.initContainers`),
      ];
    }),
    ...duplicates([...names(containers, 'containers'), ...names(initContainers, 'initContainers')]),
  ];
}

function validateContainer(container: Container, spec: PodSpec, volumes: VolumesByName, path: string): FieldError[] {
  const { name, image, ports = [], env = [], envFrom = [], resources = {}, securityContext } = container;
  return [
    ...(name ? checked(`${path}.name`, name, isDnsLabel) : [required(`${path}.name`)]),
    ...(image ? [] : [required(`${path}.image`)]),
    ...(image && image !== image.trim()
      ? [invalid(`${path}.image`, image, 'must not have leading or trailing whitespace')]
      : []),
    ...oneOf(`${path}.terminationMessagePolicy`, container.terminationMessagePolicy, ['FallbackToLogsOnError', 'File']),
    ...ports.flatMap((port, at) => validatePort(port, spec, `${path}.ports[${at}]`)),
    ...duplicates(ports.flatMap((port, at) => (port.name ? [[`${path}.ports[${at}].name`, port.name] as const] : []))),
    ...env.flatMap((variable, at) => validateVariable(variable, `${path}.env[${at}]`)),
    ...envFrom.flatMap((source, at) => validateEnvFrom(source, `${path}.envFrom[${at}]`)),
    ...validateMounts(container, volumes, path),
    ...oneOf(`${path}.imagePullPolicy`, container.imagePullPolicy, ['Always', 'IfNotPresent', 'Never']),
    ...validateResources(resources, `${path}.resources`),
    ...validateResizePolicy(container, spec, `${path}.resizePolicy`),
    ...(securityContext ? validateSecurityContext(securityContext, spec, `${path}.securityContext`) : []),
  ];
}

type Port = NonNullable<Container['ports']>[number];

function validatePort(port: Port, spec: PodSpec, path: string): FieldError[] {
  const { name = '', containerPort, hostPort = 0, protocol } = port;
  const mustMatch = 'must match `containerPort` when `hostNetwork` is true';
  return [
    ...(name === '' ? [] : checked(`${path}.name`, name, isPortName)),
    ...(containerPort === 0 ? [required(`${path}.containerPort`)] : portNumber(`${path}.containerPort`, containerPort)),
    ...(hostPort === 0 ? [] : portNumber(`${path}.hostPort`, hostPort)),
    ...oneOf(`${path}.protocol`, protocol, ['SCTP', 'TCP', 'UDP']),
    ...(spec.hostNetwork && hostPort !== containerPort ? [invalid(`${path}.hostPort`, hostPort, mustMatch)] : []),
  ];
}

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

function validateVariable({ name, value = '', valueFrom }: EnvVar, path: string): FieldError[] {
  const nameErrors = name ? checked(`${path}.name`, name, isEnvironmentName) : [required(`${path}.name`)];
  if (!valueFrom) return nameErrors;
  const place = `${path}.valueFrom`;
  const { fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef, fileKeyRef } = valueFrom;
  const sources = Object.keys(valueFrom).length;
  const choose =
    'must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`';
  return [
    ...nameErrors,
    ...(fieldRef ? validateFieldRef(fieldRef, ENV_FIELD_PATHS, `${place}.fieldRef`) : []),
    ...(resourceFieldRef
      ? validateResourceFieldRef(resourceFieldRef, `${place}.resourceFieldRef`, { containerName: false })
      : []),
    ...(configMapKeyRef ? validateKeySelector(configMapKeyRef, `${place}.configMapKeyRef`) : []),
    ...(secretKeyRef ? validateKeySelector(secretKeyRef, `${place}.secretKeyRef`) : []),
    ...(fileKeyRef ? validateFileSelector(fileKeyRef, `${place}.fileKeyRef`) : []),
    ...(sources === 0 ? [invalid(place, '', choose)] : []),
    ...(sources > 0 && value !== '' ? [invalid(place, '', 'may not be specified when `value` is not empty')] : []),
    ...(sources > 1 && value === ''
      ? [invalid(place, '', 'may not have more than one field specified at a time')]
      : []),
  ];
}

function validateFileSelector(
  { volumeName = '', path: file = '', key = '' }: { volumeName?: string; path?: string; key?: string },
  path: string,
): FieldError[] {
  return [
    ...(volumeName === '' ? [required(`${path}.volumeName`)] : checked(`${path}.volumeName`, volumeName, isDnsLabel)),
    ...(file === '' ? [required(`${path}.path`)] : checked(`${path}.path`, file, nonReservedPath)),
    ...(key === '' ? [required(`${path}.key`)] : checked(`${path}.key`, key, isEnvironmentName)),
  ];
}

function validateKeySelector({ name = '', key = '' }: { name?: string; key?: string }, path: string): FieldError[] {
  return [
    ...checked(`${path}.name`, name, isDnsSubdomain),
    ...(key === '' ? [required(`${path}.key`)] : checked(`${path}.key`, key, isConfigKey)),
  ];
}

function validateEnvFrom({ prefix = '', configMapRef, secretRef }: EnvFromSource, path: string): FieldError[] {
  const sources = [configMapRef, secretRef].filter((source) => source !== undefined);
  const choose = 'must specify one of: `configMapRef` or `secretRef`';
  return [
    ...(prefix === '' ? [] : checked(`${path}.prefix`, prefix, isEnvironmentName)),
    ...(sources.length === 0 ? [invalid(path, '', choose)] : []),
    ...(sources.length > 1 ? [invalid(path, '', 'may not have more than one field specified at a time')] : []),
  ];
}

function validateResizePolicy({ resizePolicy = [] }: Container, spec: PodSpec, path: string): FieldError[] {
  const repeated = repeatedAt(resizePolicy.map(({ resourceName }) => resourceName));
  return resizePolicy.flatMap(({ resourceName, restartPolicy }, at) => [
    ...(repeated.has(at) ? [duplicate(`${path}[${at}]`, resourceName)] : []),
    ...oneOf(path, resourceName, ['cpu', 'memory']),
    ...oneOf(path, restartPolicy, ['NotRequired', 'RestartContainer']),
    ...(spec.restartPolicy === 'Never' && restartPolicy !== 'NotRequired'
      ? [invalid(path, restartPolicy, "must be 'NotRequired' when `restartPolicy` is 'Never'")]
      : []),
  ]);
}

const RESTART_POLICIES = ['Always', 'Never', 'OnFailure'];

/** A container's own restart policy, and the rules that refine it. */
function validateContainerRestart({ restartPolicy, restartPolicyRules = [] }: Container, path: string): FieldError[] {
  const place = `${path}.restartPolicyRules`;
  return [
    ...(restartPolicy !== undefined && !RESTART_POLICIES.includes(restartPolicy)
      ? [notSupported(`${path}.restartPolicy`, restartPolicy, RESTART_POLICIES)]
      : []),
    ...(restartPolicyRules.length > 0 && restartPolicy === undefined
      ? [required(`${path}.restartPolicy`, 'must specify restartPolicy when restart rules are used')]
      : []),
    ...restartPolicyRules.flatMap(({ action, exitCodes }, at) => [
      ...oneOf(`${place}[${at}].action`, action, ['Restart', 'RestartAllContainers']),
      ...(exitCodes
        ? oneOf(`${place}[${at}].exitCodes.operator`, exitCodes.operator, ['In', 'NotIn'])
        : [required(`${place}[${at}].exitCodes`, 'must be specified')]),
    ]),
  ];
}

/** Debug containers are added to a running pod, never part of a new one. */
export const refuseEphemeralContainers = (spec: PodSpec, path: string): FieldError[] =>
  (spec.ephemeralContainers ?? []).length > 0
    ? [forbidden(`${path}.ephemeralContainers`, 'cannot be set on create')]
    : [];
