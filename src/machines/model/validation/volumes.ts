/**
 * Validates volumes and their mounts in containers.
 *
 * Every path stays below its volume, and a volume has exactly one kind. Fields of vendor plugins are not validated:
 * this agent does not mount such a volume, and reports that when the pod starts.
 */
import type { Container, Volume, VolumeMount, VolumeProjection } from '../api/pod.ts';
import { parseQuantity } from '../values/quantity.ts';
import {
  checked,
  descendingPath,
  duplicates,
  errorsOf,
  type FieldError,
  forbidden,
  invalid,
  isConfigKey,
  isDnsLabel,
  isShortName,
  nonReservedPath,
  notFound,
  notSupported,
  oneOf,
  optionalOneOf,
  repeatedAt,
  required,
  supportedOnly,
  withoutBacksteps,
} from './field.ts';
import { VOLUME_KINDS } from './pod-schema.ts';
import { VOLUME_FIELD_PATHS, validateFieldRef, validateResourceFieldRef } from './projections.ts';
import { validatePortal, validateVendorSource } from './vendor-volumes.ts';

const HOST_PATH_TYPES = [
  '',
  'BlockDevice',
  'CharDevice',
  'Directory',
  'DirectoryOrCreate',
  'File',
  'FileOrCreate',
  'Socket',
];
const MAX_FILE_MODE = 0o777;
const FILE_MODE = 'must be a number between 0 and 0777 (octal), both inclusive';

export function validateVolumes(volumes: readonly Volume[], path: string, asKubelet: boolean): FieldError[] {
  const named = volumes.map(({ name }, at) => [`${path}[${at}].name`, name] as const);
  return [
    ...volumes.flatMap((volume, at) => validateVolume(volume, `${path}[${at}]`, asKubelet)),
    ...duplicates(named.filter(([, name]) => name !== '')),
  ];
}

/** The kinds that upstream checks first; the order of the others does not matter. */
const FIRST_KINDS = ['emptyDir', 'hostPath', 'gitRepo', 'gcePersistentDisk', 'awsElasticBlockStore'];
const KINDS_AS_KUBELET = [...FIRST_KINDS, ...VOLUME_KINDS.filter((kind) => !FIRST_KINDS.includes(kind))];

function validateVolume(volume: Volume, path: string, asKubelet: boolean): FieldError[] {
  const kinds = asKubelet ? KINDS_AS_KUBELET : VOLUME_KINDS;
  const [kind, ...others] = kinds.filter((each) => Object.hasOwn(volume, each));
  const named = asKubelet ? isShortName : isDnsLabel;
  const nameErrors = volume.name ? checked(`${path}.name`, volume.name, named) : [required(`${path}.name`)];
  if (kind === undefined) return [...nameErrors, required(path, 'must specify a volume type')];
  return errorsOf(
    nameErrors,
    validateSource(volume, `${path}.${kind}`, kind, asKubelet),
    asKubelet && [...validateVendorSource(volume, kind, path), ...validatePortal(volume, path)],
    others.map((other) => forbidden(`${path}.${other}`, 'may not specify more than 1 volume type')),
  );
}

function validateSource(volume: Volume, path: string, kind: string, asKubelet: boolean): FieldError[] {
  const { hostPath, emptyDir, secret, configMap, downwardAPI, projected, nfs, persistentVolumeClaim, image } = volume;
  if (hostPath) return validateHostPath(hostPath, path);
  if (emptyDir) return validateSizeLimit(emptyDir.sizeLimit, path);
  if (kind === 'gitRepo') return [forbidden(path, GIT_REPO)];
  if (secret) {
    return [...needs(path, { secretName: secret.secretName }), ...validateKeyedFiles(secret, path, asKubelet)];
  }
  if (configMap) return [...needs(path, { name: configMap.name }), ...validateKeyedFiles(configMap, path, asKubelet)];
  if (downwardAPI) {
    return [
      ...fileMode(`${path}.defaultMode`, downwardAPI.defaultMode),
      ...(downwardAPI.items ?? []).flatMap((item) => validateDownwardFile(item, path, asKubelet)),
    ];
  }
  if (projected) return validateProjected(projected, path, asKubelet);
  if (nfs) {
    return [...needs(path, { server: nfs.server, path: nfs.path }), ...absolute(`${path}.path`, nfs.path, asKubelet)];
  }
  if (persistentVolumeClaim) return needs(path, { claimName: persistentVolumeClaim.claimName });
  if (image) {
    const policies = ['Always', 'IfNotPresent', 'Never'];
    const referenced = asKubelet ? [] : needs(path, { reference: image.reference });
    return [...referenced, ...oneOf(`${path}.pullPolicy`, image.pullPolicy, policies)];
  }
  return [];
}

const GIT_REPO =
  'gitRepo volumes let a pod run commands on the node and are not supported; clone in an init container into an emptyDir';

function validateHostPath({ path: target, type = '' }: NonNullable<Volume['hostPath']>, path: string): FieldError[] {
  if (!target) return [required(`${path}.path`)];
  return errorsOf(
    checked(`${path}.path`, target, withoutBacksteps),
    !HOST_PATH_TYPES.includes(type) && notSupported(`${path}.type`, type, HOST_PATH_TYPES),
  );
}

function validateSizeLimit(sizeLimit: string | undefined, path: string): FieldError[] {
  const parsed = sizeLimit === undefined ? undefined : parseQuantity(sizeLimit);
  const isNegative = parsed?.error === undefined && parsed !== undefined && parsed.value.nano < 0n;
  return isNegative ? [forbidden(`${path}.sizeLimit`, 'SizeLimit field must be a valid resource quantity')] : [];
}

const needs = (path: string, fields: Readonly<Record<string, string | undefined>>): FieldError[] =>
  Object.entries(fields).flatMap(([name, value]) => (value ? [] : [required(`${path}.${name}`)]));

const absolute = (path: string, value = '', asKubelet: boolean): FieldError[] =>
  (value === '' && !asKubelet) || value.startsWith('/') ? [] : [invalid(path, value, 'must be an absolute path')];

function fileMode(path: string, mode: number | undefined): FieldError[] {
  return mode === undefined || (mode >= 0 && mode <= MAX_FILE_MODE) ? [] : [invalid(path, mode, FILE_MODE)];
}

type KeyedFiles = Pick<NonNullable<Volume['secret']>, 'items' | 'defaultMode'>;

function validateKeyedFiles({ items = [], defaultMode }: KeyedFiles, path: string, asKubelet: boolean): FieldError[] {
  const isKey = asKubelet ? () => [] : isConfigKey;
  return [
    ...fileMode(`${path}.defaultMode`, defaultMode),
    ...items.flatMap(({ key, path: file, mode }, at) =>
      errorsOf(
        key === '' ? required(`${path}.items[${at}].key`) : checked(`${path}.items[${at}].key`, key, isKey),
        file === '' && required(`${path}.items[${at}].path`),
        checked(`${path}.items[${at}].path`, file, nonReservedPath),
        fileMode(`${path}.items[${at}].mode`, mode),
      ),
    ),
  ];
}

type DownwardFile = NonNullable<NonNullable<Volume['downwardAPI']>['items']>[number];

function validateDownwardFile(
  { path: file, fieldRef, resourceFieldRef, mode }: DownwardFile,
  path: string,
  asKubelet: boolean,
) {
  return errorsOf(
    file === '' && required(`${path}.path`),
    checked(`${path}.path`, file, nonReservedPath),
    fieldRef && validateFieldRef(fieldRef, VOLUME_FIELD_PATHS, `${path}.fieldRef`, asKubelet),
    fieldRef &&
      resourceFieldRef &&
      invalid(path, 'resource', 'fieldRef and resourceFieldRef can not be specified simultaneously'),
    !fieldRef &&
      resourceFieldRef &&
      validateResourceFieldRef(resourceFieldRef, `${path}.resourceFieldRef`, { containerName: true, asKubelet }),
    !fieldRef && !resourceFieldRef && required(path, 'one of fieldRef and resourceFieldRef is required'),
    fileMode(`${path}.mode`, mode),
  );
}

function validateProjected(
  { sources = [], defaultMode }: NonNullable<Volume['projected']>,
  path: string,
  asKubelet: boolean,
): FieldError[] {
  const files = sources.flatMap((source) => [
    ...named(source.secret?.items, source.secret?.name),
    ...named(source.configMap?.items, source.configMap?.name),
    ...named(source.downwardAPI?.items),
  ]);
  const repeated = [...repeatedAt(files.map(({ file }) => file))].flatMap((at) => files[at] ?? []);
  return [
    ...fileMode(`${path}.defaultMode`, defaultMode),
    ...sources.flatMap((source, at) => validateProjection(source, `${path}.sources[${at}]`, asKubelet)),
    ...repeated.flatMap(({ file, of }) =>
      asKubelet && file === '' ? [] : [invalid(path, asKubelet ? of : file, 'conflicting duplicate paths')],
    ),
  ];
}

/** The paths of a source; upstream's error of a repeated path names the object instead. */
const named = (items: readonly { readonly path: string }[] = [], name?: string) =>
  items.map(({ path: file }) => ({ file, of: name ?? file }));

function validateProjection(source: VolumeProjection, path: string, asKubelet: boolean): FieldError[] {
  const { secret, configMap, downwardAPI } = source;
  return errorsOf(
    secret && [
      ...needs(`${path}.secret`, { name: secret.name }),
      ...validateKeyedFiles(secret, `${path}.secret`, asKubelet),
    ],
    configMap && [
      ...needs(`${path}.configMap`, { name: configMap.name }),
      ...validateKeyedFiles(configMap, `${path}.configMap`, asKubelet),
    ],
    (downwardAPI?.items ?? []).flatMap((item) => validateDownwardFile(item, `${path}.downwardAPI`, asKubelet)),
    Object.keys(source).length > 1 && forbidden(path, 'may not specify more than 1 volume type per source'),
  );
}

/** The volumes of a pod by name; the first of duplicates. */
export type VolumesByName = ReadonlyMap<string, Volume>;

export const volumesByName = (volumes: readonly Volume[] = []): VolumesByName =>
  new Map(volumes.toReversed().map((volume) => [volume.name, volume]));

/** Mounts and block devices of one container. */
export function validateMounts(
  container: Container,
  volumes: VolumesByName,
  path: string,
  asKubelet: boolean,
): FieldError[] {
  const list = `${path}.volumeMounts`;
  const mounts = container.volumeMounts ?? [];
  const devices = container.volumeDevices ?? [];
  const repeated = repeatedAt(mounts.map(({ mountPath }) => mountPath));
  return [
    ...mounts.flatMap((mount, at) =>
      errorsOf(
        validateMount(mount, volumes, `${list}[${at}]`, asKubelet ? list : `${list}[${at}]`, asKubelet),
        validatePropagation(mount, container, asKubelet ? list : `${list}[${at}]`, asKubelet),
        repeated.has(at) && invalid(`${path}.volumeMounts[${at}].mountPath`, mount.mountPath, 'must be unique'),
      ),
    ),
    ...devices.flatMap((device, at) => validateDevice(device, volumes, `${path}.volumeDevices[${at}]`)),
  ];
}

/** Upstream reports errors of some fields at `place`, the path of the whole list. */
function validateMount(
  mount: VolumeMount,
  volumes: VolumesByName,
  path: string,
  place: string,
  asKubelet: boolean,
): FieldError[] {
  const { name, mountPath, subPath = '', subPathExpr = '' } = mount;
  const volume = volumes.get(name);
  return errorsOf(
    !name && required(`${path}.name`),
    !volume && notFound(`${path}.name`, name),
    !mountPath && required(`${path}.mountPath`),
    !asKubelet &&
      volume?.image &&
      subPathExpr !== '' &&
      invalid(`${path}.subPathExpr`, subPathExpr, 'not allowed in image volume sources'),
    checked(`${place}.subPath`, subPath, descendingPath),
    subPath !== '' &&
      subPathExpr !== '' &&
      invalid(`${path}.subPathExpr`, subPathExpr, 'subPathExpr and subPath are mutually exclusive'),
    checked(`${place}.subPathExpr`, subPathExpr, descendingPath),
  );
}

function validatePropagation(mount: VolumeMount, container: Container, path: string, asKubelet: boolean): FieldError[] {
  const choice = asKubelet ? supportedOnly : optionalOneOf;
  const { mountPropagation, recursiveReadOnly, readOnly } = mount;
  const isRecursive = recursiveReadOnly === 'Enabled' || recursiveReadOnly === 'IfPossible';
  const place = `${path}.recursiveReadOnly`;
  return errorsOf(
    choice(`${path}.mountPropagation`, mountPropagation, ['Bidirectional', 'HostToContainer', 'None']),
    mountPropagation === 'Bidirectional' &&
      container.securityContext?.privileged !== true &&
      forbidden(
        `${path}.mountPropagation`,
        'Bidirectional mount propagation is available only to privileged containers',
      ),
    choice(place, recursiveReadOnly, ['Disabled', 'Enabled', 'IfPossible']),
    isRecursive && readOnly !== true && forbidden(place, 'may only be specified when readOnly is true'),
    isRecursive &&
      mountPropagation !== undefined &&
      mountPropagation !== 'None' &&
      forbidden(place, 'may only be specified when mountPropagation is None or not specified'),
  );
}

type Device = NonNullable<Container['volumeDevices']>[number];

function validateDevice({ name, devicePath }: Device, volumes: VolumesByName, path: string): FieldError[] {
  const volume = volumes.get(name);
  const isBlock = volume?.persistentVolumeClaim !== undefined || volume?.ephemeral !== undefined;
  return errorsOf(
    !volume && notFound(`${path}.name`, name),
    volume &&
      !isBlock &&
      invalid(
        `${path}.name`,
        name,
        'can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode',
      ),
    !devicePath && required(`${path}.devicePath`),
    withoutBacksteps(devicePath).length > 0 &&
      invalid(`${path}.devicePath`, devicePath, "can not contain backsteps ('..')"),
  );
}
