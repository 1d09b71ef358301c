/**
 * The user and the privileges of a container.
 *
 * Merges the security contexts of pod and container. Invariant: the container's setting overrides the pod's; a pod that
 * must not run as root never does.
 */
import type {
  Image,
  LinuxContainerSecurityContext,
  LinuxSandboxSecurityContext,
  NamespaceOption,
  SELinuxOption,
  SecurityProfile,
  UserNamespace,
} from '../api/cri.ts';
import type { Container, Pod, SeccompProfile, SecurityContext } from '../api/pod.ts';
import type { UserMapping } from '../operations/users.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { podLongName } from './paths.ts';
import { podContainers } from './qos.ts';
import type { MountedVolumes } from './volumes.ts';

/**
 * Masked paths of a container with `procMount: Default`: the common list of container runtimes, to which they add the
 * counters of {@link throttlingOf}.
 */
const MASKED_PATHS = [
  '/proc/asound',
  '/proc/acpi',
  '/proc/interrupts',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/sched_debug',
  '/proc/scsi',
  '/sys/firmware',
  '/sys/devices/virtual/powercap',
];
/** The counters of thermal throttling tell a container how much power others use, and so what they compute. */
const throttlingOf = (cpu: number): string => `/sys/devices/system/cpu/cpu${cpu}/thermal_throttle`;

const READONLY_PATHS = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];

export interface ImageUser {
  /** `null` if the image names its user by name. */
  readonly uid: string | null;
  readonly username: string;
}

/** An image without a user runs as root. */
export function imageUser(image: Image | null): ImageUser {
  if (image?.uid !== undefined) return { uid: image.uid.value ?? '0', username: '' };
  return image === null || image.username === '' ? { uid: '0', username: '' } : { uid: null, username: image.username };
}

const MAX_USER_ID = 2_147_483_647;

const isUserId = (uid: string): boolean => Number(uid) >= 0 && Number(uid) <= MAX_USER_ID;

/** `null` if the container may run; else why it would violate `runAsNonRoot`. */
export function nonRootViolation(pod: Pod, container: Container, user: ImageUser): string | null {
  const mustNotBeRoot = container.securityContext?.runAsNonRoot ?? pod.spec.securityContext?.runAsNonRoot ?? false;
  if (!mustNotBeRoot) return null;
  const where = `(pod: "${podLongName(pod)}", container: ${container.name})`;
  const requestedUser = container.securityContext?.runAsUser ?? pod.spec.securityContext?.runAsUser;
  if (requestedUser !== undefined)
    return requestedUser === 0 ? `container's runAsUser breaks non-root policy ${where}` : null;
  if (user.uid === null) {
    return `container has runAsNonRoot and image has non-numeric user (${user.username}), cannot verify user is non-root ${where}`;
  }
  if (user.uid === '0') return `container has runAsNonRoot and image will run as root ${where}`;
  if (isUserId(user.uid)) return null;
  const range = `must be between 0 and ${MAX_USER_ID}, inclusive`;
  return `container has runAsNonRoot and image has an invalid user id (${user.uid}). (Must be 1-(${MAX_USER_ID})): ${range} ${where}`;
}

/** Zero values are left out: CRI's default is a namespace of the pod. */
function namespaceOptions(pod: Pod, users: UserMapping | null): NamespaceOption {
  const { hostNetwork, hostPID, hostIPC, shareProcessNamespace } = pod.spec;
  return {
    ...(hostNetwork === true ? { network: 'NODE' } : {}),
    ...(hostPID === true ? { pid: 'NODE' } : shareProcessNamespace === true ? {} : { pid: 'CONTAINER' }),
    ...(hostIPC === true ? { ipc: 'NODE' } : {}),
    userns_options: pod.spec.hostUsers === false ? podUsers(users) : { mode: 'NODE' },
  };
}

/** Why the pod cannot have a user namespace; `null` if it can, or does not request one. */
export function usersRefusal(pod: Pod, handler: string, node: Pick<NodeSettings, 'runtimeHandlers'>): string | null {
  if (pod.spec.hostUsers !== false || node.runtimeHandlers?.[handler]?.userNamespaces === true) return null;
  const who = handler === '' ? 'runtime' : `RuntimeClass handler "${handler}"`;
  return `can't set \`spec.hostUsers: false\`, ${who} does not support user namespaces`;
}

/** Root in the pod is an unprivileged user on the node. */
export function podUsers(users: UserMapping | null): UserNamespace {
  if (users === null) return { mode: 'POD' };
  const mapping = [{ host_id: users.hostId, container_id: 0, length: users.length }];
  return { mode: 'POD', uids: mapping, gids: mapping };
}

const int64 = (value: number): { value: string } => ({ value: String(value) });

/** `fsGroup` first, then the groups of volumes, then the pod's supplemental groups in their order. */
function supplementalGroups(pod: Pod, volumes: MountedVolumes): readonly string[] {
  const { fsGroup, supplementalGroups: groups = [] } = pod.spec.securityContext ?? {};
  const ofVolumes = Object.values(volumes).flatMap(({ groupId }) => (groupId === undefined ? [] : [groupId]));
  const added = [...new Set(ofVolumes)].filter((groupId) => !groups.includes(groupId));
  return [...(fsGroup === undefined ? [] : [fsGroup]), ...added, ...groups].map(String);
}

export function sandboxSecurityContext(
  pod: Pod,
  users: UserMapping | null,
  volumes: MountedVolumes,
): LinuxSandboxSecurityContext {
  const { securityContext } = pod.spec;
  const groups = supplementalGroups(pod, volumes);
  return {
    namespace_options: namespaceOptions(pod, users),
    ...seLinux(securityContext?.seLinuxOptions),
    ...(securityContext?.runAsUser === undefined ? {} : { run_as_user: int64(securityContext.runAsUser) }),
    ...(securityContext?.runAsGroup === undefined ? {} : { run_as_group: int64(securityContext.runAsGroup) }),
    ...(groups.length === 0 ? {} : { supplemental_groups: groups }),
    ...groupsPolicy(pod),
    ...(isPrivilegedPod(pod) ? { privileged: true } : {}),
    seccomp: { profile_type: 'RuntimeDefault' },
  };
}

const isPrivilegedPod = (pod: Pod): boolean =>
  [...podContainers(pod), ...(pod.spec.ephemeralContainers ?? [])].some(
    ({ securityContext }) => securityContext?.privileged === true,
  );

const groupsPolicy = (pod: Pod): Pick<LinuxContainerSecurityContext, 'supplemental_groups_policy'> =>
  pod.spec.securityContext?.supplementalGroupsPolicy === 'Strict' ? { supplemental_groups_policy: 'Strict' } : {};

export function containerSecurityContext(
  pod: Pod,
  container: Container,
  user: ImageUser,
  node: Pick<NodeSettings, 'seccompDefault' | 'rootDir' | 'throttledCpus'>,
  users: UserMapping | null = null,
  volumes: MountedVolumes = {},
): LinuxContainerSecurityContext {
  const ofContainer = container.securityContext;
  const shared = pod.spec.securityContext;
  const runAsGroup = ofContainer?.runAsGroup ?? shared?.runAsGroup;
  const groups = supplementalGroups(pod, volumes);
  const unmasked = ofContainer?.procMount === 'Unmasked';
  return {
    ...capabilities(container),
    ...(ofContainer?.privileged === true ? { privileged: true } : {}),
    namespace_options: namespaceOptions(pod, users),
    ...seLinux(ofContainer?.seLinuxOptions ?? shared?.seLinuxOptions),
    ...runAs(ofContainer?.runAsUser ?? shared?.runAsUser, user),
    ...(runAsGroup === undefined ? {} : { run_as_group: int64(runAsGroup) }),
    ...(ofContainer?.readOnlyRootFilesystem === true ? { readonly_rootfs: true } : {}),
    ...(groups.length === 0 ? {} : { supplemental_groups: groups }),
    ...groupsPolicy(pod),
    ...(ofContainer?.allowPrivilegeEscalation === false ? { no_new_privs: true } : {}),
    ...(unmasked ? {} : { masked_paths: maskedPaths(node), readonly_paths: READONLY_PATHS }),
    seccomp: seccomp(ofContainer?.seccompProfile ?? shared?.seccompProfile, node),
    ...appArmor(pod, container),
  };
}

const maskedPaths = ({ throttledCpus = [] }: Pick<NodeSettings, 'throttledCpus'>): readonly string[] => [
  ...MASKED_PATHS,
  ...throttledCpus.map(throttlingOf),
];

function runAs(
  asked: number | undefined,
  user: ImageUser,
): Pick<LinuxContainerSecurityContext, 'run_as_user' | 'run_as_username'> {
  if (asked !== undefined) return { run_as_user: int64(asked) };
  return user.uid === null ? { run_as_username: user.username } : { run_as_user: { value: user.uid } };
}

function capabilities({ securityContext }: Container): Pick<LinuxContainerSecurityContext, 'capabilities'> {
  const { add = [], drop = [] } = securityContext?.capabilities ?? {};
  if (securityContext?.capabilities === undefined) return {};
  return {
    capabilities: {
      ...(add.length === 0 ? {} : { add_capabilities: add }),
      ...(drop.length === 0 ? {} : { drop_capabilities: drop }),
    },
  };
}

const seLinux = (options: SELinuxOption | undefined): { selinux_options?: SELinuxOption } =>
  options === undefined ? {} : { selinux_options: options };

function seccomp(
  profile: SeccompProfile | undefined,
  node: Pick<NodeSettings, 'seccompDefault' | 'rootDir'>,
): SecurityProfile {
  switch (profile?.type) {
    case 'RuntimeDefault':
      return { profile_type: 'RuntimeDefault' };
    case 'Localhost':
      return { profile_type: 'Localhost', localhost_ref: seccompFile(profile, node) };
    case 'Unconfined':
      return { profile_type: 'Unconfined' };
    default:
      return { profile_type: node.seccompDefault ? 'RuntimeDefault' : 'Unconfined' };
  }
}

function seccompFile({ localhostProfile = '' }: SeccompProfile, { rootDir }: Pick<NodeSettings, 'rootDir'>): string {
  if (localhostProfile === '') throw new Error('localhostProfile must be set if seccompProfile type is Localhost.');
  const names = localhostProfile.split('/').filter((name) => name !== '' && name !== '.');
  return [rootDir, 'seccomp', ...names].join('/');
}

type Profile = NonNullable<SecurityContext['appArmorProfile']>;

const ANNOTATION = 'container.apparmor.security.beta.kubernetes.io/';
const UNCONFINED = 'unconfined';
const RUNTIME_DEFAULT = 'runtime/default';
const LOCALHOST = 'localhost/';

/** Whether the machine has to enforce an AppArmor profile for the pod. */
export function wantsAppArmor(pod: Pod): boolean {
  const containers = [...podContainers(pod), ...(pod.spec.ephemeralContainers ?? [])];
  const profiles = [pod, ...containers.map((container) => ({ spec: container }))].map(
    ({ spec }) => spec.securityContext?.appArmorProfile,
  );
  if (profiles.some((profile) => profile !== undefined && profile.type !== 'Unconfined')) return true;
  const annotations = Object.entries(pod.metadata.annotations ?? {});
  return annotations.some(([key, value]) => key.startsWith(ANNOTATION) && value !== UNCONFINED);
}

function annotated({ metadata }: Pod, { name }: Container): Profile | undefined {
  const value = metadata.annotations?.[`${ANNOTATION}${name}`] ?? '';
  if (value === RUNTIME_DEFAULT) return { type: 'RuntimeDefault' };
  if (value === UNCONFINED) return { type: 'Unconfined' };
  return value.startsWith(LOCALHOST)
    ? { type: 'Localhost', localhostProfile: value.slice(LOCALHOST.length) }
    : undefined;
}

/**
 * The AppArmor profile of a container, with the name for older runtimes: from its own field, a legacy annotation (which
 * the API server converts to the field, except for a static pod), or its pod's field. Upstream: pkg/security/apparmor.
 */
function appArmor(
  pod: Pod,
  container: Container,
): Pick<LinuxContainerSecurityContext, 'apparmor' | 'apparmor_profile'> {
  const ofContainer = container.securityContext?.appArmorProfile;
  const profile = ofContainer ?? annotated(pod, container) ?? pod.spec.securityContext?.appArmorProfile;
  switch (profile?.type) {
    case 'RuntimeDefault':
      return { apparmor: { profile_type: 'RuntimeDefault' }, apparmor_profile: RUNTIME_DEFAULT };
    case 'Localhost': {
      const name = profile.localhostProfile ?? '';
      return { apparmor: { profile_type: 'Localhost', localhost_ref: name }, apparmor_profile: `${LOCALHOST}${name}` };
    }
    case 'Unconfined':
      return { apparmor: { profile_type: 'Unconfined' }, apparmor_profile: UNCONFINED };
    default:
      return {};
  }
}
