/** The first argument decides which code is loaded: the daemon loads only a kubelet's parser. */

import { WORKER_VERBS, worker } from './worker.ts';

/** The verbs with the command line of a kubelet. */
const DAEMON_VERBS: readonly string[] = ['run', 'run-once', 'config'];

export async function main(argv: readonly string[]): Promise<number> {
  const [verb, ...rest] = argv;
  if (verb === 'help' && DAEMON_VERBS.includes(rest[0] ?? '')) return main([...rest, '--help']);
  if (verb === 'run') return (await import('./run.ts')).run(rest);
  if (verb === 'run-once') return (await import('./run.ts')).runOnce(rest);
  if (verb === 'config') return (await import('./config.ts')).configCommand(rest);
  if (verb === WORKER_VERBS.replay) return worker((await import('../replay/outcome.ts')).replayLog);
  if (verb === WORKER_VERBS.simulate) return worker((await import('../run-seed.ts')).runSeed);
  return (await import('./verbs.ts')).callVerb(argv);
}
