/**
 * ConfigMaps and Secrets in files beside the static pods, in place of an API server.
 *
 * Validates objects as the API server does. Invariants: the values of a Secret leave this file only as handles; no
 * message quotes a value; the version of an object is computed from handles, so it reveals nothing of a Secret.
 */
import { createHash } from 'node:crypto';
import type { Vault } from '../../../kernel/journal/secrets.ts';
import type { Json } from '../../../kernel/json.ts';
import { isObject, type JsonObject } from '../../../kernel/json.ts';
import type { ConfigObject, Content } from '../../../machines/model/operations/volume.ts';
import { isConfigKey, isDnsLabel, isDnsSubdomain } from '../../../machines/model/validation/field.ts';
import { isBase64 } from '../../../machines/model/values/go-text.ts';
import { mapValues } from '../../../machines/model/values/tables.ts';
import { sealedContent } from '../../secret-bytes.ts';

/** Bytes of all values together, as limited by the API server. */
const MAX_DATA_BYTES = 1_048_576;
const FIELDS = {
  ConfigMap: ['data', 'binaryData'],
  Secret: ['data', 'stringData'],
} as const;

type Kind = keyof typeof FIELDS;

/** The kind of the document, when it is a ConfigMap or a Secret. */
export function configObjectKind(value: Json): Kind | null {
  if (!isObject(value)) return null;
  return value['kind'] === 'ConfigMap' || value['kind'] === 'Secret' ? value['kind'] : null;
}

/** The object with the values of a Secret sealed. The error lists every fault, for the author of the file. */
export function configObject(value: Json, kind: Kind, vault: Vault): ConfigObject {
  const document = value as JsonObject;
  const errors: string[] = [];
  if (document['apiVersion'] !== 'v1') errors.push(`apiVersion: must be v1 for a ${kind}`);
  const metadata = isObject(document['metadata']) ? document['metadata'] : {};
  const name = text(metadata['name']);
  const namespace = text(metadata['namespace']) || 'default';
  errors.push(...(name === '' ? ['metadata.name: Required value'] : problems('metadata.name', isDnsSubdomain(name))));
  errors.push(...problems('metadata.namespace', isDnsLabel(namespace)));
  const type = kind === 'Secret' ? text(document['type']) : '';
  const contents = Object.fromEntries(FIELDS[kind].flatMap((field) => entries(document[field], field, kind, errors)));
  const bytes = Object.values(contents).reduce((sum, each) => sum + each.length, 0);
  if (bytes > MAX_DATA_BYTES) errors.push(`data: Too long: may not be more than ${MAX_DATA_BYTES} bytes`);
  if (errors.length > 0) throw new Error(errors.join(', '));
  const data = mapValues(contents, (each) => (kind === 'Secret' ? sealedContent(each, vault) : contentOf(each)));
  const version = createHash('sha256')
    .update(JSON.stringify([namespace, name, type, data]))
    .digest('hex');
  return { kind, namespace, name, ...(type === '' ? {} : { type }), version, data };
}

const problems = (path: string, reasons: readonly string[]): string[] =>
  reasons.map((reason) => `${path}: Invalid value: ${reason}`);

/** Keys with their bytes. Errors name the key, never the value. */
function entries(value: Json | undefined, field: string, kind: Kind, errors: string[]): [string, Buffer][] {
  if (value === undefined || value === null) return [];
  if (!isObject(value)) {
    errors.push(`${field}: must be a map of keys and values`);
    return [];
  }
  const isEncoded = field === 'binaryData' || (kind === 'Secret' && field === 'data');
  return Object.entries(value).flatMap(([key, each]): [string, Buffer][] => {
    errors.push(...problems(`${field}[${key}]`, isConfigKey(key)));
    if (each === null) return [[key, Buffer.alloc(0)]];
    if (typeof each !== 'string') {
      errors.push(`${field}[${key}]: must be text; put the value into quotes`);
      return [];
    }
    if (!isEncoded) return [[key, Buffer.from(each)]];
    const compact = each.replaceAll(/\s/g, '');
    if (!isBase64(compact)) errors.push(`${field}[${key}]: must be base64`);
    return [[key, Buffer.from(compact, 'base64')]];
  });
}

/** The content as text if the bytes are text, because only text of a ConfigMap can become a variable. */
function contentOf(bytes: Buffer): Content {
  const decoded = bytes.toString('utf8');
  return Buffer.from(decoded).equals(bytes) ? { text: decoded } : { base64: bytes.toString('base64') };
}

const text = (value: Json | undefined): string => (typeof value === 'string' ? value : '');
