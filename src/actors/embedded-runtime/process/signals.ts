/** Signals by CRI's names (`SIGRTMINPLUS3`) and by the numbers that the kernel wants. */
import { constants } from 'node:os';
import type { Signal } from '../../../machines/model/api/cri.ts';

/** The C library keeps 32 and 33 for its threads. */
const FIRST_REALTIME = 34;
const LAST_REALTIME = 64;

/** `undefined` for a name that this machine does not know. */
export function signalNumber(signal: Signal): number | undefined {
  if (signal === 'RUNTIME_DEFAULT') return constants.signals.SIGTERM;
  if (signal === 'SIGCLD') return constants.signals.SIGCHLD;
  const realtime = /^SIGRT(MIN|MAX)(?:PLUS|MINUS)?(\d*)$/.exec(signal);
  if (realtime) {
    const offset = Number(realtime[2] ?? 0);
    return realtime[1] === 'MIN' ? FIRST_REALTIME + offset : LAST_REALTIME - offset;
  }
  return (constants.signals as Readonly<Record<string, number>>)[signal];
}
