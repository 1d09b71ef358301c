/**
 * From the kernel's log to the processes that it killed for want of memory.
 *
 * Pure. Format of a record: the kernel's dev-kmsg (`priority,sequence,microseconds,flags;text`). Meaning of the lines
 * as in cAdvisor's oomparser: an episode begins with `invoked oom-killer:` and ends with the line of the victim.
 */

import type { OomKill } from '../../../machines/model/operations/host.ts';

export interface KernelRecord {
  readonly sequence: number;
  readonly text: string;
}

/** A line of the log; `null` for the fields that follow a record, and for what is none. */
export function parseRecord(line: string): KernelRecord | null {
  const found = /^\d+,(\d+),\d+,[^;]*;(.*)$/.exec(line);
  return found ? { sequence: Number(found[1]), text: found[2] ?? '' } : null;
}

const BEGIN = /invoked oom-killer:/;
/** Since Linux 5.0. */
const VERDICT = new RegExp(
  'oom-kill:constraint=([^,]*),nodemask=.*,cpuset=.*,mems_allowed=.*,(?:oom_memcg=([^,]*)|global_oom),' +
    'task_memcg=([^,]*),task=(.*),pid=(\\d+),uid=\\d+',
);
const LEGACY_CGROUPS = /Task in (\S*) killed as a result of limit of (\S*)/;
const LEGACY_VICTIM = /Killed process (\d+)(?:,.*)? \((.+)\)/;

/** Holds the kill whose lines are still coming. */
export class OomParser {
  #episode: OomKill | null = null;

  /** The kill that this line completes, or `null`. */
  next(text: string): OomKill | null {
    if (BEGIN.test(text)) {
      this.#episode = { processName: '', pid: 0, container: '/', victimContainer: '/', constraint: '' };
      return null;
    }
    if (this.#episode === null) return null;
    this.#episode = withCgroups(this.#episode, text);
    const kill = verdict(text) ?? legacyVictim(this.#episode, text);
    if (kill !== null) this.#episode = null;
    return kill;
  }
}

function verdict(text: string): OomKill | null {
  const found = VERDICT.exec(text);
  if (!found) return null;
  const [, constraint = '', victimContainer = '/', container = '', processName = '', pid] = found;
  return { processName, pid: Number(pid), container, victimContainer, constraint };
}

function withCgroups(episode: OomKill, text: string): OomKill {
  const found = LEGACY_CGROUPS.exec(text);
  return found ? { ...episode, container: found[1] || '/', victimContainer: found[2] || '/' } : episode;
}

function legacyVictim(episode: OomKill, text: string): OomKill | null {
  const found = LEGACY_VICTIM.exec(text);
  return found ? { ...episode, pid: Number(found[1]), processName: found[2] ?? '' } : null;
}
