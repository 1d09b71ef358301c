/** Environment and mounts of a container as `kubectl describe pod` prints them. */
import type { Container, EnvVar } from '../../machines/model/api/pod.ts';

const NONE = '<none>';

export function containerEnvironment({ env, envFrom }: Container): string[] {
  const sources = (envFrom ?? []).map(({ configMapRef, secretRef, prefix }) => {
    const [ref, kind] = configMapRef ? [configMapRef, 'ConfigMap'] : [secretRef, 'Secret'];
    const withPrefix = prefix ? ` with prefix '${prefix}'` : '';
    return `      ${ref?.name ?? ''}\t${kind}${withPrefix}\tOptional: ${ref?.optional ?? false}`;
  });
  const variables = (env ?? []).map((each) => `      ${each.name}:\t${valueOf(each)}`);
  return [
    ...(sources.length > 0 ? ['    Environment Variables from:', ...sources] : []),
    ...(variables.length > 0 ? ['    Environment:', ...variables] : [`    Environment:\t${NONE}`]),
  ];
}

/** Where a value comes from; the values of Secrets are never shown. */
function valueOf({ value, valueFrom }: EnvVar): string {
  const { configMapKeyRef, secretKeyRef, fieldRef, resourceFieldRef } = valueFrom ?? {};
  if (configMapKeyRef) {
    const { key, name, optional = false } = configMapKeyRef;
    return `<set to the key '${key}' of config map '${name}'>\tOptional: ${optional}`;
  }
  if (secretKeyRef) {
    const { key, name, optional = false } = secretKeyRef;
    return `<set to the key '${key}' in secret '${name}'>\tOptional: ${optional}`;
  }
  if (fieldRef) return ` (${fieldRef.apiVersion ?? 'v1'}:${fieldRef.fieldPath})`;
  if (resourceFieldRef) return ` (${resourceFieldRef.resource})`;
  return value ?? '';
}

export function containerMounts({ volumeMounts }: Container): string[] {
  const mounts = [...(volumeMounts ?? [])].sort((a, b) => a.mountPath.localeCompare(b.mountPath));
  if (mounts.length === 0) return [`    Mounts:\t${NONE}`];
  const lines = mounts.map(({ mountPath, name, readOnly, subPath }) => {
    const flags = [readOnly ? 'ro' : 'rw', ...(subPath ? [`path="${subPath}"`] : [])];
    return `      ${mountPath} from ${name} (${flags.join(',')})`;
  });
  return ['    Mounts:', ...lines];
}
