/**
 * Volumes of plugins that were once part of Kubernetes, as volumes of the CSI drivers that took their place. Clusters
 * have such PersistentVolumes from before, and the API still accepts them in pods. Pure.
 *
 * Invariants: M1 the handle, and so the name of the VolumeAttachment, is the one that the cluster's controllers
 * compute. M2 a volume of another kind is left as it is.
 * Upstream: staging/src/k8s.io/csi-translation-lib/plugins, pkg/volume/csimigration/plugin_manager.go.
 */
import { messageOf } from '../../../kernel/xstate.ts';
import type { PersistentVolumeSpec, SecretReference, Volume } from '../api/pod.ts';
import { type Topology, withTopology, ZONE_DELIMITER } from './migrated-topology.ts';

/** A PersistentVolume, as far as its translation depends on it. */
export interface MigratedVolume {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: PersistentVolumeSpec;
}

type CSISource = NonNullable<PersistentVolumeSpec['csi']>;
type AccessModes = NonNullable<PersistentVolumeSpec['accessModes']>;
type Kind = 'awsElasticBlockStore' | 'azureDisk' | 'azureFile' | 'cinder' | 'gcePersistentDisk' | 'portworxVolume';
type Migrated = Kind | 'vsphereVolume';

/** How one plugin's volumes become those of its driver. `S`: the source in a PersistentVolume, `I`: in a pod. */
interface Plugin<S, I> {
  readonly ofVolume: (source: S, volume: MigratedVolume) => CSISource;
  /** `name`: of the PersistentVolume that the volume of the pod stands for; it is unique for each disk. */
  readonly ofPod: (source: I, volume: Volume, namespace: string) => { readonly name: string; readonly csi: CSISource };
  /** Labels of nodes that limit where the volume can be reached; absent if its plugin had none. */
  readonly topology?: Topology;
  readonly accessModes?: (modes: AccessModes) => AccessModes;
  /** Access modes of a volume in a pod. */
  readonly podModes?: (source: I) => AccessModes;
}

type Sources = { readonly [K in Migrated]: Plugin<NonNullable<PersistentVolumeSpec[K]>, NonNullable<Volume[K]>> };

const zoneOf = (driver: string): Topology => ({ zone: `topology.${driver}/zone` });
const readerOrWriter = ({ readOnly }: { readonly readOnly?: boolean }): AccessModes =>
  readOnly ? ['ReadOnlyMany'] : ['ReadWriteOnce'];

const EBS = 'ebs.csi.aws.com';

function ebs({ volumeID, fsType, partition = 0, readOnly }: NonNullable<Volume['awsElasticBlockStore']>): CSISource {
  return {
    ...source(EBS, ebsHandle(volumeID), fsType, { partition: String(partition) }),
    ...(readOnly ? { readOnly } : {}),
  };
}

/** The id of `aws://ZONE/ID`, or the text itself. */
function ebsHandle(text: string): string {
  if (!text.startsWith('aws://')) return text;
  const [, ...path] = text.slice('aws://'.length).split('/');
  const [id = '', ...more] = path.filter(Boolean);
  if (id.startsWith('vol-') && more.length === 0) return id;
  throw new Error(`failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (${text})`);
}

const GCE = 'pd.csi.storage.gke.io';
const UNSPECIFIED = 'UNSPECIFIED';

type Disk = NonNullable<Volume['gcePersistentDisk']>;

const gce = ({ fsType, partition = 0, readOnly }: Disk, handle: string): CSISource => ({
  ...source(GCE, handle, fsType, { partition: partition === 0 ? '' : String(partition) }),
  ...(readOnly ? { readOnly } : {}),
});

const gceHandle = (place: string, { pdName }: Disk): string => `projects/${UNSPECIFIED}/${place}/disks/${pdName}`;

/** `zones/ZONE` of a disk in one zone, `regions/REGION` of one in several. */
function gcePlace(labels: MigratedVolume['labels']): string {
  const label = labels['failure-domain.beta.kubernetes.io/zone'] || labels['topology.kubernetes.io/zone'] || '';
  const zones = label.split(ZONE_DELIMITER);
  if (zones.length === 1) return `zones/${zones[0] || UNSPECIFIED}`;
  const regions = new Set(zones.map(gceRegion));
  if (regions.size === 1) return `regions/${[...regions][0]}`;
  const named = [...regions].map((region) => `${region}:{}`).toSorted();
  throw new Error(
    `failed to get region from zones: multiple or no regions gotten from zones, got: map[${named.join(' ')}]`,
  );
}

function gceRegion(zone: string): string {
  const parts = zone.split('-');
  if (parts.length === 3) return `${parts[0]}-${parts[1]}`;
  const form = 'zone in unexpected format, expected: {locale}-{region}-{zone}';
  throw new Error(`failed to get region from zones: ${form}, got: ${zone}`);
}

/** The plugin never enforced access modes; its driver refuses those that a disk cannot have. */
function gceModes(modes: AccessModes): AccessModes {
  if (modes.length === 0) return modes;
  return modes.every((mode) => mode !== 'ReadWriteMany' && mode !== 'ReadWriteOnce') && modes.includes('ReadOnlyMany')
    ? ['ReadOnlyMany']
    : ['ReadWriteOnce'];
}

const AZURE_DISK = 'disk.csi.azure.com';
const MANAGED = 'Managed';

function azureDisk({ diskURI, kind, cachingMode, fsType, readOnly }: NonNullable<Volume['azureDisk']>): CSISource {
  if (kind !== undefined && kind.toLowerCase() !== MANAGED.toLowerCase())
    throw new Error(`kind(${kind}) is not supported in csi migration`);
  const attributes = {
    kind: MANAGED,
    ...(cachingMode ? { cachingmode: cachingMode } : {}),
    ...(fsType === undefined ? {} : { fstype: fsType }),
  };
  return { ...source(AZURE_DISK, diskURI, fsType, attributes), ...(readOnly ? { readOnly } : {}) };
}

const AZURE_FILE = 'file.csi.azure.com';
const RESOURCE_GROUP = 'kubernetes.io/azure-file-resource-group';

interface Share {
  readonly secret: { readonly name: string; readonly namespace: string };
  readonly resourceGroup: string;
  readonly share: string;
  /** The name of the volume, which makes the handle unique. */
  readonly volume: string;
}

/** The account is part of the Secret's usual name. */
function azureFile({ secret, resourceGroup, share, volume }: Share): CSISource {
  const account = /azure-storage-account-(.+)-secret/.exec(secret.name)?.[1] ?? secret.name;
  const handle = [resourceGroup, account, share, volume, secret.namespace].join('#');
  return { ...source(AZURE_FILE, handle, '', { sharename: share }), nodeStageSecretRef: secret };
}

const CINDER = 'cinder.csi.openstack.org';
const cinder = ({ volumeID, fsType }: NonNullable<Volume['cinder'] | PersistentVolumeSpec['cinder']>): CSISource =>
  source(CINDER, volumeID, fsType, {});

const PORTWORX = 'pxd.portworx.com';
const [AUTH_SECRET, AUTH_NAMESPACE] = ['openstorage.io/auth-secret-name', 'openstorage.io/auth-secret-namespace'];

/** The same Secret for each call to the driver. */
function portworxSecrets({ annotations }: MigratedVolume): Partial<CSISource> {
  const { [AUTH_SECRET]: name, [AUTH_NAMESPACE]: namespace } = annotations;
  if (name === undefined || namespace === undefined) return {};
  const secret: SecretReference = { name, namespace };
  return { nodeStageSecretRef: secret, nodePublishSecretRef: secret, nodeExpandSecretRef: secret };
}

const portworx = ({ volumeID, fsType }: NonNullable<Volume['portworxVolume']>): CSISource =>
  source(PORTWORX, volumeID, fsType, {});

const VSPHERE = 'csi.vsphere.vmware.com';

const vsphere = ({ volumePath, fsType, storagePolicyName }: NonNullable<Volume['vsphereVolume']>): CSISource =>
  source(VSPHERE, volumePath, fsType, storagePolicyName ? { storagepolicyname: storagePolicyName } : {});

const source = (driver: string, volumeHandle: string, fsType: string | undefined, volumeAttributes: object) => ({
  driver,
  volumeHandle,
  ...(fsType ? { fsType } : {}),
  volumeAttributes: { ...volumeAttributes },
});

const named = (csi: CSISource, id: string) => ({ name: `${csi.driver}-${id}`, csi });

const PLUGINS: Sources = {
  awsElasticBlockStore: {
    ofVolume: ebs,
    ofPod: (disk) => named(ebs(disk), ebsHandle(disk.volumeID)),
    topology: zoneOf(EBS),
  },
  gcePersistentDisk: {
    ofVolume: (disk, { labels }) => gce(disk, gceHandle(gcePlace(labels), disk)),
    ofPod: (disk) => named(gce(disk, gceHandle(gcePlace({}), disk)), disk.pdName),
    topology: { zone: 'topology.gke.io/zone' },
    accessModes: gceModes,
    podModes: readerOrWriter,
  },
  azureDisk: { ofVolume: azureDisk, ofPod: (disk) => ({ name: disk.diskURI, csi: azureDisk(disk) }) },
  azureFile: {
    ofVolume: ({ secretName, secretNamespace, shareName: share }, { name: volume, annotations, spec }) => {
      const namespace = secretNamespace ?? spec.claimRef?.namespace ?? '';
      if (namespace === '') throw new Error('could not find a secret namespace in PersistentVolumeSource or ClaimRef');
      const resourceGroup = annotations[RESOURCE_GROUP] ?? '';
      return azureFile({ secret: { name: secretName, namespace }, resourceGroup, share, volume });
    },
    ofPod: ({ secretName: name, shareName: share }, { name: volume }, namespace) => {
      const csi = azureFile({ secret: { name, namespace }, resourceGroup: '', share, volume });
      return { name: csi.volumeHandle, csi };
    },
    podModes: () => ['ReadWriteMany'],
  },
  cinder: { ofVolume: cinder, ofPod: (disk) => named(cinder(disk), disk.volumeID), topology: zoneOf(CINDER) },
  portworxVolume: {
    ofVolume: (disk, volume) => ({ ...portworx(disk), ...portworxSecrets(volume) }),
    ofPod: (disk) => named(portworx(disk), disk.volumeID),
    podModes: readerOrWriter,
  },
  vsphereVolume: {
    ofVolume: vsphere,
    ofPod: (disk) => named(vsphere(disk), disk.volumePath),
    topology: { zone: 'topology.csi.vmware.com/zone', region: 'topology.csi.vmware.com/region' },
  },
};

const KINDS = Object.keys(PLUGINS) as readonly Migrated[];

/** @throws Error with upstream's text, if the volume is none that its driver can have */
function translated<T>(translate: () => T): T {
  try {
    return translate();
  } catch (error) {
    throw new Error(`failed to translate in-tree pv to CSI: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * The spec of a PersistentVolume with a CSI source and its driver's topology; of another kind, as it is.
 *
 * @throws Error with upstream's text, if the volume is none that its driver can have
 */
export function migratedSpec(volume: MigratedVolume): PersistentVolumeSpec {
  const kind = KINDS.find((each) => volume.spec[each] != null);
  if (kind === undefined) return volume.spec;
  return translated(() => {
    const { [kind]: given, ...spec } = volume.spec;
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the source has its plugin's kind
    const plugin = PLUGINS[kind] as Plugin<unknown, unknown>;
    const { topology, accessModes = (modes: AccessModes) => modes } = plugin;
    const modes = spec.accessModes === undefined ? {} : { accessModes: accessModes(spec.accessModes) };
    const placed = topology ? withTopology(spec, volume.labels, topology) : spec;
    return { ...placed, ...modes, csi: plugin.ofVolume(given, volume) };
  });
}

/**
 * A volume of a pod as a PersistentVolume with a CSI source; `null` for one of another kind.
 *
 * @throws Error with upstream's text, if the volume is none that its driver can have
 */
export function migratedOfPod(volume: Volume, namespace: string): Pick<MigratedVolume, 'name' | 'spec'> | null {
  const kind = KINDS.find((each) => volume[each] != null);
  if (kind === undefined) return null;
  return translated(() => {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the source has its plugin's kind
    const plugin = PLUGINS[kind] as Plugin<unknown, unknown>;
    const { name, csi } = plugin.ofPod(volume[kind], volume, namespace);
    const accessModes = plugin.podModes?.(volume[kind]) ?? ['ReadWriteOnce'];
    return { name: name.replaceAll('/', '~'), spec: { csi, accessModes } };
  });
}
