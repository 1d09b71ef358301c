/** The volumes of a pod as `kubectl describe pod` prints them. */
import type { PodSpec } from '../../machines/model/api/pod.ts';

type Volume = NonNullable<PodSpec['volumes']>[number];
type Projected = NonNullable<Volume['projected']>;

/** Volumes as `kubectl describe pod` prints them. */
export const volumeLines = (volumes: readonly Volume[]): string[] =>
  volumes.length === 0
    ? ['Volumes:\t<none>']
    : [
        'Volumes:',
        ...volumes.flatMap((volume) => [`  ${volume.name}:`, ...source(volume).map((line) => `    ${line}`)]),
      ];

function source(volume: Volume): string[] {
  const { emptyDir, hostPath, configMap, secret, projected, downwardAPI, persistentVolumeClaim } = volume;
  if (emptyDir) {
    return [
      "Type:\tEmptyDir (a temporary directory that shares a pod's lifetime)",
      `Medium:\t${emptyDir.medium ?? ''}`,
      `SizeLimit:\t${emptyDir.sizeLimit ?? '<unset>'}`,
    ];
  }
  if (hostPath) {
    const type = `HostPathType:\t${hostPath.type ?? ''}`;
    return ['Type:\tHostPath (bare host directory volume)', `Path:\t${hostPath.path}`, type];
  }
  if (configMap) {
    const { name = '', optional = false } = configMap;
    return ['Type:\tConfigMap (a volume populated by a ConfigMap)', `Name:\t${name}`, `Optional:\t${optional}`];
  }
  if (secret) {
    const { secretName = '', optional = false } = secret;
    return ['Type:\tSecret (a volume populated by a Secret)', `SecretName:\t${secretName}`, `Optional:\t${optional}`];
  }
  if (projected) return projectedLines(projected);
  if (downwardAPI) return ['Type:\tDownwardAPI (a volume populated by information about the pod)'];
  if (persistentVolumeClaim) {
    const { claimName, readOnly = false } = persistentVolumeClaim;
    const type = 'Type:\tPersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)';
    return [type, `ClaimName:\t${claimName}`, `ReadOnly:\t${readOnly}`];
  }
  const kind = Object.keys(volume).find((key) => key !== 'name') ?? 'unknown';
  return [`Type:\t${kind}`];
}

function projectedLines({ sources }: Projected): string[] {
  const lines = (sources ?? []).flatMap(({ secret, downwardAPI, configMap, serviceAccountToken }) => {
    if (secret) return [`SecretName:\t${secret.name}`, `Optional:\t${secret.optional ?? '<nil>'}`];
    if (downwardAPI) return ['DownwardAPI:\ttrue'];
    if (configMap) return [`ConfigMapName:\t${configMap.name}`, `ConfigMapOptional:\t${configMap.optional ?? '<nil>'}`];
    return serviceAccountToken ? [`TokenExpirationSeconds:\t${serviceAccountToken.expirationSeconds ?? 3_600}`] : [];
  });
  return ['Type:\tProjected (a volume that contains injected data from multiple sources)', ...lines];
}
