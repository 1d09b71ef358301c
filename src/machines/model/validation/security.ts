/** Validates security contexts: identities, profiles, and contradictions. */
import type { PodSpec, SeccompProfile, SecurityContext } from '../api/pod.ts';
import {
  byteLength,
  checked,
  descendingPath,
  duplicates,
  errorsOf,
  type FieldError,
  inclusiveRange,
  invalid,
  notSupported,
  optionalOneOf,
  required,
  supportedOnly,
  tooLong,
} from './field.ts';

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
