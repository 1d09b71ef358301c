/** From objects of the API server to what pods use of them. Pure. */
import type { KubeObject } from '../operations/kube.ts';
import type { ConfigObject, Content } from '../operations/volume.ts';
import { fnv1a32 } from '../spec/hash.ts';
import { isRecord } from '../validation/schema.ts';
import type { ObjectId } from './keys.ts';

/** `null`: an object of this kind gives pods nothing. */
export function configObjectFrom({ kind, namespace, name }: ObjectId, object: KubeObject): ConfigObject | null {
  const data = dataOf(kind, object);
  if (data === null) return null;
  const type = typeof object['type'] === 'string' ? object['type'] : '';
  const uid = typeof object.metadata['uid'] === 'string' ? object.metadata['uid'] : '';
  const version = versionOf([uid, type, data]);
  return {
    kind: kind as ConfigObject['kind'],
    namespace,
    name,
    ...(uid === '' ? {} : { uid }),
    ...(type === '' ? {} : { type }),
    version,
    data,
  };
}

function dataOf(kind: string, object: KubeObject): ConfigObject['data'] | null {
  switch (kind) {
    case 'ConfigMap':
      return { ...contents(object['data'], 'text'), ...contents(object['binaryData'], 'base64') };
    case 'Secret':
      // The port has sealed them as `{ text: handle }` or `{ base64: handle }`.
      return isRecord(object['data']) ? (object['data'] as unknown as ConfigObject['data']) : {};
    case 'RuntimeClass':
      return { handler: { text: typeof object['handler'] === 'string' ? object['handler'] : '' } };
    default:
      return null;
  }
}

function contents(value: unknown, form: 'text' | 'base64'): Readonly<Record<string, Content>> {
  if (!isRecord(value)) return {};
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, { [form]: String(each) } as Content]));
}

/** Changes with the content, and reveals nothing of it. */
export const versionOf = (value: unknown): string => {
  const text = JSON.stringify(value);
  return `${fnv1a32(text).toString(36)}.${fnv1a32(`#${text}`).toString(36)}`;
};
