/** Manifests and images of a simulated node. */
import type { Image } from '../../machines/model/api/cri.ts';
import type { Manifest } from '../../machines/model/operations/host.ts';

export interface PodOptions {
  readonly uid: string;
  readonly name?: string;
  readonly spec?: Record<string, unknown>;
  readonly containers?: readonly Record<string, unknown>[];
}

/** The manifest of a pod, with one container `app` by default. */
export function manifest({ uid, name = 'web', spec = {}, containers }: PodOptions): Manifest {
  const { volumes } = spec as { readonly volumes?: readonly { readonly name: string }[] };
  return {
    file: `/etc/kubernetes/manifests/${name}.yaml`,
    uid,
    value: {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'default' },
      spec: { containers: withMounts(containers ?? [{ name: 'app', image: 'app:1' }], volumes), ...spec },
    } as never,
  };
}

export const image = (name: string): Image => ({
  id: `sha256:${name}`,
  repo_tags: [name],
  repo_digests: [],
  size: '1000',
  username: '',
  pinned: false,
});

interface Container {
  readonly volumeMounts?: readonly unknown[];
  readonly volumeDevices?: readonly unknown[];
}

/**
 * The containers with mounts of their pod's volumes, because the kubelet ignores volumes that no container mounts. A
 * container without a list of mounts gets every volume except images, at `/<name>`.
 */
export function withMounts<Each extends object>(
  containers: readonly Each[],
  volumes: readonly { readonly name: string }[] = [],
): readonly Each[] {
  const isQuiet = (each: Container) => !each.volumeMounts && !each.volumeDevices;
  const volumeMounts = volumes.flatMap((volume) =>
    'image' in volume ? [] : [{ name: volume.name, mountPath: `/${volume.name}` }],
  );
  if (volumeMounts.length === 0) return containers;
  return containers.map((each) => (isQuiet(each) ? { ...each, volumeMounts } : each));
}
