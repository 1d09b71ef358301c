/**
 * Validates security contexts (identities, profiles, contradictions), and the fields that depend on the operating
 * system of a pod.
 *
 * Validates fields that depend on the operating system of a pod, and the options of Windows.
 *
 * A node of 0.2.0 refused pods for Windows and did not validate the options; a replay of its journal does not apply
 * these rules. Admission rejects a pod for Windows, because this node runs Linux.
 */
import type { Pod, PodSpec, SeccompProfile, SecurityContext } from '../api/pod.ts';
import {
  byteLength,
  checked,
  descendingPath,
  duplicates,
  errorsOf,
  type FieldError,
  forbidden,
  inclusiveRange,
  invalid,
  isLongName,
  notSupported,
  optionalOneOf,
  required,
  supportedOnly,
  tooLong,
} from './field.ts';
import { placedContainers } from './metadata.ts';

const MAX_ID = 2_147_483_647;
const SYSCTL_FORM = String.raw`([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?`;
const SYSCTL = new RegExp(`^${SYSCTL_FORM}$`);
const SYSCTL_LENGTH = 253;
const PROFILE_TYPES = ['Localhost', 'RuntimeDefault', 'Unconfined'];

function validateId(path: string, id: number | undefined): FieldError[] {
  return id === undefined || (id >= 0 && id <= MAX_ID) ? [] : [invalid(path, id, inclusiveRange(0, MAX_ID))];
}

export function validateSecurityContext(
  context: SecurityContext,
  spec: PodSpec,
  path: string,
  asKubelet: boolean,
): FieldError[] {
  const { privileged, allowPrivilegeEscalation, capabilities, procMount, seccompProfile, appArmorProfile } = context;
  const admin = asKubelet ? /^CAP_SYS_ADMIN$/ : /^(CAP_)?SYS_ADMIN$/;
  const addsAdmin = capabilities?.add?.some((capability) => admin.test(capability)) ?? false;
  const choice = asKubelet ? supportedOnly : optionalOneOf;
  const contradiction = 'cannot set `allowPrivilegeEscalation` to false and';
  return errorsOf(
    validateId(`${path}.runAsUser`, context.runAsUser),
    validateId(`${path}.runAsGroup`, context.runAsGroup),
    choice(`${path}.procMount`, procMount, ['Default', 'Unmasked']),
    procMount === 'Unmasked' &&
      spec.hostUsers !== false &&
      invalid(`${path}.procMount`, procMount, '`hostUsers` must be false to use `Unmasked`'),
    allowPrivilegeEscalation === false &&
      privileged === true &&
      invalid(path, context, `${contradiction} \`privileged\` to true`),
    allowPrivilegeEscalation === false &&
      addsAdmin &&
      invalid(path, context, `${contradiction} \`capabilities.Add\` CAP_SYS_ADMIN`),
    seccompProfile && validateSeccomp(seccompProfile, `${path}.seccompProfile`, asKubelet),
    appArmorProfile && validateAppArmor(appArmorProfile, `${path}.appArmorProfile`, asKubelet),
  );
}

export function validatePodSecurityContext(spec: PodSpec, path: string, asKubelet: boolean): FieldError[] {
  const choice = asKubelet ? supportedOnly : optionalOneOf;
  const context = spec.securityContext ?? {};
  const { supplementalGroups = [], seccompProfile, appArmorProfile } = context;
  return errorsOf(
    validateId(`${path}.runAsUser`, context.runAsUser),
    validateId(`${path}.runAsGroup`, context.runAsGroup),
    validateId(`${path}.fsGroup`, context.fsGroup),
    supplementalGroups.flatMap((group, at) => validateId(`${path}.supplementalGroups[${at}]`, group)),
    validateSysctls(spec, `${path}.sysctls`, asKubelet),
    choice(`${path}.fsGroupChangePolicy`, context.fsGroupChangePolicy, ['Always', 'OnRootMismatch']),
    choice(`${path}.supplementalGroupsPolicy`, context.supplementalGroupsPolicy, ['Merge', 'Strict']),
    choice(
      `${path}.seLinuxChangePolicy`,
      context.seLinuxChangePolicy,
      // Volumes are not mounted with a label: upstream's gate `SELinuxMount` is off.
      asKubelet ? ['Recursive'] : ['MountOption', 'Recursive'],
    ),
    seccompProfile && validateSeccomp(seccompProfile, `${path}.seccompProfile`, asKubelet),
    appArmorProfile && validateAppArmor(appArmorProfile, `${path}.appArmorProfile`, asKubelet),
  );
}

function validateSysctls(spec: PodSpec, path: string, asKubelet: boolean): FieldError[] {
  const sysctls = spec.securityContext?.sysctls ?? [];
  return [
    ...sysctls.flatMap(({ name }, at) => {
      const place = `${path}[${at}].name`;
      if (name === '') return [required(place)];
      const form = `must have at most ${SYSCTL_LENGTH} characters and match regex ^${SYSCTL_FORM}$`;
      if (name.length > SYSCTL_LENGTH || !SYSCTL.test(name)) return [invalid(place, name, form)];
      return validateSysctlNamespace(spec, name, place);
    }),
    ...duplicates(
      sysctls.map(({ name }, at) => [`${path}[${at}].name`, asKubelet ? name : name.replaceAll('/', '.')] as const),
    ),
  ];
}

/** A sysctl in a namespace shared with the node would change the node. */
function validateSysctlNamespace(spec: PodSpec, name: string, path: string): FieldError[] {
  const dotted = name.replaceAll('/', '.');
  const isIpc = /^(kernel\.(shm|msg|sem)|fs\.mqueue\.)/.test(dotted);
  if (spec.hostNetwork && dotted.startsWith('net.')) {
    return [invalid(path, name, "may not be specified when 'hostNetwork' is true")];
  }
  return spec.hostIPC && isIpc ? [invalid(path, name, "may not be specified when 'hostIPC' is true")] : [];
}

/** An empty or absolute profile name must fail here: a runtime may run such a container unconfined. */
function validateSeccomp({ type, localhostProfile }: SeccompProfile, path: string, asKubelet: boolean): FieldError[] {
  const shown = asKubelet ? { Type: type, LocalhostProfile: localhostProfile } : localhostProfile;
  const place = `${path}.localhostProfile`;
  if (!type) return [required(`${path}.type`, 'type is required when seccompProfile is set')];
  if (type === 'Localhost') {
    if (!localhostProfile) return [required(place, 'must be set when seccomp type is Localhost')];
    return checked(place, localhostProfile, descendingPath);
  }
  return errorsOf(
    localhostProfile !== undefined && invalid(place, shown, 'can only be set when seccomp type is Localhost'),
    !PROFILE_TYPES.includes(type) && notSupported(`${path}.type`, type, PROFILE_TYPES),
  );
}

const APPARMOR_MAX_BYTES = 4_095;

function validateAppArmor({ type, localhostProfile }: SeccompProfile, path: string, asKubelet: boolean): FieldError[] {
  const place = `${path}.localhostProfile`;
  if (!type) return [required(`${path}.type`, 'type is required when appArmorProfile is set')];
  if (type === 'Localhost') {
    const isPadded = localhostProfile !== undefined && localhostProfile !== localhostProfile.trim();
    if (asKubelet && isPadded) return [invalid(place, localhostProfile, 'must not be padded with whitespace')];
    if (asKubelet && byteLength(localhostProfile ?? '') > APPARMOR_MAX_BYTES)
      return [tooLong(place, APPARMOR_MAX_BYTES)];
    return localhostProfile?.trim() ? [] : [required(place, 'must be set when AppArmor type is Localhost')];
  }
  return errorsOf(
    localhostProfile !== undefined &&
      !(asKubelet && !PROFILE_TYPES.includes(type)) &&
      invalid(place, localhostProfile, 'can only be set when AppArmor type is Localhost'),
    !PROFILE_TYPES.includes(type) && notSupported(`${path}.type`, type, PROFILE_TYPES),
  );
}

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
