/** What single containers hold, as `allocation` publishes it, and the checkpoint files of it. Pure. */

import type { ExclusiveCpus, MemoryBlocks } from '../operations/grants.ts';
import type { ResourceManagers } from '../settings/resource-managers.ts';
import { CPU_STATE_FILE, MEMORY_STATE_FILE, notRestored } from './checkpoint.ts';
import { cpuStateProblem, cpuStateText } from './cpu-state-file.ts';
import { memoryMismatch, memoryState, memoryStateProblem, memoryStateText } from './memory-state-file.ts';

/** By uid of a pod. */
export interface ResourcesHeld {
  readonly type: 'resources.held';
  readonly cpus: Readonly<Record<string, ExclusiveCpus>>;
  /** The CPUs of all others; empty where they are not kept apart. */
  readonly shared: string;
  readonly memory: Readonly<Record<string, MemoryBlocks>>;
}

export interface StateFileSettings {
  readonly rootDir: string;
  readonly cpuManagerPolicy: string;
  readonly memoryManagerPolicy: string;
  readonly managers: ResourceManagers;
}

export interface StateFile {
  readonly path: string;
  readonly content: string;
}

export const stateFilePaths = ({ rootDir }: Pick<StateFileSettings, 'rootDir'>): readonly string[] =>
  [CPU_STATE_FILE, MEMORY_STATE_FILE].map((name) => `${rootDir}/${name}`);

/** Why the files of an earlier start keep the node from starting, in upstream's words; empty when they do not. */
export function stateFilesProblem(settings: StateFileSettings, contents: readonly (string | null)[]): string {
  const { cpuManagerPolicy, memoryManagerPolicy, managers } = settings;
  const [cpuFile = '', memoryFile = ''] = stateFilePaths(settings);
  const [cpu, memory] = contents;
  const problem = cpu == null ? null : cpuStateProblem(cpu, cpuManagerPolicy, managers.cpuManager);
  if (problem !== null && problem.error !== '') {
    const error = problem.isOfMachine ? problem.error : notRestored('CPU', cpuFile, problem.error);
    return `start cpu manager error: ${error}`;
  }
  if (memory == null) return '';
  const unread = memoryStateProblem(memory, memoryManagerPolicy);
  if (unread !== '') return `start memory manager error: ${notRestored('memory', memoryFile, unread)}`;
  const mismatch = managers.memoryManager === undefined ? '' : memoryMismatch(memory, managers.memoryManager);
  return mismatch === '' ? '' : `start memory manager error: ${mismatch}`;
}

/** The files as they have to be now. */
export function stateFiles(settings: StateFileSettings, { cpus, shared, memory }: ResourcesHeld): readonly StateFile[] {
  const { cpuManagerPolicy, memoryManagerPolicy, managers } = settings;
  const contents = [
    cpuStateText({ policy: cpuManagerPolicy, shared, entries: cpus }),
    memoryStateText(memoryState(memoryManagerPolicy, managers.memoryManager, memory)),
  ];
  return stateFilePaths(settings).map((path, at) => ({ path, content: contents[at]! }));
}
