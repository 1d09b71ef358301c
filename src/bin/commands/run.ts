/** `statelet run`: the arguments of a kubelet, and a daemon that runs until a signal. */
import { runDaemon } from '../daemon.ts';
import { prepareRun, STATELET_FLAGS_HELP } from '../prepared-run.ts';
import { endSoon } from '../process-end.ts';

export async function run(given: readonly string[]): Promise<number> {
  const prepared = await prepareRun(given, STATELET_FLAGS_HELP);
  return 'exitCode' in prepared ? prepared.exitCode : endSoon(await runDaemon(prepared.options));
}
