/**
 * Seals the literal values of a pod that may be secret: environment variables, commands and arguments of containers,
 * commands of probes, headers of probes and hooks. They are replaced by names of handles when a pod enters, and
 * restored when it leaves to an API server, a runtime, a program or a client of the node.
 *
 * Invariants: a reference `$(NAME)` stays, so that machines expand it as usual; in these places every other text
 * becomes the name of a handle, so that an author cannot have another pod's handle opened by writing its name. Values
 * used in sub-paths stay plain: they become folder names. With `--journal-plain` only texts that look like a handle's
 * name are sealed.
 */
import type { Vault } from '../kernel/journal/secrets.ts';
import { isObject, type Json, type JsonObject } from '../kernel/json.ts';
import { piecesOf } from '../machines/model/spec/expansion.ts';

type Change = (text: string) => string;

const CONTAINERS = ['containers', 'initContainers', 'ephemeralContainers'] as const;
const WORDS = ['command', 'args'] as const;
const PROBES = ['livenessProbe', 'readinessProbe', 'startupProbe'] as const;
const HOOKS = ['postStart', 'preStop'] as const;
/** The annotation in which kubectl stores the whole object, including values. */
export const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration';
const NAMES_VALUES = /"(?:env|httpHeaders|command|args)"/;
const HANDLE_NAME = /§[A-Za-z0-9_-]{22}/;
const HANDLE_NAMES = new RegExp(HANDLE_NAME, 'g');

/** The pod for machines. A value that is not shaped like a pod is returned unchanged, for validation to reject. */
export function sealedPod(pod: Json, vault: Vault): Json {
  return changed(withoutLastApplied(pod, vault), (container) => {
    const inPaths = namesInPaths(container);
    return {
      variable: (name, text) => (inPaths.has(name) ? text : sealedText(text, vault)),
      word: (text) => sealedText(text, vault),
      header: (text) => sealedWhole(text, vault),
    };
  });
}

/** The pod as its author wrote it. Throws if the vault no longer holds a value. */
export function openedPod(pod: Json, vault: Vault): Json {
  const opened = (text: string): string => openedText(text, vault);
  return changed(pod, () => ({ variable: (_name, text) => opened(text), word: opened, header: opened }));
}

/** The pod for authorized readers; values that are no longer held stay handles. */
export function readablePod<Known extends object>(pod: Known, vault: Vault): Known {
  try {
    return openedPod(pod as Json, vault) as Known;
  } catch {
    return pod;
  }
}

/** The names of handles in the places of values, each once. */
export function valueNames(pod: Json): readonly string[] {
  const names = new Set<string>();
  const collect = (text: string): string => {
    for (const name of text.match(HANDLE_NAMES) ?? []) names.add(name);
    return text;
  };
  changed(pod, () => ({ variable: (_name, text) => collect(text), word: collect, header: collect }));
  return [...names];
}

/** Replaces every name of a handle by its value: only for text in which all literals were sealed. */
export const openedText = (text: string, vault: Vault): string =>
  text.replaceAll(HANDLE_NAMES, ($secret) => vault.open({ $secret, len: 0 }));

const sealedText = (text: string, vault: Vault): string =>
  piecesOf(text)
    .map((piece) => (piece.isReference && !piece.text.includes('§') ? piece.text : sealedWhole(piece.text, vault)))
    .join('');

function sealedWhole(text: string, vault: Vault): string {
  if (text === '' || (vault.isPlain && !HANDLE_NAME.test(text))) return text;
  return vault.seal(text).$secret;
}

interface Changes {
  readonly variable: (name: string, text: string) => string;
  /** Changes a word of a command or its arguments, of the container or of a probe. */
  readonly word: Change;
  readonly header: Change;
}

function changed(pod: Json, changesOf: (container: JsonObject) => Changes): Json {
  if (!isObject(pod) || !isObject(pod['spec'])) return pod;
  const spec: JsonObject = pod['spec'];
  const lists = CONTAINERS.flatMap((name) => {
    const list = spec[name];
    if (!Array.isArray(list)) return [];
    return [[name, list.map((each: Json) => (isObject(each) ? ofContainer(each, changesOf(each)) : each))] as const];
  });
  return { ...pod, spec: { ...spec, ...Object.fromEntries(lists) } };
}

function ofContainer(container: JsonObject, { variable, word, header }: Changes): Json {
  const { env, lifecycle } = container;
  const probes = PROBES.flatMap((name) => [...handlerAt(container, name, header), ...commandAt(container, name, word)]);
  const hooks = isObject(lifecycle) ? HOOKS.flatMap((name) => handlerAt(lifecycle, name, header)) : [];
  return {
    ...container,
    ...Object.fromEntries(WORDS.flatMap((name) => wordsAt(container, name, word))),
    ...(Array.isArray(env) ? { env: env.map((each) => withValue(each, variable)) } : {}),
    ...Object.fromEntries(probes),
    ...(isObject(lifecycle) ? { lifecycle: { ...lifecycle, ...Object.fromEntries(hooks) } } : {}),
  };
}

function wordsAt(container: JsonObject, name: string, change: Change): readonly (readonly [string, Json])[] {
  const words = container[name];
  return Array.isArray(words) ? [[name, words.map((each) => (typeof each === 'string' ? change(each) : each))]] : [];
}

function commandAt(owner: JsonObject, name: string, change: Change): readonly (readonly [string, Json])[] {
  const handler = owner[name];
  if (!isObject(handler) || !isObject(handler['exec'])) return [];
  return [
    [
      name,
      { ...handler, exec: { ...handler['exec'], ...Object.fromEntries(wordsAt(handler['exec'], 'command', change)) } },
    ],
  ];
}

function handlerAt(owner: JsonObject, name: string, header: Change): readonly (readonly [string, Json])[] {
  const handler = owner[name];
  if (!isObject(handler) || !isObject(handler['httpGet'])) return [];
  const { httpHeaders } = handler['httpGet'];
  if (!Array.isArray(httpHeaders)) return [];
  const headers = httpHeaders.map((each) => withValue(each, (_name, text) => header(text)));
  return [[name, { ...handler, httpGet: { ...handler['httpGet'], httpHeaders: headers } }]];
}

function withValue(pair: Json, change: Changes['variable']): Json {
  if (!isObject(pair) || typeof pair['value'] !== 'string') return pair;
  return { ...pair, value: change(textOf(pair['name']), pair['value']) };
}

function withoutLastApplied(pod: Json, { isPlain }: Vault): Json {
  if (isPlain || !isObject(pod) || !isObject(pod['metadata']) || !isObject(pod['metadata']['annotations'])) return pod;
  const { [LAST_APPLIED]: applied, ...annotations } = pod['metadata']['annotations'];
  if (typeof applied !== 'string' || !NAMES_VALUES.test(applied)) return pod;
  return { ...pod, metadata: { ...pod['metadata'], annotations } };
}

/** The variables used by sub-paths of this container, directly or through others. */
function namesInPaths({ volumeMounts, env }: JsonObject): ReadonlySet<string> {
  const mounts = Array.isArray(volumeMounts) ? volumeMounts.filter((each: Json) => isObject(each)) : [];
  const variables = Array.isArray(env) ? env.filter((each: Json) => isObject(each)) : [];
  const texts = new Map(variables.map(({ name, value }) => [textOf(name), value]));
  const names = new Set(mounts.flatMap(({ subPathExpr }) => namesIn(subPathExpr)));
  // Iterating over a set also visits names added meanwhile.
  for (const name of names) for (const further of namesIn(texts.get(name))) names.add(further);
  return names;
}

const textOf = (name: Json | undefined): string => (typeof name === 'string' ? name : '');

const namesIn = (text: Json | undefined): readonly string[] =>
  typeof text === 'string'
    ? piecesOf(text).flatMap((piece) => (piece.isReference ? [piece.text.slice('$('.length, -1)] : []))
    : [];
