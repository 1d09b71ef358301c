/** The build facts in a journal's header, which let a replay distinguish changed code from a changed environment. */
import { createHash } from 'node:crypto';
import { type AnyStateMachine, StateMachine } from 'xstate';
import xstatePackage from 'xstate/package.json' with { type: 'json' };
import type { BuildInfo } from './records.ts';
import { sourceHashes } from './source-hashes.ts';
import { machinesOf } from './steps.ts';

/** Describes the running program; `statelet` is its version. */
export function buildInfo(root: AnyStateMachine, statelet: string): BuildInfo {
  const hashes = sourceHashes();
  const machines = [...machinesOf(root)].map(([id, machine]) => [id, hashes[id] ?? definitionHash(machine)] as const);
  return {
    statelet,
    node: process.version,
    xstate: xstatePackage.version,
    machines: Object.fromEntries(machines.sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

/**
 * The hash of a machine that has no source hash: its configuration, guards, actions and delays, without the functions
 * that they call.
 */
function definitionHash({ config, implementations }: AnyStateMachine): string {
  const { actors, ...functions } = implementations;
  const definition = { config, functions, actors: Object.keys(actors) };
  return createHash('sha256').update(JSON.stringify(definition, written)).digest('hex');
}

/** Properties of XState's own action and guard creators, which are not part of a machine. */
const XSTATE_PROPERTIES: ReadonlySet<string> = new Set(['resolve', 'execute', 'check']);

/** A replacer for JSON: writes a function as its source text, with the arguments of the function that created it. */
function written(key: string, value: unknown): unknown {
  if (value instanceof StateMachine) return value.id;
  if (typeof value !== 'function') return value;
  const given = Object.entries(value).filter(([name]) => !XSTATE_PROPERTIES.has(name));
  return { key, source: String(value), ...Object.fromEntries(given) };
}

/** Ids of the machines that differ between the build of a log and this build. */
export function changedMachines(logged: BuildInfo, current: BuildInfo): string[] {
  const ids = new Set([...Object.keys(logged.machines), ...Object.keys(current.machines)]);
  return [...ids].filter((id) => logged.machines[id] !== current.machines[id]).sort();
}
