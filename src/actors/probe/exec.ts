/**
 * An exec probe: a command in the container through the runtime; exit code 0 is success.
 *
 * Invariant: a command that takes too long or prints for ever costs a bounded time and a bounded output: the runtime
 * ends it, and what it printed is cut.
 */
import { OperationError } from '../../kernel/json.ts';
import { type Attempt, type AttemptOptions, errored, failure, OUTPUT_MAX_BYTES, success } from './attempt.ts';

/** `cri.execSync` of the runtime's adapter. */
export type ExecSync = (
  input: { readonly containerId: string; readonly command: readonly string[]; readonly timeoutSeconds: number },
  signal: AbortSignal,
) => Promise<{ readonly exitCode: number; readonly stdout: string; readonly stderr: string }>;

export async function probeExec(
  execSync: ExecSync,
  containerId: string,
  command: readonly string[],
  { timeoutSeconds, signal }: AttemptOptions,
): Promise<Attempt> {
  try {
    const { exitCode, stdout, stderr } = await execSync({ containerId, command, timeoutSeconds }, signal);
    const output = cut(stdout + stderr);
    return exitCode === 0 ? success(output) : failure(output);
  } catch (error) {
    const { code, message } = error instanceof OperationError ? error : { code: undefined, message: String(error) };
    if (code !== 'DEADLINE_EXCEEDED') return errored(message);
    return failure(`command timed out: ${JSON.stringify(command.join(' '))} timed out after ${timeoutSeconds}s`);
  }
}

/** A character that the limit cuts through is left out. */
function cut(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= OUTPUT_MAX_BYTES) return text;
  return bytes
    .subarray(0, OUTPUT_MAX_BYTES)
    .toString('utf8')
    .replace(/\uFFFD$/, '');
}
