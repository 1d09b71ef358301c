/**
 * The handles that stand for what people wrote into a container: values of its variables, and of headers of its hooks.
 *
 * Invariant: the ports seal every such text, so a name of a handle that stands there is this container's own.
 */
import type { SecretHandle } from '../../../kernel/xstate.ts';
import type { Container } from '../api/pod.ts';

const HANDLE_NAMES = /§[A-Za-z0-9_-]{22}/g;

/** Each once. Their lengths are not known. */
export function writtenHandles({ env = [], lifecycle = {} }: Container): readonly SecretHandle[] {
  const headers = [lifecycle.postStart, lifecycle.preStop].flatMap((hook) => hook?.httpGet?.httpHeaders ?? []);
  const texts = [...env, ...headers].flatMap(({ value }) => (value?.includes('§') ? [value] : []));
  const names = texts.flatMap((text) => text.match(HANDLE_NAMES) ?? []);
  return [...new Set(names)].map(($secret) => ({ $secret, len: 0 }));
}
