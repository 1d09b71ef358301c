/** The result of one attempt of a probe, and the exec and TCP probes. Texts are those of the Go kubelet's events. */
import { createConnection } from 'node:net';
import { OperationError } from '../../kernel/json.ts';
import { goDuration } from '../../machines/model/values/time.ts';
import { dialText, hostPort } from '../go-errors.ts';
import { limitMs } from '../pause.ts';

export interface Attempt {
  /** `errored`: the attempt was not possible, or its answer was unreadable; it does not count towards a verdict. */
  readonly result: 'success' | 'warning' | 'failure' | 'errored';
  readonly output: string;
  /** The state that an errored attempt resulted in, if it is known. */
  readonly state?: 'failure';
}

/**
 * The limit of an answer that is read and reported, of an error that quotes an answer, and of each output of a command.
 */
export const OUTPUT_MAX_BYTES = 10 * 1024;

export const success = (output: string): Attempt => ({ result: 'success', output: cut(output) });
export const failure = (output: string): Attempt => ({ result: 'failure', output: cut(output) });
export const errored = (output: string): Attempt => ({ result: 'errored', output: cut(output) });
/** An attempt whose server answered, though not to the end. */
export const brokenOff = (output: string): Attempt => ({ ...errored(output), state: 'failure' });

export function cut(text: string): string {
  const bytes = Buffer.from(text.slice(0, OUTPUT_MAX_BYTES + 1));
  return bytes.length <= OUTPUT_MAX_BYTES ? text : textWithin(bytes, OUTPUT_MAX_BYTES);
}

/** The first bytes as text. Bytes that are not UTF-8 become U+FFFD; a character cut by the limit is left out. */
export const textWithin = (bytes: Uint8Array, limit: number): string =>
  new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes.subarray(0, limit), { stream: bytes.length > limit });

/** A timeout as Go writes it: `1m30s`. */
export const goSeconds = (seconds: number): string => goDuration(seconds * 1_000);

export interface AttemptOptions {
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal;
}

export interface ExecProbe {
  readonly containerId: string;
  readonly command: readonly string[];
  /** The command as quoted in reports. */
  readonly shown: readonly string[];
}

/** `cri.execSync` of the runtime's adapter. */
export type ExecSync = (
  input: { readonly containerId: string; readonly command: readonly string[]; readonly timeoutSeconds: number },
  signal: AbortSignal,
) => Promise<{ readonly exitCode: number; readonly stdout: string; readonly stderr: string }>;

/**
 * An exec probe: a command in the container through the runtime; exit code 0 is success.
 *
 * Invariant: time and output of a command are bounded: the runtime ends it, and its output is truncated.
 */
export async function probeExec(
  execSync: ExecSync,
  { containerId, command, shown }: ExecProbe,
  { timeoutSeconds, signal }: AttemptOptions,
): Promise<Attempt> {
  try {
    const { exitCode, stdout, stderr } = await execSync({ containerId, command, timeoutSeconds }, signal);
    const output = stdout + stderr;
    return exitCode === 0 ? success(output) : failure(output);
  } catch (error) {
    const { code, message } = error instanceof OperationError ? error : { code: undefined, message: String(error) };
    if (code !== 'DEADLINE_EXCEEDED') return errored(message);
    return failure(
      `command timed out: ${JSON.stringify(shown.join(' '))} timed out after ${goSeconds(timeoutSeconds)}`,
    );
  }
}

/** A TCP probe: an accepted connection is a success. Nothing is sent. */
export function probeTcp(host: string, port: number, { timeoutSeconds, signal }: AttemptOptions): Promise<Attempt> {
  const address = hostPort(host, port);
  return new Promise((resolve) => {
    const socket = createConnection({ host, port, signal });
    const end = (attempt: Attempt): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(attempt);
    };
    const late = () => end(failure(`dial tcp ${address}: i/o timeout`));
    const timer = setTimeout(late, limitMs(timeoutSeconds * 1_000));
    socket.once('connect', () => end(success('')));
    socket.once('error', (error) => end(failure(dialText(address, error))));
  });
}
