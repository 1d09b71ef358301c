/**
 * The handles of literal texts in a container's definition: values of its variables, headers of its hooks, words of its
 * command and of the commands of its probes.
 *
 * Invariant: the ports replace every such text by a handle, so a handle's name in the definition is this container's
 *   own.
 */
import type { SecretHandle } from '../../../kernel/xstate.ts';
import type { Container } from '../api/pod.ts';

const HANDLE_NAMES = /§[A-Za-z0-9_-]{22}/g;

/** Handles of variables and headers, each once. Their lengths are unknown. */
export function writtenHandles({ env = [], lifecycle = {} }: Container): readonly SecretHandle[] {
  const headers = [lifecycle.postStart, lifecycle.preStop].flatMap((hook) => hook?.httpGet?.httpHeaders ?? []);
  return handlesIn([...env, ...headers].flatMap(({ value }) => (value === undefined ? [] : [value])));
}

/** Handles of command and arguments, each once. An error may quote them: it names a program that does not exist. */
export const wordHandles = ({
  command = [],
  args = [],
}: Pick<Container, 'command' | 'args'>): readonly SecretHandle[] => handlesIn([...command, ...args]);

function handlesIn(texts: readonly string[]): readonly SecretHandle[] {
  const names = texts.flatMap((text) => (text.includes('§') ? (text.match(HANDLE_NAMES) ?? []) : []));
  return [...new Set(names)].map(($secret) => ({ $secret, len: 0 }));
}
