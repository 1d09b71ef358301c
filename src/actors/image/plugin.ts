/**
 * A credential provider plugin: a program that returns the logins for an image name.
 *
 * Protocol: `CredentialProviderRequest` on stdin, `CredentialProviderResponse` on stdout, in the configured version;
 * with the token and annotations of the pod's service account if configured. Owns the cache of its answers, by image,
 * registry, or global, as the answer specifies.
 * Invariants: an answer for one service account is never used for another; one call at a time per image; an answer of
 * more than {@link MAX_ANSWER_BYTES} or after {@link DEADLINE_MS} is an error; no error quotes an answer.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { steadyNow } from '../../kernel/clock.ts';
import { isObject, type Json, type JsonObject } from '../../kernel/json.ts';
import { keepNewest } from '../../kernel/keep-newest.ts';
import { decodeAs, readTypeMeta } from '../../machines/configuration/fields/decode.ts';
import {
  duration,
  mapOf,
  named,
  plain,
  pointer,
  string,
  struct,
} from '../../machines/model/configuration/field-types.ts';
import type { PullingPod, SourceCoordinates } from '../../machines/model/operations/image.ts';
import { quote } from '../../machines/model/values/go-text.ts';
import { millisecondsOf } from '../../machines/model/values/time.ts';
import { dockercfg, type Logins, matches } from './keyring.ts';
import type { Provider, TokenAttributes } from './provider-config.ts';
import type { ServiceAccounts } from './service-accounts.ts';

/** Upstream's deadline: it gives a plugin time to retry a failed request. */
const DEADLINE_MS = 60_000;
/** The limit of an answer: a login has at most a few KiB, and a plugin a few registries. */
const MAX_ANSWER_BYTES = 1_048_576;
/** Bytes of a failed plugin's stderr in the log. */
const MAX_COMPLAINT_BYTES = 1_024;
/** Cached answers; a node has a few hundred images. */
const MAX_CACHED = 10_000;
const GLOBAL_SCOPE = 'global';

const cacheKey = (scope: string, owner: string): string => JSON.stringify([scope, owner]);
const hashOf = (token = ''): string => (token === '' ? '' : createHash('sha256').update(token).digest('hex'));

const login = struct('v1.AuthConfig', [plain('username', string), plain('password', string)]);
const responseType = struct('v1.CredentialProviderResponse', [
  plain('cacheKeyType', named('v1.PluginCacheKeyType')),
  pointer('cacheDuration', duration),
  plain('auth', mapOf(login, 'map[string]v1.AuthConfig')),
]);

interface Answer {
  readonly cacheKeyType: string;
  readonly cacheDuration: string | null;
  readonly logins: Logins;
}

interface Cached {
  readonly logins: Logins;
  readonly expiresAtMs: number;
}

/** The service account on whose behalf a plugin is called; `null` for the node. */
interface Principal {
  readonly account: SourceCoordinates;
  readonly token: string;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface PluginAnswer {
  readonly logins: Logins;
  /** The service account of the logins; `null` for the node. */
  readonly account: SourceCoordinates | null;
}

const NOTHING: PluginAnswer = { logins: {}, account: null };

interface PluginOptions {
  readonly binDir: string;
  readonly now?: () => number;
  /** Absent: no pod has a service account. */
  readonly accounts?: ServiceAccounts;
  readonly onRun?: OnPluginRun;
}

export type OnPluginRun = (run: {
  readonly plugin: string;
  readonly durationMs: number;
  readonly failed: boolean;
}) => void;

export class Plugin {
  readonly #provider: Provider;
  readonly #binDir: string;
  readonly #now: () => number;
  readonly #accounts: ServiceAccounts | undefined;
  readonly #onRun: OnPluginRun;
  readonly #cache = new Map<string, Cached>();
  readonly #pending = new Map<string, Promise<Answer>>();

  constructor(provider: Provider, { binDir, now = steadyNow, accounts, onRun = () => {} }: PluginOptions) {
    this.#onRun = onRun;
    this.#provider = provider;
    this.#binDir = binDir;
    this.#now = now;
    this.#accounts = accounts;
  }

  get name(): string {
    return this.#provider.name;
  }

  /** Whether the plugin is called on behalf of service accounts. */
  get usesAccounts(): boolean {
    return this.#provider.tokenAttributes !== undefined;
  }

  /** Logins for this image; none if the plugin does not handle it. Rejects with upstream's text. */
  async logins(image: string, pod: PullingPod | null, signal: AbortSignal): Promise<PluginAnswer> {
    const { matchImages, tokenAttributes } = this.#provider;
    if (!matchImages.some((pattern) => matches(pattern, image))) return NOTHING;
    const hasAccount = pod !== null && pod.serviceAccount !== '' && this.#accounts !== undefined;
    if (tokenAttributes === undefined || !hasAccount) {
      return tokenAttributes?.requireServiceAccount === true ? NOTHING : await this.#answer(image, null);
    }
    const principal = await this.#principal(tokenAttributes, pod, this.#accounts, signal);
    return principal === null ? NOTHING : await this.#answer(image, principal);
  }

  /** `null`: the service account lacks an annotation required to opt in. */
  async #principal(
    attributes: TokenAttributes,
    pod: PullingPod,
    accounts: ServiceAccounts,
    signal: AbortSignal,
  ): Promise<Principal | null> {
    const { namespace, serviceAccount: name } = pod;
    const needed = attributes.requiredServiceAccountAnnotationKeys ?? [];
    const optional = attributes.optionalServiceAccountAnnotationKeys ?? [];
    const failed = (what: string) => (error: Error) => {
      throw new Error(`${what} ${namespace}/${name}: ${error.message}`);
    };
    const { uid, annotations } = await accounts.get(pod, signal).catch(failed('Failed to get service account'));
    if (needed.some((key) => !Object.hasOwn(annotations, key))) return null;
    const audience = attributes.serviceAccountTokenAudience ?? '';
    const token = await accounts.token(pod, uid, audience, signal).catch(failed('Error getting service account token'));
    const passed = [...needed, ...optional].filter((key) => Object.hasOwn(annotations, key)).toSorted();
    const entries = passed.map((key) => [key, annotations[key] ?? ''] as const);
    return { account: { namespace, name, uid }, token, annotations: Object.fromEntries(entries) };
  }

  async #answer(image: string, principal: Principal | null): Promise<PluginAnswer> {
    const account = principal?.account ?? null;
    const owner = this.#ownerOf(principal);
    const cached = this.#cached(image, owner);
    if (cached) return { logins: cached, account };
    const key = JSON.stringify([image, owner, hashOf(principal?.token)]);
    const pending = this.#pending.get(key) ?? this.#ask(image, principal);
    this.#pending.set(key, pending);
    const answer = await pending
      .catch((error: Error) => {
        throw new Error(`Failed getting credential from external registry credential provider: ${error.message}`);
      })
      .finally(() => this.#pending.delete(key));
    this.#refuseEcho(image, answer, principal);
    this.#keep(image, owner, answer);
    return { logins: answer.logins, account };
  }

  /** The principal of an answer, part of its cache key. */
  #ownerOf(principal: Principal | null): string {
    if (principal === null) return '';
    const { account, token, annotations } = principal;
    const { namespace, name, uid } = account;
    const isOfToken = this.#provider.tokenAttributes?.cacheType === 'Token';
    return JSON.stringify([namespace, name, uid, annotations, isOfToken ? hashOf(token) : '']);
  }

  /** Rejects an echoed token: it belongs to one pod, and caching it for the service account would give it to others. */
  #refuseEcho(image: string, { logins }: Answer, principal: Principal | null): void {
    if (principal === null || this.#provider.tokenAttributes?.cacheType === 'Token') return;
    if (!Object.values(logins).some(({ password }) => password === principal.token)) return;
    throw new Error(
      `Credential provider plugin returned the service account token as the password for image ${quote(image)}, ` +
        "which is not allowed when service account cache type is not set to 'Token'",
    );
  }

  #cached(image: string, owner: string): Logins | undefined {
    const nowMs = this.#now();
    for (const [key, { expiresAtMs }] of this.#cache) if (expiresAtMs < nowMs) this.#cache.delete(key);
    const scopes = [`image ${image}`, `registry ${registryOf(image)}`, GLOBAL_SCOPE];
    const kept = scopes.map((scope) => this.#cache.get(cacheKey(scope, owner)));
    return kept.find((entry) => entry !== undefined)?.logins;
  }

  #keep(image: string, owner: string, { cacheKeyType, cacheDuration, logins }: Answer): void {
    const ms = millisecondsOf(cacheDuration ?? this.#provider.defaultCacheDuration);
    if (ms === 0) return;
    const scopes: Readonly<Record<string, string>> = {
      Image: `image ${image}`,
      Registry: `registry ${registryOf(image)}`,
      Global: GLOBAL_SCOPE,
    };
    this.#cache.set(cacheKey(scopes[cacheKeyType]!, owner), { logins, expiresAtMs: this.#now() + ms });
    keepNewest(this.#cache, MAX_CACHED);
  }

  async #ask(image: string, principal: Principal | null): Promise<Answer> {
    const { apiVersion } = this.#provider;
    const { token, annotations = {} } = principal ?? {};
    const request = {
      kind: 'CredentialProviderRequest',
      apiVersion,
      image,
      ...(token === undefined ? {} : { serviceAccountToken: token }),
      ...(Object.keys(annotations).length === 0 ? {} : { serviceAccountAnnotations: annotations }),
    };
    return decodeAnswer(await this.#timed(this.#run(image, `${JSON.stringify(request)}\n`)), apiVersion);
  }

  async #timed(run: Promise<string>): Promise<string> {
    const beganMs = performance.now();
    let failed = true;
    try {
      const answer = await run;
      failed = false;
      return answer;
    } finally {
      this.#onRun({ plugin: this.name, durationMs: performance.now() - beganMs, failed });
    }
  }

  #run(image: string, request: string): Promise<string> {
    const { name, args, env } = this.#provider;
    const failure = (reason: string) =>
      new Error(`error execing credential provider plugin ${name} for image ${image}: ${reason}`);
    const pluginVariables = Object.fromEntries(env.map((each) => [each.name, each.value]));
    return new Promise((resolve, reject) => {
      const child = spawn(join(this.#binDir, name), [...args], {
        env: { ...process.env, ...pluginVariables },
        stdio: ['pipe', 'pipe', 'pipe'],
        detached: true,
      });
      const stdout = new Limited(MAX_ANSWER_BYTES);
      const stderr = new Limited(MAX_COMPLAINT_BYTES);
      let late = false;
      const deadline = setTimeout(() => {
        late = true;
        giveUp(child);
      }, DEADLINE_MS);
      child.stdout.on('data', (chunk: Buffer) => stdout.take(chunk) || giveUp(child));
      child.stderr.on('data', (chunk: Buffer) => void stderr.take(chunk));
      child.stdin.on('error', () => {});
      child.stdin.end(request);
      child.once('error', (error) => {
        clearTimeout(deadline);
        reject(failure(error.message));
      });
      child.once('close', (code, signal) => {
        clearTimeout(deadline);
        if (late) reject(failure('context deadline exceeded'));
        else if (stdout.isFull) reject(failure(`it answered with more than ${MAX_ANSWER_BYTES} bytes`));
        else if (code !== 0) reject(failure(`${ending(code, signal)}: ${stderr.text}`));
        else resolve(stdout.text);
      });
    });
  }
}

/**
 * Kills the plugin's process group and closes its pipes. A process that the plugin started in a group of its own
 * survives, and would keep the output open.
 */
function giveUp({ pid, stdin, stdout, stderr }: ChildProcess): void {
  for (const stream of [stdin, stdout, stderr]) stream?.destroy();
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // The process has ended in the meantime.
  }
}

const ending = (code: number | null, signal: string | null): string =>
  code === null ? `signal: ${signal ?? 'unknown'}` : `exit status ${code}`;

/** Collects bytes up to a limit. */
class Limited {
  readonly #limit: number;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds a chunk; false if the limit is exceeded. */
  take(chunk: Buffer): boolean {
    const room = this.#limit - this.#bytes;
    this.#bytes += chunk.length;
    if (room > 0) this.#chunks.push(chunk.subarray(0, room));
    return !this.isFull;
  }

  get isFull(): boolean {
    return this.#bytes > this.#limit;
  }

  get text(): string {
    return Buffer.concat(this.#chunks).toString('utf8');
  }
}

const UNDECODABLE = 'error decoding credential provider plugin response from stdout';

function decodeAnswer(text: string, apiVersion: string): Answer {
  const value = documentOf(text);
  const typed = readTypeMeta('', value);
  if (typed.error !== undefined) throw new Error(`error reading GVK from response: ${typed.error}`);
  const { meta, body } = typed;
  if (meta.apiVersion !== apiVersion) {
    throw new Error(
      'apiVersion from credential plugin response did not match expected ' +
        `apiVersion:${apiVersion}, actual apiVersion:${meta.apiVersion}`,
    );
  }
  const decoded = decodeAs(responseType, body);
  if (meta.kind !== 'CredentialProviderResponse' || decoded.error !== undefined || decoded.unknownFields.length > 0) {
    throw new Error(UNDECODABLE);
  }
  const { cacheKeyType = '', cacheDuration = null, auth = {} } = decoded.value;
  if (!['Image', 'Registry', 'Global'].includes(cacheKeyType)) {
    throw new Error(`credential provider plugin did not return a valid cacheKeyType: "${cacheKeyType}"`);
  }
  return { cacheKeyType, cacheDuration, logins: dockercfg(JSON.stringify(auth)) };
}

function documentOf(text: string): JsonObject {
  try {
    const value: Json = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // The parser's own message would quote the answer.
  }
  throw new Error(UNDECODABLE);
}

const registryOf = (image: string): string => image.split('/', 1)[0] ?? '';
