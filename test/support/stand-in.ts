/** Programs that stand in for those of the system. */
import { execFileSync } from 'node:child_process';

/**
 * Writes a program. Another process writes it: a file that this one has open for writing, and with it every child that
 * begins meanwhile, cannot be run.
 */
export function writeProgram(path: string, script: string): void {
  execFileSync('sh', ['-c', 'cat > "$0" && chmod 755 "$0"', path], { input: script });
}
