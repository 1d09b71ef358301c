/**
 * Validates the metadata of a pod that only the API server reads: owners, finalizers, managed fields, sizes.
 *
 * A node of 0.2.0 dropped these fields; a replay of its journal does not apply these rules.
 */
import type { Pod, PodMeta } from '../api/pod.ts';
import {
  byteLength,
  checked,
  errorsOf,
  type FieldError,
  invalid,
  isLongName,
  isQualifiedName,
  nonNegative,
  tooLong,
} from './field.ts';

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
