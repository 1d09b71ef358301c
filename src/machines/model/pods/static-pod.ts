/**
 * Turns decoded manifests into static pods: types, identity, defaults, validation, and the union of all files.
 *
 * Decides, as the Go kubelet does (`applyDefaults`, `tryDecodeSinglePod`): the name gets the node's as a suffix, the
 * uid is the hash of the file, the pod of a file tolerates every NoExecute taint, and it may not refer to objects that
 * only an API server has, because it must be able to start without one. ConfigMaps and Secrets can be files beside it.
 *
 * Invariants:
 *   P1 a resulting pod has all defaults and passed the validation of the API server.
 *   P2 a bad file costs only its own pod. Of two files that claim one name or one uid, the first in order keeps it.
 */

import { isObject } from '../../../kernel/xstate.ts';
import {
  CONFIG_HASH_ANNOTATION,
  CONFIG_SOURCE_ANNOTATION,
  type Pod,
  type PodMeta,
  type PodSpec,
  podFullName,
  type Toleration,
} from '../api/pod.ts';
import type { Manifest, ManifestError } from '../operations/host.ts';
import { type Decider, hasBehavior, NEWEST_BEHAVIOR } from '../settings/behaviors.ts';

import { type ApiReferenceRule, apiReferences } from '../validation/api-references.ts';
import { validateFeatures } from '../validation/features.ts';
import { fullPodSchema } from '../validation/full-schema.ts';
import { sizeProblem, validatePod } from '../validation/pod.ts';
import { podSchema } from '../validation/pod-schema.ts';
import { conform } from '../validation/schema.ts';
import { aggregate } from '../values/go-text.ts';
import { withDefaults } from './defaults.ts';

export type StaticPod = { readonly pod: Pod; readonly errors?: undefined } | { readonly errors: readonly string[] };

export interface ManifestReader extends Decider {
  /** Where the manifests are from; absent: files. */
  readonly source?: 'file' | 'http';
}

const NEWEST: ManifestReader = { behavior: NEWEST_BEHAVIOR };

/** How a manifest becomes a pod. */
interface Reading {
  readonly nodeName: string;
  readonly asKubelet: boolean;
  /** The pod tolerates every NoExecute taint. */
  readonly tolerates: boolean;
}

const readingOf = (nodeName: string, reader: ManifestReader): Reading => ({
  nodeName,
  asKubelet: hasBehavior(reader, 'podsAsKubelet'),
  tolerates: reader.source !== 'http' || !hasBehavior(reader, 'tolerationOfFiles'),
});

/**
 * With `hasApiServer`, ConfigMaps and Secrets are not read from files, and the pod may name none unless the rule allows
 * it.
 */
export function staticPod(
  manifest: Manifest,
  nodeName: string,
  hasApiServer = false,
  rule: ApiReferenceRule = 'none',
  reader: ManifestReader = NEWEST,
): StaticPod {
  const reading = readingOf(nodeName, reader);
  const { asKubelet } = reading;
  const { pod, errors } = decodedBy(manifest, reading);
  const refused = pod === null ? errors : [...errors, ...apiReferences(pod.spec, hasApiServer, rule, asKubelet)];
  if (pod !== null && refused.length === 0) return { pod };
  return { errors: asKubelet ? withinLimit(refused) : refused };
}

/** Characters of all errors of a manifest, of which each may show values of the manifest. */
const ERRORS_LENGTH_MAX = 65_536;

/** The first errors, and how many others there are. */
function withinLimit(errors: readonly string[]): readonly string[] {
  const shown: string[] = [];
  let remainingChars = ERRORS_LENGTH_MAX;
  for (const error of errors) {
    if (remainingChars === 0) break;
    shown.push(error.length <= remainingChars ? error : `${error.slice(0, remainingChars)}...`);
    remainingChars = Math.max(0, remainingChars - error.length);
  }
  const others = errors.length - shown.length;
  return others === 0 ? shown : [...shown, `and ${others} more errors`];
}

interface DecodedPod {
  readonly pod: Pod | null;
  readonly errors: readonly string[];
}

/** The pod of each manifest, decoded once when its file was read, and reused when another file changes. */
const known = new WeakMap<Manifest, Reading & { readonly decoded: DecodedPod }>();

function decodedBy(manifest: Manifest, reading: Reading): DecodedPod {
  const { nodeName, asKubelet, tolerates } = reading;
  const before = known.get(manifest);
  if (before?.nodeName === nodeName && before.asKubelet === asKubelet && before.tolerates === tolerates)
    return before.decoded;
  const decoded = decodedPod(manifest, reading);
  known.set(manifest, { ...reading, decoded });
  return decoded;
}

function decodedPod(manifest: Manifest, reading: Reading): DecodedPod {
  const { asKubelet } = reading;
  const kindError = wrongKind(manifest.value);
  if (kindError !== null) return { pod: null, errors: [kindError] };
  const tooLarge = sizeProblem(manifest.value);
  if (tooLarge !== null) return { pod: null, errors: [tooLarge] };
  const errors: string[] = [];
  const decoded = conform(manifest.value, asKubelet ? fullPodSchema : podSchema, '', errors, asKubelet);
  if (errors.length > 0 || !isDecoded(decoded)) return { pod: null, errors };
  if (!decoded.metadata?.name) return { pod: null, errors: ['name is needed for the pod'] };
  const pod = applyIdentity(decoded, decoded.metadata.name, manifest.uid, reading);
  if (!asKubelet) return { pod, errors: validatePod(pod, false) };
  const graced = withGrace(pod);
  return { pod: graced, errors: [...validatePod(graced), ...validateFeatures(graced)] };
}

/** A negative grace period is one second, as upstream reads it. */
function withGrace(pod: Pod): Pod {
  const isNegative = (pod.spec.terminationGracePeriodSeconds ?? 0) < 0;
  return isNegative ? { ...pod, spec: { ...pod.spec, terminationGracePeriodSeconds: 1 } } : pod;
}

interface Decoded {
  readonly metadata?: Partial<PodMeta>;
  readonly spec?: Partial<PodSpec>;
}

/** An object that conforms to the schema of the Pod has this type. */
const isDecoded = (value: unknown): value is Decoded => isObject(value);

function wrongKind(value: unknown): string | null {
  if (!isObject(value)) return 'the document is not a map of fields';
  const { kind, apiVersion } = value;
  if (typeof kind !== 'string' || kind === '') return "Object 'Kind' is missing";
  if (typeof apiVersion !== 'string' || apiVersion === '') return "Object 'apiVersion' is missing";
  if (kind === 'Pod' && apiVersion === 'v1') return null;
  return `kind "${kind}" of apiVersion "${apiVersion}" is not a Pod of v1; a manifest file holds one Pod`;
}

function applyIdentity(decoded: Decoded, name: string, uid: string, reading: Reading): Pod {
  const { nodeName, asKubelet, tolerates } = reading;
  const metadata: PodMeta = {
    ...decoded.metadata,
    name: `${name}-${nodeName.toLowerCase()}`,
    namespace: decoded.metadata?.namespace || 'default',
    uid,
    annotations: {
      ...decoded.metadata?.annotations,
      [CONFIG_HASH_ANNOTATION]: uid,
      [CONFIG_SOURCE_ANNOTATION]: 'file',
    },
  };
  const spec = withDefaults({ ...decoded.spec, containers: decoded.spec?.containers ?? [] }, asKubelet);
  const { serviceAccount, ...rest } = spec;
  const serviceAccountName = spec.serviceAccountName || serviceAccount;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata,
    spec: {
      ...rest,
      ...(serviceAccountName ? { serviceAccountName, serviceAccount: serviceAccountName } : {}),
      nodeName,
      ...(tolerates
        ? { tolerations: withToleration(spec.tolerations ?? [], { operator: 'Exists', effect: 'NoExecute' }) }
        : {}),
    },
    status: { phase: 'Pending' },
  };
}

/** Adds a toleration, or replaces the one for the same taint. */
function withToleration(tolerations: readonly Toleration[], wanted: Toleration): readonly Toleration[] {
  const fields = ['key', 'operator', 'value', 'effect'] as const;
  const isSame = (other: Toleration) => fields.every((field) => (other[field] ?? '') === (wanted[field] ?? ''));
  if (!tolerations.some(isSame)) return [...tolerations, wanted];
  return tolerations.map((toleration) => (isSame(toleration) ? wanted : toleration));
}

export interface MergedManifests {
  readonly pods: readonly Pod[];
  readonly errors: readonly ManifestError[];
  /** Whether each file is valid by itself. */
  readonly isValid: boolean;
}

/** The pods of all files, and the errors of files without a valid pod. */
export function mergeManifests(
  manifests: readonly Manifest[],
  nodeName: string,
  hasApiServer = false,
  rule: ApiReferenceRule = 'none',
  reader: ManifestReader = NEWEST,
): MergedManifests {
  const pods: Pod[] = [];
  const errors: ManifestError[] = [];
  const owners = new Map<string, string>();
  const results = manifests.map((manifest) => ({
    file: manifest.file,
    result: staticPod(manifest, nodeName, hasApiServer, rule, reader),
  }));
  for (const { file, result } of results) {
    const problem =
      result.errors === undefined ? claim(result.pod, file, owners) : `invalid pod: ${aggregate(result.errors)}`;
    if (result.errors === undefined && problem === null) pods.push(result.pod);
    if (problem !== null) errors.push({ file, message: `Can't process manifest file "${file}": ${problem}` });
  }
  return { pods, errors, isValid: results.every(({ result }) => result.errors === undefined) };
}

/** Claims name and uid for this file, or returns the file that has them already. */
function claim({ metadata }: Pod, file: string, owners: Map<string, string>): string | null {
  const { name, namespace, uid } = metadata;
  const claims = [
    [`name ${podFullName({ metadata })}`, `pod "${name}" in namespace "${namespace}"`],
    [`uid ${uid}`, `uid "${uid}"`],
  ] as const;
  for (const [key, what] of claims) {
    const owner = owners.get(key);
    if (owner !== undefined) return `${what} is already defined by "${owner}"; rename or remove one of the two`;
  }
  for (const [key] of claims) owners.set(key, file);
  return null;
}
