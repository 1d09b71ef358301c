/**
 * Inserts the values of Secrets and literal variables into calls to the runtime, in place of the names of handles.
 *
 * Invariants: only the handles named by a call are opened, so text that merely looks like one is left unchanged; errors
 * and statuses of the runtime about a container are reported without these values. A container with values of Secrets
 * is marked by a file beside its log, not in the runtime: a later agent that lacks the values then withholds its
 * messages and the outputs of its commands.
 */
import { access, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isSecretHandle, type SecretHandle, type Vault } from '../../kernel/journal/secrets.ts';
import { OperationError } from '../../kernel/json.ts';
import { codeOf } from '../../kernel/thrown.ts';
import type {
  AuthConfig,
  ContainerConfig,
  ContainerEventResponse,
  ContainerStatus,
  KeyValue,
  PodSandboxConfig,
} from '../../machines/model/api/cri.ts';
import { containerAnnotationKeys } from '../../machines/model/spec/annotations.ts';
import { EXPANDED_MAX_CHARS, EXPANDED_TOTAL_MAX_CHARS, HANDLE_NAMES } from '../../machines/model/spec/expansion.ts';
import { goJson } from '../../machines/model/spec/hash.ts';
import { quote } from '../../machines/model/values/go-text.ts';
import { cut, OUTPUT_MAX_BYTES, textWithin } from '../probe/attempt.ts';
import { bytesIn } from '../secret-bytes.ts';
import type { RuntimeClient } from './client.ts';

/** A file in the folder of a container's logs, removed with it. */
const MARK = '.holds-secrets';
const LOG_FOLDER_MODE = 0o755;
const MARK_MODE = 0o600;
const PRE_STOP = containerAnnotationKeys.preStopHandler;
const REDACTED_MESSAGE =
  'what the runtime says may quote a Secret that this agent does not have: see the log of the runtime';

/**
 * The values behind the handles of one call.
 *
 * Invariant: the first occurrence of a value counts at its own length, which the runtime limits; further occurrences
 * make texts grow, which is limited and measured before a text is built.
 */
export class Values {
  readonly #values: ReadonlyMap<string, string>;
  readonly #opened = new Set<string>();
  #left = EXPANDED_TOTAL_MAX_CHARS;

  constructor(handles: readonly SecretHandle[], vault: Vault, encode = (value: string): string => value) {
    const known = handles.filter(isSecretHandle);
    this.#values = new Map(known.map((handle) => [handle.$secret, encode(vault.open(handle))]));
  }

  /** Replaces handles in one pass: a value that looks like the name of a handle is left unchanged. */
  put(text: string): string {
    if (this.#values.size === 0) return text;
    this.#grow(text);
    return text.replaceAll(HANDLE_NAMES, (name) => textOnly(this.#values.get(name) ?? name));
  }

  /** As {@link put}, for a variable: its value may be bytes that are no text. */
  putBytes(text: string): Buffer {
    if (this.#values.size === 0) return Buffer.from(text);
    this.#grow(text);
    const pieces: Buffer[] = [];
    let from = 0;
    for (const { 0: name, index } of text.matchAll(HANDLE_NAMES)) {
      const value = this.#values.get(name);
      if (value === undefined) continue;
      pieces.push(Buffer.from(text.slice(from, index)), bytesIn(value) ?? Buffer.from(value));
      from = index + name.length;
    }
    return Buffer.concat([...pieces, Buffer.from(text.slice(from))]);
  }

  #grow(text: string): void {
    let growth = 0;
    for (const [name] of text.matchAll(HANDLE_NAMES)) {
      if (this.#opened.has(name)) growth += this.#values.get(name)?.length ?? 0;
      else if (this.#values.has(name)) this.#opened.add(name);
    }
    const limit = Math.min(EXPANDED_MAX_CHARS, this.#left);
    if (growth > limit) {
      const sentence = `variables make a word longer by ${growth} characters, and ${limit} are left for it`;
      throw new OperationError(sentence, { code: 'INVALID_ARGUMENT' });
    }
    this.#left -= growth;
  }
}

/** A word of a command is text in CRI. The error is that of Go's encoder. */
function textOnly(value: string): string {
  if (bytesIn(value) === null) return value;
  const sentence = 'grpc: error while marshaling: string field contains invalid UTF-8';
  throw new OperationError(`rpc error: code = Internal desc = ${sentence}`, { code: 'INTERNAL' });
}

/**
 * The values that statuses and errors may quote: of bytes the text that the runtime's answers have for them.
 */
export const quotableSecrets = (secrets: readonly SecretHandle[], vault: Vault): readonly SecretHandle[] =>
  secrets.map((handle) => {
    const bytes = bytesIn(vault.open(handle));
    return bytes === null ? handle : vault.seal(bytes.toString('utf8'));
  });

/** The value in the form that it has in JSON written by Go. */
const inJson = (value: string): string => unquoted(goJson(value));

/**
 * The configuration for the wire, with the values in variables, command, arguments and the request of the preStop hook.
 * Values of variables are bytes there, given as base64.
 */
export function withSecrets(config: ContainerConfig, handles: readonly SecretHandle[], vault: Vault): ContainerConfig {
  const values = new Values(handles, vault);
  const opened = (text: string): string => values.put(text);
  const preStop = config.annotations?.[PRE_STOP];
  return {
    ...config,
    ...(preStop === undefined
      ? {}
      : { annotations: { ...config.annotations, [PRE_STOP]: new Values(handles, vault, inJson).put(preStop) } }),
    ...(config.envs === undefined ? {} : { envs: config.envs.map((variable) => encoded(variable, values)) }),
    ...(config.command === undefined ? {} : { command: config.command.map(opened) }),
    ...(config.args === undefined ? {} : { args: config.args.map(opened) }),
  };
}

const encoded = ({ key = '', value = '' }: KeyValue, values: Values): KeyValue => ({
  key,
  value: values.putBytes(value).toString('base64'),
});

/** Marks a container that has values of Secrets. Must run before the container is created. */
export async function markHolder({ log_directory }: PodSandboxConfig, { log_path }: ContainerConfig): Promise<void> {
  if (!log_directory || !log_path) return;
  const folder = join(log_directory, dirname(log_path));
  await mkdir(folder, { recursive: true, mode: LOG_FOLDER_MODE });
  await writeFile(join(folder, MARK), '', { mode: MARK_MODE });
}

/** A container without a log may still quote values in its message. */
async function mayHoldSecrets({ log_path: logPath }: ContainerStatus): Promise<boolean> {
  if (logPath === '') return true;
  return await access(join(dirname(logPath), MARK)).then(
    () => true,
    () => false,
  );
}

/** Shorter values occur in messages by accident; removing them hides nothing. */
const REDACTED_MIN_LENGTH = 4;

/** Most variables are no secrets: short ones, like `info` or `8080`, stay in errors that quote them. */
const WRITTEN_MIN_LENGTH = 8;

/** The literal values that are removed from reports of the runtime; short ones occur in texts by accident. */
export const searchableSecrets = (written: readonly SecretHandle[], vault: Vault): readonly SecretHandle[] =>
  written.filter((handle) => vault.open(handle).length >= WRITTEN_MIN_LENGTH);

export const withoutSecrets = (error: unknown, handles: readonly SecretHandle[], vault: Vault): unknown =>
  handles.length === 0 ? error : withMessage(error, (message) => redacted(message, handles, vault));

export const withoutTexts = (error: unknown, texts: readonly string[]): unknown =>
  withMessage(error, (message) => texts.reduce((rest, text) => withoutText(rest, text, WITHHELD), message));

function withMessage(error: unknown, change: (message: string) => string): unknown {
  if (!(error instanceof OperationError)) return error;
  const { name, code, retriable } = error;
  return new OperationError(change(error.message), { name, retriable, ...(code === undefined ? {} : { code }) });
}

/**
 * How much of a text of the runtime is searched for values: more than is kept, so that a value across the end of the
 * kept part is found as well.
 */
const SEARCHED_MAX_BYTES = 64 * 1024;
/** The limit of bytes of a text times the values that it is searched for: about 25 ms. */
const SEARCH_MAX = 16 * 1024 * 1024;

/** The beginning of an output, or of another text of the runtime, without the values. */
export function shownOutput(bytes: Uint8Array, values: readonly SecretHandle[], vault: Vault): string {
  const searched = Math.min(SEARCHED_MAX_BYTES, Math.floor(SEARCH_MAX / Math.max(1, values.length)));
  if (searched < OUTPUT_MAX_BYTES && bytes.length > searched)
    return `(${bytes.length} bytes of output, too many to be searched for the ${values.length} values of the variables)`;
  return cut(redacted(textWithin(bytes, searched), values, vault));
}

/** The message in the status of a container, truncated and without the values. A full vault forgets the oldest ones. */
function shownMessage(message: string, values: readonly SecretHandle[], vault: Vault): string {
  try {
    return shownOutput(Buffer.from(message.slice(0, SEARCHED_MAX_BYTES)), values, vault);
  } catch (error) {
    if (codeOf(error) === 'SECRET_NOT_HELD') return REDACTED_MESSAGE;
    throw error;
  }
}

export const redacted = (message: string, handles: readonly SecretHandle[], vault: Vault): string =>
  handles.reduce((text, handle) => withoutText(text, vault.open(handle), handle.$secret), message);

/**
 * Removes a value from a text, as plain text and in the forms in which Go and JSON quote it: a runtime quotes a command
 * that it could not run.
 */
function withoutText(text: string, value: string, shown: string): string {
  if (value.length < REDACTED_MIN_LENGTH || value.length > text.length) return text;
  const forms = new Set([value, ...[quote(value), JSON.stringify(value), goJson(value)].map(unquoted)]);
  return [...forms].reduce((rest, form) => rest.replaceAll(form, () => shown), text);
}

const unquoted = (quoted: string): string => quoted.slice(1, -1);

/** The login behind a handle. */
export const authOf = (json: string): AuthConfig => JSON.parse(json);

const WITHHELD = '<withheld>';

/** A registry may quote its input in a rejection: the password, or the basic authentication header. */
export async function withoutLogin<T>(call: Promise<T>, { username = '', password = '' }: AuthConfig): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw withoutTexts(error, [Buffer.from(`${username}:${password}`).toString('base64'), password]);
  }
}

/** The text in place of an output that may have values that an earlier agent gave the container. */
export const WITHHELD_OUTPUT =
  '(output withheld: it may have the value of a Secret that an earlier agent gave the container)';
/** The limit of containers of earlier agents for which `areUnknown` is cached; above it the cache is cleared. */
const CHECKED_MAX = 10_000;

/** The secrets of created containers, for as long as statuses may quote them. */
export class ContainerSecrets {
  readonly #checked = new Map<string, boolean>();
  readonly #byContainer = new Map<string, { readonly sandbox: string; readonly secrets: readonly SecretHandle[] }>();

  remember(container: string, sandbox: string, secrets: readonly SecretHandle[]): void {
    if (secrets.length > 0) this.#byContainer.set(container, { sandbox, secrets });
  }

  of(container: string): readonly SecretHandle[] | undefined {
    return this.#byContainer.get(container)?.secrets;
  }

  /** Whether an earlier agent may have given the container values. The container's status is read once. */
  async areUnknown(container: string, readStatus: () => Promise<ContainerStatus | undefined>): Promise<boolean> {
    if (this.#byContainer.has(container)) return false;
    const checked = this.#checked.get(container);
    if (checked !== undefined) return checked;
    const status = await readStatus().catch(() => undefined);
    if (status === undefined) return true;
    const areUnknown = await mayHoldSecrets(status);
    if (this.#checked.size >= CHECKED_MAX) this.#checked.clear();
    this.#checked.set(container, areUnknown);
    return areUnknown;
  }

  /** Forgets a container, or the containers of a sandbox, which are removed with it. */
  forget(id: string): void {
    this.#checked.delete(id);
    for (const [container, { sandbox }] of this.#byContainer) {
      if (container === id || sandbox === id) this.#byContainer.delete(container);
    }
  }
}

/** The values that a container was created with; absent: none, or another agent created it. */
type SecretsOf = (containerId: string) => readonly SecretHandle[] | undefined;

/**
 * The same event without the values. If it is unknown which values a message may quote, the status is left out; the
 * container is then inspected, which checks whether it was given any.
 */
function redactedEvent(event: ContainerEventResponse, secretsOf: SecretsOf, vault: Vault): ContainerEventResponse {
  if (event.containers_statuses.every(({ message }) => message === '')) return event;
  const statuses = event.containers_statuses.flatMap((status) => {
    if (status.message === '') return [status];
    const handles = secretsOf(status.id);
    return handles === undefined ? [] : [{ ...status, message: shownMessage(status.message, handles, vault) }];
  });
  return { ...event, containers_statuses: statuses };
}

/** A client whose container statuses reveal no value. */
export function redactingClient(client: RuntimeClient, secretsOf: SecretsOf, vault: Vault): RuntimeClient {
  const call = async (...request: Parameters<RuntimeClient['call']>) => {
    const response = await client.call(...request);
    if (request[0] !== 'ContainerStatus') return response;
    const { status } = response as { status?: ContainerStatus };
    if (!status?.message) return response;
    const handles = secretsOf(status.id);
    if (handles === undefined && !(await mayHoldSecrets(status))) return response;
    const message = handles === undefined ? REDACTED_MESSAGE : shownMessage(status.message, handles, vault);
    return { ...response, status: { ...status, message } };
  };
  const stream: RuntimeClient['stream'] = (name, request, onMessage, signal) => {
    if (name !== 'GetContainerEvents') return client.stream(name, request, onMessage, signal);
    const onEvent = onMessage as (event: ContainerEventResponse) => void;
    const send = (event: ContainerEventResponse) => onEvent(redactedEvent(event, secretsOf, vault));
    return client.stream('GetContainerEvents', {}, send, signal);
  };
  return { ...client, call, stream };
}
