/** A pod's containers with mounts of its volumes: the kubelet leaves alone a volume that no container mounts. */

interface Container {
  readonly volumeMounts?: readonly unknown[];
  readonly volumeDevices?: readonly unknown[];
}

/** Those that say nothing of volumes see every one, at `/<name>`; images only where they ask for them. */
export function seeing<Each extends object>(
  containers: readonly Each[],
  volumes: readonly { readonly name: string }[] = [],
): readonly Each[] {
  const isQuiet = ({ volumeMounts, volumeDevices }: Container) => !volumeMounts && !volumeDevices;
  const volumeMounts = volumes.flatMap((volume) =>
    'image' in volume ? [] : [{ name: volume.name, mountPath: `/${volume.name}` }],
  );
  if (volumeMounts.length === 0) return containers;
  return containers.map((each) => (isQuiet(each as Container) ? { ...each, volumeMounts } : each));
}
