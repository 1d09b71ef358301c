/**
 * The SELinux label with which the volume of a claim is mounted, so that the runtime need not label each of its files
 * (KEP-1710). Pure. Upstream: pkg/volume/util/selinux.go.
 */
import type { Container, CSIDriverSpec, Pod } from '../api/pod.ts';
import type { BoundVolume } from '../operations/volume.ts';
import type { NodeSettings } from '../settings/node-settings.ts';
import { podContainers } from '../spec/qos.ts';
import type { CSIVolume } from './messages.ts';

type Options = NonNullable<NonNullable<Container['securityContext']>['seLinuxOptions']>;

const ONE_POD = 'ReadWriteOncePod';

/**
 * The label for a volume, if its driver supports such mounts; empty if the pod requests none. `undefined`: volumes of
 * this kind, or this node, have no such mounts.
 *
 * @throws Error with upstream's text, if containers with different labels use the volume
 */
export function mountLabel(
  name: string,
  bound: BoundVolume | null,
  { pod, node }: { readonly pod: Pod; readonly node: Pick<NodeSettings, 'seLinuxMounts'> },
): string | undefined {
  if (node.seLinuxMounts === undefined || bound === null) return undefined;
  const { everyVolume, fileLabel } = node.seLinuxMounts;
  const { accessModes = [] } = bound.spec;
  if (!everyVolume && !(accessModes.length === 1 && accessModes[0] === ONE_POD)) return undefined;
  const labels = new Set(optionsOfUsers(name, pod).map((options) => labelOfFiles(options, fileLabel)));
  if (labels.size > 1) throw new Error(`multiple SELinux labels found: ${[...labels].join(',')}`);
  const [label = ''] = labels;
  return pod.spec.securityContext?.seLinuxChangePolicy === 'Recursive' ? '' : label;
}

/** The options of the containers that mount the volume; a container without any counts for none. */
function optionsOfUsers(name: string, pod: Pod): readonly Options[] {
  const shared = pod.spec.securityContext?.seLinuxOptions;
  const containers = [...podContainers(pod), ...(pod.spec.ephemeralContainers ?? [])];
  return containers
    .filter(({ volumeMounts = [] }) => volumeMounts.some((mount) => mount.name === name))
    .flatMap(({ securityContext }) => securityContext?.seLinuxOptions ?? shared ?? []);
}

/**
 * The label of files that a process with these options may use: user and level of the process, role and type of the
 * node's policy (`user:role:type:level`). Without a level it is empty: the runtime chooses one, which differs from the
 * one that upstream chooses here.
 */
function labelOfFiles({ user, level }: Options, fileLabel: string): string {
  if (!level) return '';
  const [ofNode = '', role = '', type = ''] = fileLabel.split(':');
  return [user || ofNode, role, type, level].join(':');
}

/** Mount options with a label. The quotes are needed for the commas of a label. */
export const withLabel = (options: readonly string[], label: string): readonly string[] =>
  label === '' ? options : [...options, `context=${JSON.stringify(label)}`];

/** The SELinux label to mount the volume with; empty for none. */
export const labelOf = ({ seLinuxLabel = '' }: CSIVolume, spec: CSIDriverSpec | null | undefined): string =>
  spec?.seLinuxMount === true ? seLinuxLabel : '';

/** Upstream's text for a volume that other pods use with another label. */
export const labelConflict = ({ spec, seLinuxLabel = '' }: CSIVolume, label: string): string =>
  `conflicting SELinux labels of volume ${spec}: ${JSON.stringify(label)} and ${JSON.stringify(seLinuxLabel)}`;
