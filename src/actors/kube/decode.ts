/**
 * Validates objects of the API server against the shape that machines rely on, as Go's typed decoder does.
 *
 * Invariants: an object is a map that has `metadata`, whose names and versions are short texts and whose labels and
 * annotations are maps of text; a name leads to no other folder; `spec`, `status` and `data`, if present, are maps;
 * nesting is at most {@link NESTING_MAX}, which recursion can handle. Anything else is an error that names the field.
 *
 * Replaces what machines must not see: values of Secrets, issued tokens and literal values of pods become handles, and
 * are restored for requests. Managed fields are dropped: a node does not use them, and they are long.
 */

import { hash } from 'node:crypto';
import type { Document } from '../../kernel/journal/held-values.ts';
import type { Vault } from '../../kernel/journal/secrets.ts';
import { isObject, type Json, type JsonObject, memberOf, OperationError } from '../../kernel/json.ts';
import type { KubeObject, KubeTarget } from '../../machines/model/operations/kube.ts';
import { isTerminalPhase } from '../../machines/model/status/phase.ts';
import { pickKeys } from '../../machines/model/values/tables.ts';
import { LAST_APPLIED, sealedPod } from '../pod-values.ts';
import { sealedContent } from '../secret-bytes.ts';

/** The limit of nesting: API objects have a dozen levels, custom fields a few more. */
const NESTING_MAX = 200;

type Check = (value: Json, at: string) => void;

/** The kept part of a field's place, which may contain the key of a map. */
const PLACE_MAX_CHARS = 1_024;

const refused = (at: string, wanted: string, value: Json | undefined): OperationError => {
  const place = at.slice(0, PLACE_MAX_CHARS);
  return new OperationError(
    `the API server's answer cannot be decoded: ${place}: ${wanted} expected, not ${kindOf(value)}`,
    { name: 'DecodeError', code: 'MALFORMED', retriable: true },
  );
};

function kindOf(value: Json | undefined): string {
  if (value === null || value === undefined) return 'null';
  if (Array.isArray(value)) return 'a list';
  return typeof value === 'object' ? 'a map' : `a ${typeof value}`;
}

const text: (value: Json, at: string) => asserts value is string = (value, at) => {
  if (typeof value !== 'string') throw refused(at, 'text', value);
};
/** The limit of a name, a uid or a version; API servers accept names of 253 characters. */
const NAME_MAX_CHARS = 1_024;
/** The limit of the token for the next page, which contains a name. */
const CONTINUE_MAX_CHARS = 65_536;

const shortText =
  (maxChars: number): Check =>
  (value, at) => {
    text(value, at);
    if (value.length > maxChars) throw refused(at, `at most ${maxChars} characters`, value);
  };
/** A name is a segment of a path, as upstream's servers require of every object. */
const name: Check = (value, at) => {
  text(value, at);
  shortText(NAME_MAX_CHARS)(value, at);
  if (/[/%\0]|^\.{1,2}$/.test(value)) throw refused(at, 'a segment of a path', value);
};
const number: Check = (value, at) => {
  if (typeof value !== 'number') throw refused(at, 'a number', value);
};
const map: (value: Json, at: string) => asserts value is JsonObject = (value, at) => {
  if (!isObject(value)) throw refused(at, 'a map', value);
};
const texts: Check = (value, at) => {
  map(value, at);
  for (const [key, each] of Object.entries(value)) text(each ?? null, `${at}[${JSON.stringify(key)}]`);
};
const listOf =
  (check: Check): Check =>
  (value, at) => {
    if (!Array.isArray(value)) throw refused(at, 'a list', value);
    for (const [index, each] of value.entries()) check(each, `${at}[${index}]`);
  };

const OF_METADATA: Readonly<Record<string, Check>> = {
  name,
  generateName: name,
  namespace: name,
  uid: shortText(NAME_MAX_CHARS),
  resourceVersion: shortText(NAME_MAX_CHARS),
  continue: shortText(CONTINUE_MAX_CHARS),
  creationTimestamp: text,
  deletionTimestamp: text,
  deletionGracePeriodSeconds: number,
  labels: texts,
  annotations: texts,
  finalizers: listOf(text),
  ownerReferences: listOf(map),
};
/** Each key of a ConfigMap or Secret becomes a file of each volume that uses it, and a value in the journal. */
const KEYS_MAX = 10_000;

const data: Check = (value, at) => {
  map(value, at);
  texts(value, at);
  if (Object.keys(value).length > KEYS_MAX) throw refused(at, `at most ${KEYS_MAX} keys`, value);
};

/** A null field counts as absent, as in Go. */
function checkFields(fields: JsonObject, checks: Readonly<Record<string, Check>>, at: string): void {
  for (const [field, check] of Object.entries(checks)) {
    const value = Object.hasOwn(fields, field) ? fields[field] : undefined;
    if (value !== undefined && value !== null) check(value, `${at}.${field}`);
  }
}

const mapOf =
  (checks: Readonly<Record<string, Check>>): Check =>
  (value, at) => {
    map(value, at);
    checkFields(value, checks, at);
  };
/** As {@link mapOf}, of fields that machines read as they are: Go's servers omit empty fields. */
const mapWithoutNull =
  (checks: Readonly<Record<string, Check>>): Check =>
  (value, at) => {
    map(value, at);
    checkFields(value, checks, at);
    const empty = Object.keys(checks).find((field) => value[field] === null);
    if (empty !== undefined) throw refused(`${at}.${empty}`, 'a value', null);
  };

const requirements = listOf(mapWithoutNull({ key: text, operator: text, values: listOf(text) }));
const nodeTerms = listOf(mapWithoutNull({ matchExpressions: requirements, matchFields: requirements }));
/** Fields of Nodes and PersistentVolumes: the machines that read them know no other form. */
const OF_SPEC = {
  podCIDR: text,
  podCIDRs: listOf(text),
  taints: listOf(map),
  nodeAffinity: mapOf({ required: mapOf({ nodeSelectorTerms: nodeTerms }) }),
};
const OF_STATUS = {
  conditions: listOf(map),
  addresses: listOf(map),
  volumesAttached: listOf(map),
  volumesInUse: listOf(text),
};
const OF_OBJECT: Readonly<Record<string, Check>> = {
  spec: mapOf(OF_SPEC),
  status: mapOf(OF_STATUS),
  data,
  binaryData: data,
};

function checkNesting(value: Json | undefined, at: string, levels: number): void {
  if (typeof value !== 'object' || value === null) return;
  if (levels > NESTING_MAX) throw refused(at, `at most ${NESTING_MAX} levels`, value);
  for (const child of Object.values(value)) checkNesting(child, at, levels + 1);
}

/** Without managed fields. Missing metadata is an empty map, as in Go. */
function metadataOf(value: JsonObject, at: string): JsonObject {
  const given = value['metadata'] ?? {};
  if (!isObject(given)) throw refused(`${at}.metadata`, 'a map', given);
  const { managedFields: _dropped, ...metadata } = given;
  checkFields(metadata, OF_METADATA, `${at}.metadata`);
  return metadata;
}

/** `at` names the object in errors. */
export function decodedObject(value: Json | undefined, at: string): KubeObject {
  if (!isObject(value)) throw refused(at, 'a map', value);
  const object: JsonObject = { ...value, metadata: metadataOf(value, at) };
  // In a Status, the field `status` is text.
  if (object['kind'] !== 'Status') checkFields(object, OF_OBJECT, at);
  checkNesting(object, at, 0);
  return object as KubeObject;
}

export interface DecodedList {
  readonly metadata: { readonly resourceVersion?: string; readonly continue?: string };
  readonly items: readonly KubeObject[];
}

export function decodedList(value: Json | undefined): DecodedList {
  if (!isObject(value)) throw refused('list', 'a map', value);
  const metadata = metadataOf(value, 'list');
  const { items } = value;
  if (items === undefined || items === null) return { metadata, items: [] };
  if (!Array.isArray(items)) throw refused('list.items', 'a list', items);
  return {
    metadata,
    items: items.map((item, index) => decodedObject(item as Json, `list.items[${index}]`)),
  };
}

const LONG_NUMBER = /[[:,]\s*-?\d{16,}/;

/**
 * Parses JSON of the API server exactly: integers beyond 2^53 become their decimal text, as everywhere in this process.
 *
 * Reading each number's source costs five times a plain parse, so it is only done for texts with a long number.
 */
export function parseExactly(text: string): Json {
  if (!LONG_NUMBER.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_key, value: unknown, context?: { readonly source?: string }) =>
    typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)
      ? (context?.source ?? String(value))
      : value,
  ) as Json;
}

export const isPod = ({ apiVersion, resource }: KubeTarget): boolean => apiVersion === 'v1' && resource === 'pods';

const isSecret = ({ apiVersion, resource, subresource }: KubeTarget): boolean =>
  apiVersion === 'v1' && resource === 'secrets' && subresource === undefined;

/** The object for machines. */
export function sealed(target: KubeTarget, object: KubeObject, vault: Vault): KubeObject {
  if (target.subresource === 'token') return withSealedToken(target, object, vault);
  const id = documentIdOf(target, object);
  if (id === null) return object;
  const namespace = memberText(object.metadata, 'namespace');
  if (!isPod(target)) return vault.hold({ namespace, id }, () => withSealedData(object, vault)) as KubeObject;
  const made = withSealedSpec(object, { namespace, id }, vault);
  // Nothing of it is started any more, and thousands may be kept by the API server.
  if (hasEnded(object)) vault.release(id);
  return made;
}

/** The largest pods have values whose sealing takes a second, and their status and metadata may change all the time. */
function withSealedSpec(pod: KubeObject, document: Document, vault: Vault): KubeObject {
  const { spec } = pod;
  if (!isObject(spec)) return sealedPod(pod, vault) as KubeObject;
  const digest = hash('sha256', JSON.stringify(spec));
  const sealedSpec = vault.hold({ ...document, digest }, () => memberOf(sealedPod({ spec }, vault), 'spec'));
  return { ...(sealedPod({ ...pod, spec: null }, vault) as KubeObject), spec: sealedSpec as Json };
}

/** The ids of pods in the vault begin with this. */
export const POD_DOCUMENTS = 'pods/';

/** The id in the vault of an object with values; `null` for every other one. */
export function documentIdOf(target: KubeTarget, { metadata }: Pick<KubeObject, 'metadata'>): string | null {
  if (isPod(target)) return `${POD_DOCUMENTS}${memberText(metadata, 'uid')}`;
  return isSecret(target) ? `secrets/${memberText(metadata, 'namespace')}/${metadata.name}` : null;
}

/** A member that ought to be text; a server may send anything. */
export function memberText(metadata: KubeObject['metadata'], name: string): string {
  const value = metadata[name];
  return typeof value === 'string' ? value : JSON.stringify(value ?? '');
}

function hasEnded(pod: KubeObject): boolean {
  const phase = memberOf(pod['status'], 'phase');
  return typeof phase === 'string' && isTerminalPhase(phase);
}

/** What the writer of a pod's status reads of the answer. */
const READ_OF_POD: ReadonlySet<string> = new Set(['name', 'namespace', 'uid', 'resourceVersion', 'deletionTimestamp']);

/**
 * The answer to a write. Events and statuses of pods are written most often and their writers read little of the
 * answer, which is larger than the write: only that part is sealed, journaled and handed on.
 */
export function answerToWrite(target: KubeTarget, object: KubeObject, vault: Vault): KubeObject {
  const { metadata } = object;
  if (target.apiVersion === 'v1' && target.resource === 'events') return { metadata: { name: metadata.name } };
  if (!isPod(target) || target.subresource !== 'status') return sealed(target, object, vault);
  const read = pickKeys(metadata, (key) => READ_OF_POD.has(key)) as KubeObject['metadata'];
  return { metadata: read, status: object['status'] ?? {} };
}

/**
 * Seals the token of a response. The response must state the token's validity, by which a machine decides when to
 * request the next token.
 */
function withSealedToken({ namespace = '', name }: KubeTarget, object: KubeObject, vault: Vault): KubeObject {
  const [spec, status] = [object['spec'], object['status']].map((part) => (isObject(part) ? part : {}));
  const { token, expirationTimestamp } = status ?? {};
  const { expirationSeconds = 0 } = spec ?? {};
  if (typeof token !== 'string' || token === '') throw refusedToken('status.token', 'a text', token);
  if (typeof expirationTimestamp !== 'string' || !Number.isFinite(Date.parse(expirationTimestamp)))
    throw refusedToken('status.expirationTimestamp', 'a time', expirationTimestamp);
  // The time of the next request is computed from it.
  if (!Number.isSafeInteger(expirationSeconds))
    throw refusedToken('spec.expirationSeconds', 'an integer', expirationSeconds);
  const owner = String(memberOf(memberOf(spec, 'boundObjectRef'), 'uid'));
  const id = `${POD_DOCUMENTS}${owner}/tokens/${name}/${JSON.stringify(memberOf(spec, 'audiences'))}`;
  const handle = vault.hold({ namespace, id }, () => vault.seal(token));
  return { ...object, status: { ...status, token: handle } };
}

const refusedToken = (field: string, wanted: string, value: Json | undefined): OperationError =>
  refused(`serviceaccounts/token.${field}`, wanted, value);

function withSealedData(object: JsonObject, vault: Vault): JsonObject {
  const { data, metadata, ...rest } = object;
  const contents = isObject(data)
    ? Object.entries(data).map(
        ([key, value]) =>
          [key, sealedContent(Buffer.from(typeof value === 'string' ? value : '', 'base64'), vault)] as const,
      )
    : [];
  return { ...rest, metadata: withoutLastApplied(metadata), data: Object.fromEntries(contents) };
}

function withoutLastApplied(metadata: Json | undefined): Json | undefined {
  if (!isObject(metadata) || !isObject(metadata['annotations'])) return metadata;
  const { [LAST_APPLIED]: _dropped, ...annotations } = metadata['annotations'];
  return { ...metadata, annotations };
}
