/**
 * What a journal's header says of the code that wrote it, so that a replay can tell changed code from a changed world.
 */
import { createHash } from 'node:crypto';
import type { AnyStateMachine } from 'xstate';
import xstatePackage from 'xstate/package.json' with { type: 'json' };
import { machinesOf } from './atomic.ts';
import type { BuildInfo } from './records.ts';

/** `statelet` is the version of the program. */
export function buildInfo(root: AnyStateMachine, statelet: string): BuildInfo {
  const machines = [...machinesOf(root)].map(([id, machine]) => [id, definitionHash(machine)] as const);
  return {
    statelet,
    node: process.version,
    xstate: xstatePackage.version,
    machines: Object.fromEntries(machines.sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

const definitionHash = (machine: AnyStateMachine): string =>
  createHash('sha256').update(JSON.stringify(machine.config)).digest('hex');

/** Ids of the machines that differ between a log's build and this one. */
export function changedMachines(logged: BuildInfo, current: BuildInfo): string[] {
  const ids = new Set([...Object.keys(logged.machines), ...Object.keys(current.machines)]);
  return [...ids].filter((id) => logged.machines[id] !== current.machines[id]).sort();
}
