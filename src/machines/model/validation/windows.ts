/**
 * Validates fields that depend on the operating system of a pod, and the options of Windows.
 *
 * A node of 0.2.0 refused pods for Windows and did not validate the options; a replay of its journal does not apply
 * these rules. Admission rejects a pod for Windows, because this node runs Linux.
 */
import type { Pod, PodSpec, SecurityContext } from '../api/pod.ts';
import { placedContainers } from './annotations.ts';
import {
  byteLength,
  checked,
  errorsOf,
  type FieldError,
  forbidden,
  invalid,
  isLongName,
  notSupported,
  required,
} from './field.ts';

type Options = NonNullable<SecurityContext['windowsOptions']>;

const SYSTEMS = ['linux', 'windows'];
const NOT_ON_WINDOWS = 'cannot be set for a windows pod';
const OF_PODS = [
  'appArmorProfile',
  'seLinuxOptions',
  'seccompProfile',
  'fsGroup',
  'fsGroupChangePolicy',
  'runAsUser',
  'runAsGroup',
  'supplementalGroups',
  'supplementalGroupsPolicy',
  'seLinuxChangePolicy',
] as const;
const OF_CONTAINERS = [
  'appArmorProfile',
  'seLinuxOptions',
  'seccompProfile',
  'capabilities',
  'readOnlyRootFilesystem',
  'privileged',
  'allowPrivilegeEscalation',
  'procMount',
  'runAsUser',
  'runAsGroup',
] as const;

export function validateSystem({ spec }: Pod, path: string): FieldError[] {
  const context = spec.securityContext;
  return errorsOf(
    validateOptions(context?.windowsOptions, `${path}.securityContext.windowsOptions`),
    placedContainers(spec).flatMap(([{ securityContext }, place]) =>
      validateOptions(securityContext?.windowsOptions, `${path}.${place}.securityContext.windowsOptions`),
    ),
    validateHostProcess(spec, path),
    spec.os && validateOs(spec, spec.os.name, path),
  );
}

function validateOs(spec: PodSpec, name: string, path: string): FieldError[] {
  if (name === '') return [required(`${path}.os.name`)];
  if (name === 'linux') return onLinux(spec, path);
  return name === 'windows' ? onWindows(spec, path) : [notSupported(`${path}.os`, name, SYSTEMS)];
}

function onLinux(spec: PodSpec, path: string): FieldError[] {
  const contexts = [
    [spec.securityContext, path] as const,
    ...placedContainers(spec).map(([{ securityContext }, place]) => [securityContext, `${path}.${place}`] as const),
  ];
  return contexts.flatMap(([context, place]) =>
    context?.windowsOptions
      ? [forbidden(`${place}.securityContext.windowsOptions`, 'windows options cannot be set for a linux pod')]
      : [],
  );
}

function onWindows(spec: PodSpec, path: string): FieldError[] {
  const { securityContext: context = {} } = spec;
  const refused = errorsOf(
    OF_PODS.filter((field) => context[field] !== undefined).map((field) => `securityContext.${field}`),
    context.sysctls?.length && 'securityContext.sysctls',
    (['hostUsers', 'shareProcessNamespace'] as const).filter((field) => spec[field] !== undefined),
    (['hostPID', 'hostIPC'] as const).filter((field) => spec[field] === true),
    placedContainers(spec).flatMap(([{ securityContext = {} }, place]) =>
      OF_CONTAINERS.filter((field) => securityContext[field] !== undefined).map(
        (field) => `${place}.securityContext.${field}`,
      ),
    ),
  );
  return refused.map((field) => forbidden(`${path}.${field}`, NOT_ON_WINDOWS));
}

function validateHostProcess(spec: PodSpec, path: string): FieldError[] {
  const ofPod = spec.securityContext?.windowsOptions?.hostProcess;
  const hostProcess = placedContainers(spec).map(([{ securityContext }, place]) => ({
    value: securityContext?.windowsOptions?.hostProcess,
    place: `${path}.${place}.securityContext.windowsOptions.hostProcess`,
  }));
  const count = hostProcess.filter(({ value = ofPod }) => value === true).length;
  const all = 'If pod contains any hostProcess containers then all containers must be HostProcess containers';
  const network = 'hostNetwork must be true if pod contains any hostProcess containers';
  return errorsOf(
    hostProcess.flatMap(({ value, place }) =>
      ofPod === undefined || value === undefined || value === ofPod
        ? []
        : [invalid(place, value, `pod hostProcess value must be identical if both are specified, was ${ofPod}`)],
    ),
    count > 0 && count < hostProcess.length && invalid(path, '', all),
    count > 0 && !spec.hostNetwork && invalid(`${path}.hostNetwork`, false, network),
  );
}

const CREDENTIAL_MAX_KIB = 64;
const USER_MAX_LENGTH = 104;
const DOMAIN_LENGTH = 256;
const NET_BIOS = /^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$/;
const DNS = /^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$/;

function validateOptions(options: Options | undefined, path: string): FieldError[] {
  const { gmsaCredentialSpecName: name, gmsaCredentialSpec: credential, runAsUserName: user } = options ?? {};
  const place = `${path}.gmsaCredentialSpec`;
  const size = byteLength(credential ?? '');
  return errorsOf(
    name !== undefined && checked(`${path}.gmsaCredentialSpecName`, name, isLongName),
    credential === '' && invalid(place, credential, 'gmsaCredentialSpec cannot be an empty string'),
    size > CREDENTIAL_MAX_KIB * 1_024 &&
      invalid(place, credential, `gmsaCredentialSpec size must be under ${CREDENTIAL_MAX_KIB} KiB`),
    user !== undefined &&
      userFaults(user).map((fault) => invalid(`${path}.runAsUserName`, user, `runAsUserName${fault}`)),
  );
}

function userFaults(text: string): readonly string[] {
  const parts = text.split('\\');
  if (text === '') return [' cannot be an empty string'];
  if (/\p{Cc}/u.test(text)) return [' cannot contain control characters'];
  if (parts.length > 2) return [' cannot contain more than one backslash'];
  const user = parts.at(-1) ?? '';
  const domain = parts.length === 2 ? parts[0] : undefined;
  return errorsOf(
    (domain ?? '').length >= DOMAIN_LENGTH && `'s Domain length must be under ${DOMAIN_LENGTH} characters`,
    domain !== undefined && !isDomain(domain) && "'s Domain doesn't match the NetBios nor the DNS format",
    user === '' && "'s User cannot be empty",
    user.length > USER_MAX_LENGTH && `'s User length must not be longer than ${USER_MAX_LENGTH} characters`,
    /^[. ]+$/.test(user) && "'s User cannot contain only periods or spaces",
    /["/\\:;|=,+*?<>@[\]]/.test(user) && String.raw`'s User cannot contain the following characters: "/\:;|=,+*?<>@[]`,
  );
}

const isDomain = (domain: string): boolean =>
  domain.length < DOMAIN_LENGTH && (NET_BIOS.test(domain) || DNS.test(domain));
