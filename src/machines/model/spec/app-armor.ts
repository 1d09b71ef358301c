/**
 * Which AppArmor profile a container runs under: its own field, an old annotation, or its pod's field.
 *
 * The API server turns annotations into fields, but not those of a static pod. Pure. Upstream: pkg/security/apparmor.
 */
import type { LinuxContainerSecurityContext } from '../api/cri.ts';
import type { Container, Pod, SecurityContext } from '../api/pod.ts';
import { podContainers } from './qos.ts';

type Profile = NonNullable<SecurityContext['appArmorProfile']>;

const ANNOTATION = 'container.apparmor.security.beta.kubernetes.io/';
const UNCONFINED = 'unconfined';
const RUNTIME_DEFAULT = 'runtime/default';
const LOCALHOST = 'localhost/';

/** The machine has to enforce some profile for it. */
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

/** With the name that older runtimes know beside it. */
export function appArmor(
  pod: Pod,
  container: Container,
): Pick<LinuxContainerSecurityContext, 'apparmor' | 'apparmor_profile'> {
  const own = container.securityContext?.appArmorProfile;
  const profile = own ?? annotated(pod, container) ?? pod.spec.securityContext?.appArmorProfile;
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
