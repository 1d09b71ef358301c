/** Runs a system program in place of an unavailable system call. */
import { execFile } from 'node:child_process';
import { OperationError } from '../../kernel/json.ts';

/** These programs do one system call; beyond this time they hang. */
const COMMAND_TIMEOUT_MS = 5_000;

/** Resolves when the program succeeded; otherwise fails with its output. */
export function runCommand(file: string, args: readonly string[], environment?: NodeJS.ProcessEnv): Promise<void> {
  return new Promise((resolve, reject) => {
    const options = { timeout: COMMAND_TIMEOUT_MS, ...(environment ? { env: environment } : {}) };
    execFile(file, [...args], options, (error, _stdout, stderr) => {
      if (!error) return resolve();
      const output = stderr.trim() || error.message;
      reject(new OperationError(`${file}: ${output}`, { code: String(error.code ?? 'EUNKNOWN') }));
    });
  });
}
