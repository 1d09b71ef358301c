/**
 * Validates the metadata of a pod. Only the API server reads owners, finalizers and managed fields, and limits sizes.
 *
 * The annotations with a meaning are tolerations, seccomp and AppArmor profiles, and the deletion cost; a profile in an
 * annotation must equal the one in the field that replaced it.
 *
 * A node of 0.2.0 did not validate these annotations, and dropped these fields; a replay of its journal does not apply
 * these rules.
 */
import { isObject } from '../../../kernel/xstate.ts';
import type { Container, Pod, PodMeta, PodSpec, SeccompProfile, Toleration } from '../api/pod.ts';
import {
  byteLength,
  checked,
  descendingPath,
  errorsOf,
  type FieldError,
  forbidden,
  invalid,
  isLongName,
  isQualifiedName,
  nonNegative,
  tooLong,
} from './field.ts';
import { validateTolerations } from './scheduling.ts';

const TOLERATIONS = 'scheduler.alpha.kubernetes.io/tolerations';
const DELETION_COST = 'controller.kubernetes.io/pod-deletion-cost';
const SECCOMP_POD = 'seccomp.security.alpha.kubernetes.io/pod';
const SECCOMP_CONTAINER = 'container.seccomp.security.alpha.kubernetes.io/';
const APPARMOR = 'container.apparmor.security.beta.kubernetes.io/';
const LOCALHOST = 'localhost/';
const MAX_INT32 = 2_147_483_647;

type Annotations = Readonly<Record<string, string>>;

/** An annotation may have the name of a member of all objects, such as `constructor`. */
const valueOf = (annotations: Annotations, key: string): string | undefined =>
  Object.hasOwn(annotations, key) ? annotations[key] : undefined;

export function validateAnnotations({ metadata: { annotations = {} }, spec }: Pod, path: string): FieldError[] {
  const cost = valueOf(annotations, DELETION_COST);
  const containers = new Set(placedContainers(spec).map(([{ name }]) => name));
  return errorsOf(
    validateTolerationText(valueOf(annotations, TOLERATIONS) ?? '', path),
    cost !== undefined && !isCost(cost) && invalid(`${path}[${DELETION_COST}]`, cost, 'must be a 32bit integer'),
    Object.entries(annotations).flatMap(([key, value]) =>
      errorsOf(
        (key === SECCOMP_POD || key.startsWith(SECCOMP_CONTAINER)) && validateSeccomp(value, `${path}.${key}`),
        key.startsWith(APPARMOR) && validateAppArmor(key, value, containers, `${path}[${key}]`),
      ),
    ),
  );
}

/** A profile in an annotation must equal the one in the field. */
export function validateProfiles({ metadata: { annotations = {} }, spec }: Pod, path: string): FieldError[] {
  const { seccompProfile: ofPod, appArmorProfile } = spec.securityContext ?? {};
  const containers = placedContainers(spec).map(([container, place]) => [container, `${path}.${place}`] as const);
  return [
    ...matches(valueOf(annotations, SECCOMP_POD), ofPod, SECCOMP, `${path}.securityContext.seccompProfile`),
    ...containers.flatMap(([{ name, securityContext }, place]) =>
      matches(
        valueOf(annotations, SECCOMP_CONTAINER + name),
        securityContext?.seccompProfile,
        SECCOMP,
        `${place}.securityContext.seccompProfile`,
      ),
    ),
    ...(spec.os?.name === 'windows' ? [] : containers).flatMap(([{ name, securityContext }, place]) =>
      matches(
        valueOf(annotations, APPARMOR + name),
        securityContext?.appArmorProfile ?? appArmorProfile,
        APPARMOR_FORM,
        `${place}.securityContext.appArmorProfile`,
      ),
    ),
  ];
}

/** Every container of a pod, with the end of its path, in upstream's order. */
export const placedContainers = (spec: PodSpec): (readonly [Container, string])[] => [
  ...(spec.initContainers ?? []).map((each, at) => [each, `initContainers[${at}]`] as const),
  ...spec.containers.map((each, at) => [each, `containers[${at}]`] as const),
];

/** The types of a profile, as annotations spell them. */
interface AnnotationForm {
  readonly name: string;
  readonly RuntimeDefault: readonly string[];
}
const SECCOMP: AnnotationForm = { name: 'seccomp', RuntimeDefault: ['runtime/default', 'docker/default'] };
const APPARMOR_FORM: AnnotationForm = { name: 'apparmor', RuntimeDefault: ['runtime/default'] };

function matches(
  annotation: string | undefined,
  profile: SeccompProfile | undefined,
  form: AnnotationForm,
  path: string,
): FieldError[] {
  if (annotation === undefined || profile === undefined) return [];
  const { type, localhostProfile } = profile;
  const otherType = [forbidden(`${path}.type`, `${form.name} type in annotation and field must match`)];
  if (type === 'Unconfined') return annotation === 'unconfined' ? [] : otherType;
  if (type === 'RuntimeDefault') return form.RuntimeDefault.includes(annotation) ? [] : otherType;
  if (type !== 'Localhost') return [];
  if (!annotation.startsWith(LOCALHOST)) return otherType;
  return annotation.slice(LOCALHOST.length) === localhostProfile
    ? []
    : [forbidden(`${path}.localhostProfile`, `${form.name} profile in annotation and field must match`)];
}

function validateTolerationText(text: string, path: string): FieldError[] {
  if (text === '') return [];
  const tolerations = tolerationsIn(text);
  if (tolerations === null) return [invalid(path, TOLERATIONS, 'must be a list of tolerations, written as JSON')];
  return validateTolerations(tolerations, `${path}.${TOLERATIONS}`, true);
}

function tolerationsIn(text: string): readonly Toleration[] | null {
  try {
    const parsed: unknown = JSON.parse(text) ?? [];
    return Array.isArray(parsed) && parsed.every(isToleration) ? parsed : null;
  } catch {
    return null;
  }
}

function isToleration(value: unknown): value is Toleration {
  if (!isObject(value)) return false;
  const texts = ['key', 'operator', 'value', 'effect'].map((field) => value[field] ?? '');
  const seconds = value['tolerationSeconds'] ?? 0;
  return texts.every((each) => typeof each === 'string') && Number.isInteger(seconds);
}

const isCost = (text: string): boolean => /^(-\d{1,11}|0|[1-9]\d{0,9})$/.test(text) && isInt32(Number(text));
const isInt32 = (value: number): boolean => value <= MAX_INT32 && value >= -MAX_INT32 - 1;

function validateSeccomp(profile: string, path: string): FieldError[] {
  if ([...SECCOMP.RuntimeDefault, 'unconfined'].includes(profile)) return [];
  if (profile.startsWith(LOCALHOST)) return checked(path, profile.slice(LOCALHOST.length), descendingPath);
  return [invalid(path, profile, 'must be a valid seccomp profile')];
}

function validateAppArmor(key: string, profile: string, names: ReadonlySet<string>, path: string): FieldError[] {
  const name = key.slice(APPARMOR.length);
  const isKnown = ['', 'runtime/default', 'unconfined'].includes(profile) || profile.startsWith(LOCALHOST);
  return errorsOf(
    !names.has(name) && invalid(path, name, 'container not found'),
    !isKnown && invalid(path, profile, `invalid AppArmor profile name: ${JSON.stringify(profile)}`),
  );
}

/** Limit of all keys and values of annotations together, in bytes. */
export const MAX_ANNOTATIONS_BYTES = 262_144;
/** The maximum number of errors that quote all owners. */
const SHOWN_MAX = 10;
const MANAGER_MAX_BYTES = 128;
const SUBRESOURCE_MAX_BYTES = 256;
const STANDARD_FINALIZERS = ['kubernetes', 'orphan', 'foregroundDeletion'];

export function validateObjectMeta({ metadata }: Pod, path: string): FieldError[] {
  const { generateName = '', generation, annotations = {}, managedFields = [] } = metadata;
  const size = Object.entries(annotations).reduce((sum, [key, value]) => sum + byteLength(key) + byteLength(value), 0);
  return errorsOf(
    // A prefix may end with a dash, which the generated characters follow.
    generateName !== '' &&
      isLongName(generateName.replace(/-$/, 'a')).map((reason) =>
        invalid(`${path}.generateName`, generateName, reason),
      ),
    nonNegative(`${path}.generation`, generation),
    size > MAX_ANNOTATIONS_BYTES && tooLong(`${path}.annotations`, MAX_ANNOTATIONS_BYTES),
    validateOwners(metadata, `${path}.ownerReferences`),
    validateFinalizers(metadata, `${path}.finalizers`),
    managedFields.flatMap((entry, at) => validateManager(entry, `${path}.managedFields[${at}]`)),
  );
}

function validateOwners({ ownerReferences: owners = [] }: PodMeta, path: string): FieldError[] {
  const controllers = owners.filter(({ controller }) => controller === true);
  const [first, ...others] = controllers.map(({ kind, name }) => `${kind}/${name}`);
  return [
    ...owners.flatMap((owner) => validateOwner(owner, path)),
    ...others
      .slice(0, SHOWN_MAX)
      .map((other) =>
        invalid(
          path,
          owners,
          `Only one reference can have Controller set to true. Found "true" in references for ${first} and ${other}`,
        ),
      ),
  ];
}

type Owner = NonNullable<PodMeta['ownerReferences']>[number];

function validateOwner(owner: Owner, path: string): FieldError[] {
  const empty = ['kind', 'name', 'uid'] as const;
  const hasVersion = owner.apiVersion !== '' && !owner.apiVersion.endsWith('/');
  return errorsOf(
    !hasVersion && invalid(`${path}.apiVersion`, owner.apiVersion, 'version must not be empty'),
    empty.flatMap((field) => (owner[field] ? [] : [invalid(`${path}.${field}`, owner[field], 'must not be empty')])),
    owner.apiVersion === 'v1' &&
      owner.kind === 'Event' &&
      invalid(path, owner, '/v1, Kind=Event is disallowed from being an owner'),
  );
}

function validateFinalizers({ finalizers = [] }: PodMeta, path: string): FieldError[] {
  const contradicts = finalizers.includes('orphan') && finalizers.includes('foregroundDeletion');
  const both = 'finalizer orphan and foregroundDeletion cannot be both set';
  const unknown = 'name is neither a standard finalizer name nor is it fully qualified';
  return errorsOf(
    finalizers.flatMap((name) => checked(path, name, isQualifiedName)),
    contradicts && invalid(path, finalizers, both),
    finalizers.flatMap((name, at) =>
      name.includes('/') || STANDARD_FINALIZERS.includes(name) ? [] : [invalid(`${path}[${at}]`, name, unknown)],
    ),
  );
}

type Manager = NonNullable<PodMeta['managedFields']>[number];

function validateManager({ operation = '', fieldsType, manager = '', subresource = '' }: Manager, path: string) {
  return errorsOf(
    operation !== 'Apply' &&
      operation !== 'Update' &&
      invalid(`${path}.operation`, operation, 'must be `Apply` or `Update`'),
    fieldsType && fieldsType !== 'FieldsV1' && invalid(`${path}.fieldsType`, fieldsType, 'must be `FieldsV1`'),
    byteLength(manager) > MANAGER_MAX_BYTES && tooLong(`${path}.manager`, MANAGER_MAX_BYTES),
    byteLength(subresource) > SUBRESOURCE_MAX_BYTES && tooLong(`${path}.subresource`, SUBRESOURCE_MAX_BYTES),
  );
}
