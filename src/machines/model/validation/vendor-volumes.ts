/**
 * Validates volumes of plugins that this agent does not mount itself: of vendors, iSCSI, Fibre Channel, CSI.
 *
 * A node of 0.2.0 did not validate these volumes; a replay of its journal does not apply these rules.
 */
import type { Volume } from '../api/pod.ts';
import {
  checked,
  errorsOf,
  type FieldError,
  inclusiveRange,
  invalid,
  isLongName,
  isShortName,
  notSupported,
  required,
  tooLong,
} from './field.ts';

type Kind = Exclude<keyof Volume, 'name'>;
type Source<Of extends Kind> = NonNullable<Volume[Of]>;

const MAX_LUN = 255;
const MAX_PARTITION = 255;

const needs = (source: object, fields: readonly string[], path: string): FieldError[] => {
  const given = new Map<string, unknown>(Object.entries(source));
  const isEmpty = (value: unknown): boolean => !value || (Array.isArray(value) && value.length === 0);
  return fields.filter((field) => isEmpty(given.get(field))).map((field) => required(`${path}.${field}`));
};

const secretName = (secret: { readonly name?: string } | undefined, path: string): FieldError[] =>
  secret === undefined || secret.name ? [] : [required(`${path}.name`)];

const partition = (value: number | undefined, path: string): FieldError[] =>
  (value ?? 0) >= 0 && (value ?? 0) <= MAX_PARTITION
    ? []
    : [invalid(`${path}.partition`, value, inclusiveRange(1, MAX_PARTITION))];

const lun = (value: number, path: string): FieldError[] =>
  value >= 0 && value <= MAX_LUN ? [] : [invalid(`${path}.lun`, value, inclusiveRange(0, MAX_LUN))];

function fc({ targetWWNs: names = [], wwids = [], lun: unit }: Source<'fc'>, path: string): FieldError[] {
  const place = `${path}.targetWWNs`;
  return errorsOf(
    names.length === 0 &&
      wwids.length === 0 &&
      required(place, 'must specify either targetWWNs or wwids, but not both'),
    names.length > 0 &&
      wwids.length > 0 &&
      invalid(place, names, 'targetWWNs and wwids can not be specified simultaneously'),
    names.length > 0 && unit === undefined && required(`${path}.lun`, 'lun is required if targetWWNs is specified'),
    names.length > 0 && unit !== undefined && lun(unit, path),
  );
}

/** The forms of names of iSCSI nodes, by their prefix. A longer name is invalid. */
const ISCSI_NAME_MAX = 2_048;
const ISCSI_NAMES = {
  iqn: /iqn\.\d{4}-\d{2}\.[a-zA-Z0-9.-]+:[^,;*&$|\s]+$/,
  eui: /^eui.[a-zA-Z0-9]{16}$/,
  naa: /^naa.[a-zA-Z0-9]{32}$/,
} as const;

function iscsiName(name: string, path: string): FieldError[] {
  const kind = (['iqn', 'eui', 'naa'] as const).find((each) => name.startsWith(each));
  if (kind === undefined) return [invalid(path, name, 'must be valid format starting with iqn, eui, or naa')];
  return name.length <= ISCSI_NAME_MAX && ISCSI_NAMES[kind].test(name)
    ? []
    : [invalid(path, name, 'must be valid format')];
}

function iscsi(source: Source<'iscsi'>, path: string): FieldError[] {
  const { iqn, initiatorName, chapAuthDiscovery, chapAuthSession, secretRef } = source;
  return errorsOf(
    needs(source, ['targetPortal', 'iqn'], path),
    iqn && iscsiName(iqn, `${path}.iqn`),
    lun(source.lun, path),
    (chapAuthDiscovery || chapAuthSession) && secretRef === undefined && required(`${path}.secretRef`),
    initiatorName !== undefined && iscsiName(initiatorName, `${path}.initiatorname`),
  );
}

const PORTAL_MAX_BYTES = 64;

/** Upstream's error of an initiator name contains the name of the volume. */
export function validatePortal({ name, iscsi: source }: Volume, path: string): FieldError[] {
  if (source?.initiatorName === undefined || `${name}:${source.targetPortal}`.length <= PORTAL_MAX_BYTES) return [];
  const detail = 'Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters';
  return [invalid(`${path}.name`, name, `${detail} if iscsi.initiatorName is specified.`)];
}

function flocker({ datasetName = '', datasetUUID = '' }: Source<'flocker'>, path: string): FieldError[] {
  return errorsOf(
    datasetName === '' && datasetUUID === '' && required(path, 'one of datasetName and datasetUUID is required'),
    datasetName !== '' &&
      datasetUUID !== '' &&
      invalid(path, 'resource', 'datasetName and datasetUUID can not be specified simultaneously'),
    datasetName.includes('/') && invalid(`${path}.datasetName`, datasetName, "must not contain '/'"),
  );
}

const TENANT_MAX_LENGTH = 64;
const PAIRS = 'must be a host:port pair or multiple pairs separated by commas';
/** A name without colons or an address in brackets, and a port. */
const PAIR = /^(\[[^[\]]*\]|[^:[\]]*):[^:[\]]*$/;

function quobyte({ registry, tenant = '', volume }: Source<'quobyte'>, path: string): FieldError[] {
  const isTooLong = tenant.length > TENANT_MAX_LENGTH;
  const wrong = registry && !isTooLong ? registry.split(',').filter((pair) => !PAIR.test(pair)) : [];
  return errorsOf(
    !registry && required(`${path}.registry`, PAIRS),
    registry && isTooLong && required(`${path}.tenant`, 'must be a UUID and may not exceed a length of 64 characters'),
    wrong.slice(0, 1).map(() => invalid(`${path}.registry`, registry, PAIRS)),
    !volume && required(`${path}.volume`),
  );
}

function flexVolume(source: Source<'flexVolume'>, path: string): FieldError[] {
  const reserved = Object.keys(source.options ?? {}).filter((key) => {
    const parts = key.split('/');
    const namespace = parts.length > 1 ? (parts[0] ?? '') : key;
    return /\.(kubernetes|k8s)\.io$/.test(`.${namespace.toLowerCase()}`);
  });
  return [
    ...needs(source, ['driver'], path),
    ...reserved.map((key) =>
      invalid(`${path}.options[${key}]`, key, 'kubernetes.io and k8s.io namespaces are reserved'),
    ),
  ];
}

const CACHING_MODES = ['None', 'ReadOnly', 'ReadWrite'];
const DISK_KINDS = ['Dedicated', 'Managed', 'Shared'];
const MANAGED_URI = '/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}';
const BLOB_URI = 'https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd';

function azureDisk(source: Source<'azureDisk'>, path: string): FieldError[] {
  const { diskURI, cachingMode = 'ReadWrite', kind = 'Shared' } = source;
  const isManaged = kind === 'Managed';
  const hasForm = diskURI.startsWith(isManaged ? '/subscriptions/' : 'https://');
  return errorsOf(
    needs(source, ['diskName', 'diskURI'], path),
    !CACHING_MODES.includes(cachingMode) && notSupported(`${path}.cachingMode`, cachingMode, CACHING_MODES),
    !DISK_KINDS.includes(kind) && notSupported(`${path}.kind`, kind, DISK_KINDS),
    !hasForm && notSupported(`${path}.diskURI`, diskURI, [isManaged ? MANAGED_URI : BLOB_URI]),
  );
}

function storageos({ volumeName, volumeNamespace, secretRef }: Source<'storageos'>, path: string): FieldError[] {
  return errorsOf(
    volumeName ? checked(`${path}.volumeName`, volumeName, isShortName) : required(`${path}.volumeName`),
    volumeNamespace && checked(`${path}.volumeNamespace`, volumeNamespace, isShortName),
    secretName(secretRef, `${path}.secretRef`),
  );
}

const DRIVER_MAX_BYTES = 63;

function csi({ driver, nodePublishSecretRef: secret }: Source<'csi'>, path: string): FieldError[] {
  return errorsOf(
    driver === ''
      ? required(`${path}.driver`)
      : isLongName(driver.toLowerCase()).map((reason) => invalid(`${path}.driver`, driver, reason)),
    driver.length > DRIVER_MAX_BYTES && tooLong(`${path}.driver`, DRIVER_MAX_BYTES),
    secretName(secret, `${path}.nodePublishSecretRef`),
    secret?.name && checked(`${path}.name`, secret.name, isLongName),
  );
}

/** A rule for a kind of volume with required fields only. */
const having =
  (...fields: readonly string[]) =>
  (source: object, path: string): FieldError[] =>
    needs(source, fields, path);

const RULES: { readonly [Of in Kind]?: (source: Source<Of>, path: string) => FieldError[] } = {
  awsElasticBlockStore: (source, path) => [...needs(source, ['volumeID'], path), ...partition(source.partition, path)],
  azureDisk,
  azureFile: having('secretName', 'shareName'),
  cephfs: having('monitors'),
  cinder: (source, path) => [
    ...needs(source, ['volumeID'], path),
    ...secretName(source.secretRef, `${path}.secretRef`),
  ],
  csi,
  fc,
  flexVolume,
  flocker,
  gcePersistentDisk: (source, path) => [...needs(source, ['pdName'], path), ...partition(source.partition, path)],
  glusterfs: having('endpoints', 'path'),
  iscsi,
  photonPersistentDisk: having('pdID'),
  portworxVolume: having('volumeID'),
  quobyte,
  rbd: having('monitors', 'image'),
  scaleIO: having('gateway', 'system', 'volumeName'),
  storageos,
  vsphereVolume: having('volumePath'),
};

/** Applies the rule for this kind of volume, if there is one. Upstream gives one kind another path. */
export const validateVendorSource = (volume: Volume, kind: string, path: string): FieldError[] =>
  hasRule(kind) ? applyRule(volume, kind, `${path}.${kind === 'gcePersistentDisk' ? 'persistentDisk' : kind}`) : [];

const hasRule = (kind: string): kind is Kind => Object.hasOwn(RULES, kind);

// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- it ties the rule to its kind of source
function applyRule<Of extends Kind>(volume: Volume, kind: Of, path: string): FieldError[] {
  const source: Volume[Of] = volume[kind];
  return (source && RULES[kind]?.(source, path)) ?? [];
}
