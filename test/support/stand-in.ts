/** Programs that replace those of the system. */
import { execFileSync } from 'node:child_process';

/**
 * Writes a program. A separate process writes it, because a file that this process has open for writing cannot be run,
 * and children that start meanwhile inherit the open file.
 */
export function writeProgram(path: string, script: string): void {
  execFileSync('sh', ['-c', 'cat > "$0" && chmod 755 "$0"', path], { input: script });
}
