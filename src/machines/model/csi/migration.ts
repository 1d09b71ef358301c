/**
 * PersistentVolumes of plug-ins that left Kubernetes, as volumes of the CSI drivers that took their place: volumes of
 * old clusters name the former plug-in for ever. The attach-detach controller translates them in the same way, so both
 * name the same volume.
 *
 * Pure. Upstream: k8s.io/csi-translation-lib.
 */
import type { PersistentVolumeSpec } from '../api/pod.ts';

type Spec = PersistentVolumeSpec;
type Driver = NonNullable<Spec['csi']>;
type Texts = Readonly<Record<string, string>>;

/** The parts of a PersistentVolume that its translation needs. */
export interface InTreeVolume {
  readonly name: string;
  readonly spec: Spec;
  readonly labels: Texts;
  readonly annotations: Texts;
}

interface Translation {
  readonly csi: Driver;
  /** The labels of nodes for the driver's zones and regions; absent: the affinity stays. */
  readonly zoneKey?: string;
  readonly regionKey?: string;
}

const TRANSLATIONS: Readonly<Partial<Record<keyof Spec, (volume: InTreeVolume) => Translation>>> = {
  awsElasticBlockStore: ({ spec: { awsElasticBlockStore: source } }) => ({
    zoneKey: 'topology.ebs.csi.aws.com/zone',
    csi: {
      ...common('ebs.csi.aws.com', ebsVolumeId(source?.volumeID ?? ''), source),
      volumeAttributes: { partition: String(source?.partition ?? 0) },
    },
  }),
  gcePersistentDisk: (volume) => {
    const { gcePersistentDisk: source } = volume.spec;
    return {
      zoneKey: 'topology.gke.io/zone',
      csi: {
        ...common('pd.csi.storage.gke.io', gceVolumeId(volume), source),
        volumeAttributes: { partition: source?.partition ? String(source.partition) : '' },
      },
    };
  },
  azureDisk: ({ spec: { azureDisk: source } }) => ({
    csi: {
      ...common('disk.csi.azure.com', source?.diskURI ?? '', source),
      volumeAttributes: {
        ...managedDisk(source?.kind),
        ...given({ cachingmode: source?.cachingMode, fstype: source?.fsType }),
      },
    },
  }),
  azureFile: azureShare,
  cinder: ({ spec: { cinder: source } }) => ({
    zoneKey: 'topology.cinder.csi.openstack.org/zone',
    csi: common('cinder.csi.openstack.org', source?.volumeID ?? '', source),
  }),
  vsphereVolume: ({ spec: { vsphereVolume: source } }) => ({
    zoneKey: 'topology.csi.vmware.com/zone',
    regionKey: 'topology.csi.vmware.com/region',
    csi: {
      ...common('csi.vsphere.vmware.com', source?.volumePath ?? '', source),
      volumeAttributes: given({ storagepolicyname: source?.storagePolicyName }),
    },
  }),
  portworxVolume: ({ spec: { portworxVolume: source }, annotations }) => ({
    csi: { ...common('pxd.portworx.com', source?.volumeID ?? '', source), ...portworxSecrets(annotations) },
  }),
};

/**
 * The specification with the CSI driver in the place of a former plug-in; the same one for other volumes.
 * @throws Error with upstream's text
 */
export function migratedSpec(volume: InTreeVolume): Spec {
  const kind = (Object.keys(TRANSLATIONS) as (keyof Spec)[]).find((each) => volume.spec[each] !== undefined);
  const translate = kind === undefined ? undefined : TRANSLATIONS[kind];
  if (kind === undefined || translate === undefined) return volume.spec;
  const { csi, zoneKey, regionKey } = translate(volume);
  const { [kind]: _source, ...rest } = volume.spec;
  const spec = { ...rest, csi };
  const placed = zoneKey === undefined ? spec : withTopology(spec, volume.labels, zoneKey, regionKey);
  return kind === 'gcePersistentDisk' ? withSingleWriters(placed) : placed;
}

const given = (values: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(Object.entries(values).flatMap(([name, value]) => (value ? [[name, value]] : [])));

const common = (driver: string, volumeHandle: string, source: { readonly fsType?: string } | undefined): Driver => ({
  driver,
  volumeHandle,
  ...(source?.fsType === undefined ? {} : { fsType: source.fsType }),
});

const EBS_URL = 'aws://';

/** `aws://<zone>/<id>`, `aws:///<id>` or the id itself. */
function ebsVolumeId(text: string): string {
  if (!text.startsWith(EBS_URL)) return text;
  const [, ...path] = text.slice(EBS_URL.length).split('/');
  const id = path.join('/').replaceAll(/^\/+|\/+$/g, '');
  if (/^vol-[^/]*$/.test(id)) return id;
  throw new Error(`failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (${text})`);
}

const ZONE = 'topology.kubernetes.io/zone';
const REGION = 'topology.kubernetes.io/region';
const BETA_ZONE = 'failure-domain.beta.kubernetes.io/zone';
const BETA_REGION = 'failure-domain.beta.kubernetes.io/region';
/** Between the zones in the label of a volume that several have. */
const ZONES_DELIMITER = '__';
const UNSPECIFIED = 'UNSPECIFIED';

function gceVolumeId({ spec: { gcePersistentDisk }, labels }: InTreeVolume): string {
  const zones = (labels[BETA_ZONE] || labels[ZONE] || '').split(ZONES_DELIMITER);
  const [zone = ''] = zones;
  const place = zones.length > 1 ? `regions/${gceRegion(zones)}` : `zones/${zone || UNSPECIFIED}`;
  return `projects/${UNSPECIFIED}/${place}/disks/${gcePersistentDisk?.pdName ?? ''}`;
}

function gceRegion(zones: readonly string[]): string {
  const regions = new Set(zones.map((zone) => gceRegionOf(zone)));
  const [region = ''] = regions;
  if (regions.size === 1) return region;
  throw new Error(`failed to get region from zones: multiple or no regions gotten from zones, got: ${[...regions]}`);
}

function gceRegionOf(zone: string): string {
  const parts = zone.split('-');
  if (parts.length === 3) return parts.slice(0, 2).join('-');
  const form = '{locale}-{region}-{zone}';
  throw new Error(`failed to get region from zones: zone in unexpected format, expected: ${form}, got: ${zone}`);
}

/** The former plug-in took ReadWriteMany for ReadWriteOnce, which the driver refuses. */
function withSingleWriters({ accessModes, ...spec }: Spec): Spec {
  if (accessModes === undefined) return spec;
  const modes = accessModes.map((mode) => (mode === 'ReadWriteMany' ? 'ReadWriteOnce' : mode));
  return { ...spec, accessModes: [...new Set(modes)] };
}

const MANAGED = 'Managed';

function managedDisk(kind: string | undefined): { readonly kind: string } {
  if (kind === undefined || kind.toLowerCase() === MANAGED.toLowerCase()) return { kind: MANAGED };
  throw new Error(`kind(${kind}) is not supported in csi migration`);
}

function azureShare({ name, spec, annotations }: InTreeVolume): Translation {
  const { secretName = '', secretNamespace, shareName = '' } = spec.azureFile ?? {};
  const namespace = secretNamespace || spec.claimRef?.namespace;
  if (!namespace) throw new Error('could not find a secret namespace in PersistentVolumeSource or ClaimRef');
  const account = /azure-storage-account-(.+)-secret/.exec(secretName)?.[1] ?? secretName;
  const group = annotations['kubernetes.io/azure-file-resource-group'] ?? '';
  return {
    csi: {
      driver: 'file.csi.azure.com',
      volumeHandle: [group, account, shareName, name, namespace].join('#'),
      nodeStageSecretRef: { name: secretName, namespace },
      volumeAttributes: { sharename: shareName },
    },
  };
}

function portworxSecrets(annotations: Texts): Partial<Driver> {
  const name = annotations['openstorage.io/auth-secret-name'];
  const namespace = annotations['openstorage.io/auth-secret-namespace'];
  if (name === undefined || namespace === undefined) return {};
  const secret = { name, namespace };
  return { nodeStageSecretRef: secret, nodePublishSecretRef: secret, nodeExpandSecretRef: secret };
}

type Terms = NonNullable<NonNullable<NonNullable<Spec['nodeAffinity']>['required']>['nodeSelectorTerms']>;

/** Zones and regions by the labels of the driver; those of the volume's labels, if its affinity names none. */
function withTopology(spec: Spec, labels: Texts, zoneKey: string, regionKey: string | undefined): Spec {
  const terms = spec.nodeAffinity?.required?.nodeSelectorTerms ?? [];
  const names = (key: string): boolean => terms.some((term) => term.matchExpressions?.some((each) => each.key === key));
  const isBeta = !names(ZONE) && (names(BETA_ZONE) || (labels[ZONE] === undefined && labels[BETA_ZONE] !== undefined));
  const [zone, region] = isBeta ? [BETA_ZONE, BETA_REGION] : [ZONE, REGION];
  const [zoneText, regionText] = [labels[zone] ?? '', labels[region] ?? ''];
  const [zones, regions] = regionKey === undefined ? [zoneText.split(ZONES_DELIMITER), []] : [[zoneText], [regionText]];
  const renamed = renamedKeys(terms, { [zone]: zoneKey, [region]: regionKey ?? REGION });
  const placed = names(zone) ? renamed : withValues(renamed, zoneKey, zones);
  const nodeSelectorTerms = names(region) ? placed : withValues(placed, regionKey ?? REGION, regions);
  return nodeSelectorTerms.length === 0 ? spec : { ...spec, nodeAffinity: { required: { nodeSelectorTerms } } };
}

const renamedKeys = (terms: Terms, keys: Texts): Terms =>
  terms.map(({ matchExpressions, ...term }) => ({
    ...term,
    ...(matchExpressions && {
      matchExpressions: matchExpressions.map((each) => ({ ...each, key: keys[each.key] ?? each.key })),
    }),
  }));

function withValues(terms: Terms, key: string, texts: readonly string[]): Terms {
  const values = [...new Set(texts.map((text) => text.trim()).filter((text) => text !== ''))].toSorted();
  if (values.length === 0) return terms;
  const requirement = { key, operator: 'In' as const, values };
  return (terms.length === 0 ? [{}] : terms).map((term) => ({
    ...term,
    matchExpressions: [...(term.matchExpressions ?? []), requirement],
  }));
}
