/** The first word decides which code is loaded: the daemon carries no parser but a kubelet's. */
import { becomeLean } from '../lean-process.ts';

export async function main(argv: readonly string[]): Promise<number> {
  const [verb, ...rest] = argv;
  if (verb === 'run') {
    becomeLean();
    return (await import('./run.ts')).run(rest);
  }
  if (verb === 'run-once') return (await import('./run-once.ts')).runOnce(rest);
  if (verb === 'config') return (await import('./config.ts')).configCommand(rest);
  return (await import('./verbs.ts')).callVerb(argv);
}
