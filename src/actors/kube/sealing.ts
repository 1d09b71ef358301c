/**
 * Replaces what machines must not see: values of Secrets, issued tokens and literal values of pods become handles, and
 * are restored for requests. Managed fields are dropped: a node does not use them, and they are long.
 */
import type { Vault } from '../../kernel/journal/index.ts';
import type { Json } from '../../kernel/json.ts';
import { isObject, type JsonObject } from '../../kernel/json.ts';
import type { KubeObject, KubeTarget } from '../../machines/model/operations/kube.ts';
import { sealedPod } from '../pod-values.ts';

/** kubectl stores the whole object there, including values. */
const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';

export const isPod = ({ apiVersion, resource }: KubeTarget): boolean => apiVersion === 'v1' && resource === 'pods';

/** The object for machines. */
export function sealed(target: KubeTarget, object: Json, vault: Vault): KubeObject {
  const plain = withoutManagedFields(object as JsonObject);
  if (target.subresource === 'token') return withSealedToken(plain, vault) as KubeObject;
  const isSecret = target.apiVersion === 'v1' && target.resource === 'secrets' && target.subresource === undefined;
  if (isPod(target)) return sealedPod(plain, vault) as KubeObject;
  return (isSecret ? withSealedData(plain, vault) : plain) as KubeObject;
}

function withoutManagedFields(object: JsonObject): JsonObject {
  if (!isObject(object['metadata']) || object['metadata']['managedFields'] === undefined) return object;
  const { managedFields: _dropped, ...metadata } = object['metadata'];
  return { ...object, metadata };
}

function withSealedToken(object: JsonObject, vault: Vault): JsonObject {
  const status = object['status'];
  if (!isObject(status) || typeof status['token'] !== 'string') return object;
  return { ...object, status: { ...status, token: vault.seal(status['token']) } as unknown as Json };
}

function withSealedData(object: JsonObject, vault: Vault): JsonObject {
  const { data, metadata, ...rest } = object;
  const contents = isObject(data)
    ? Object.entries(data).map(
        ([key, value]) => [key, sealedContent(typeof value === 'string' ? value : '', vault)] as const,
      )
    : [];
  return { ...rest, metadata: withoutLastApplied(metadata), data: Object.fromEntries(contents) as unknown as Json };
}

/** Text if the bytes are text: only text can become a variable. */
function sealedContent(encoded: string, vault: Vault) {
  const bytes = Buffer.from(encoded, 'base64');
  const text = bytes.toString('utf8');
  return Buffer.from(text).equals(bytes) ? { text: vault.seal(text) } : { base64: vault.seal(encoded) };
}

function withoutLastApplied(metadata: Json | undefined): Json | undefined {
  if (!isObject(metadata) || !isObject(metadata['annotations'])) return metadata;
  const { [LAST_APPLIED]: _dropped, ...annotations } = metadata['annotations'];
  return { ...metadata, annotations };
}
