/**
 * The handles that stand for what people wrote into a container: values of its variables, headers of its hooks, words
 * of its command and of the commands of its probes.
 *
 * Invariant: the ports seal every such text, so a name of a handle that stands there is this container's own.
 */
import type { SecretHandle } from '../../../kernel/xstate.ts';
import type { Container } from '../api/pod.ts';

const HANDLE_NAMES = /§[A-Za-z0-9_-]{22}/g;

/** Of variables and headers, each once. Their lengths are not known. */
export function writtenHandles({ env = [], lifecycle = {} }: Container): readonly SecretHandle[] {
  const headers = [lifecycle.postStart, lifecycle.preStop].flatMap((hook) => hook?.httpGet?.httpHeaders ?? []);
  return handlesIn([...env, ...headers].flatMap(({ value }) => (value === undefined ? [] : [value])));
}

/** Of command and arguments, each once. An error may quote them: it names the program that is not there. */
export const wordHandles = ({
  command = [],
  args = [],
}: Pick<Container, 'command' | 'args'>): readonly SecretHandle[] => handlesIn([...command, ...args]);

function handlesIn(texts: readonly string[]): readonly SecretHandle[] {
  const names = texts.flatMap((text) => (text.includes('§') ? (text.match(HANDLE_NAMES) ?? []) : []));
  return [...new Set(names)].map(($secret) => ({ $secret, len: 0 }));
}
