/**
 * `host.watchManifestUrl`: fetches static pods from a URL every `periodMs`, and emits when the answer changed.
 *
 * Decides, as the Go kubelet does: only an answer with the code 200 counts; an empty body is an error, and no pods; the
 * body is one Pod or a list of Pods, as YAML or JSON.
 * Invariants: one request at a time; an unchanged answer is not emitted again; header values and the login of the URL
 * are sent only by this port, and only to the origin of the URL: a redirect to another origin is followed without them.
 */
import { createHash } from 'node:crypto';
import type { Vault } from '../../../kernel/journal/secrets.ts';
import type { Json, JsonObject } from '../../../kernel/json.ts';
import type { InputOf, Port } from '../../../kernel/operation.ts';
import type { hostOperations, Manifest } from '../../../machines/model/operations/host.ts';
import { pause } from '../../pause.ts';
import { openedText, sealedPod } from '../../pod-values.ts';
import { basicLogin, environmentProxy, withLogin } from '../../urls.ts';
import { decodeInThread } from './decode-in-thread.ts';
import { MAX_DOCUMENT_BYTES } from './document.ts';
import { uidOf } from './manifest-files.ts';

/** The timeout of upstream's client: a server that does not answer blocks only one attempt. */
const REQUEST_TIMEOUT_MS = 10_000;

type Operation = (typeof hostOperations)['host.watchManifestUrl'];
type Input = InputOf<Operation>;

const HTTP_OK = 200;
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** The limit of upstream's client. */
const REDIRECTS_MAX = 10;
/** The limit of pods, the same as of files in a folder: each pod takes time of the main thread, even if it is empty. */
const PODS_MAX = 2_000;

interface Fetched {
  readonly manifests: readonly Manifest[] | null;
  readonly error: string;
}

export const manifestUrlPort =
  (vault: Vault): Port<Operation> =>
  async (call) => {
    const { input, signal } = call;
    let reported = '';
    while (!signal.aborted) {
      const fetched = await fetchManifests(input, vault, signal);
      const text = JSON.stringify(fetched);
      if (text !== reported && !signal.aborted) {
        reported = text;
        call.emit({ type: 'manifests.fetched', ...fetched });
      }
      await pause(input.periodMs, signal);
    }
    return null;
  };

async function fetchManifests(input: Input, vault: Vault, signal: AbortSignal): Promise<Fetched> {
  const { url, nodeName } = input;
  try {
    const opened = withLogin(url, (login) => openedText(login, vault));
    const { address, authorization } = basicLogin(opened);
    const headers = headersOf(input, vault);
    if (authorization !== null && !headers.has('authorization')) headers.set('authorization', authorization);
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
    const response = await follow(address, headers, bounded);
    if (response.status !== HTTP_OK) {
      await response.body?.cancel();
      throw new Error(`${url}: ${response.status} ${response.statusText}`.trimEnd());
    }
    const bytes = await bodyOf(response);
    if (bytes.length === 0) return { manifests: [], error: `zero-length data received from ${url}` };
    let error = '';
    const document = await decodeInThread(bytes, (problem) => (error = `${url}: ${problem}`));
    const manifests = vault.hold({ namespace: '', id: 'manifestURL' }, () =>
      podsIn(document).map((value) => {
        const uid = uidOf(placeOf(opened), nodeName, value);
        return { file: url, uid, value: sealedPod(value, vault) };
      }),
    );
    return { manifests, error };
  } catch (error) {
    return { manifests: null, error: reasonOf(error, url) };
  }
}

async function follow(url: string, headers: Headers, signal: AbortSignal): Promise<Response> {
  const { origin } = new URL(url);
  let target = url;
  for (let followed = 0; followed <= REDIRECTS_MAX; followed++) {
    const isOwn = new URL(target).origin === origin;
    const response = await send(target, { redirect: 'manual', signal, ...(isOwn ? { headers } : {}) });
    const location = REDIRECTS.has(response.status) ? response.headers.get('location') : null;
    if (location === null) return response;
    await response.body?.cancel();
    target = new URL(location, target).href;
    if (!/^https?:/.test(target)) throw new Error(`a redirect to ${target} is not followed: it is not HTTP`);
  }
  throw new Error(`stopped after ${REDIRECTS_MAX} redirects`);
}

/** Uses the proxy that the environment names, if any. */
async function send(url: string, init: RequestInit): Promise<Response> {
  const proxy = environmentProxy(url);
  if (proxy === undefined) return fetch(url, init);
  const undici = await import('undici');
  const dispatcher = new undici.ProxyAgent({ uri: proxy, pipelining: 0 });
  return undici.fetch(url, { ...init, dispatcher }) as Promise<unknown> as Promise<Response>;
}

function headersOf({ headers }: Input, vault: Vault): Headers {
  const opened = new Headers();
  for (const [name, values] of Object.entries(headers)) {
    for (const value of values) opened.append(name, vault.open(value));
  }
  return opened;
}

/** Reads at most the size limit of a manifest. */
async function bodyOf(response: Response): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > MAX_DOCUMENT_BYTES) {
      throw new Error(`the answer has more than ${MAX_DOCUMENT_BYTES} bytes, which is the most that is read`);
    }
  }
  return Buffer.concat(chunks);
}

function podsIn(value: Json): readonly Json[] {
  const document = value as JsonObject | null;
  if (typeof document !== 'object' || document === null) throw new Error('received data is not a Pod or a PodList');
  if (document['kind'] !== 'PodList' && document['kind'] !== 'List') return [value];
  const items = document['items'] ?? [];
  if (!Array.isArray(items)) throw new Error('items: must be a list');
  if (items.length > PODS_MAX) throw new Error(`items: ${items.length} pods; at most ${PODS_MAX} are read`);
  return items.map((item: Json) => {
    const pod = typeof item === 'object' && item !== null ? (item as JsonObject) : {};
    return { apiVersion: 'v1', kind: 'Pod', ...pod };
  });
}

const placeOf = (url: string): string => `url:${createHash('md5').update(url).digest('hex')}`;

function reasonOf(error: unknown, url: string): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : '';
  return error.message.includes(url) ? error.message : `${url}: ${error.message}${cause}`;
}
