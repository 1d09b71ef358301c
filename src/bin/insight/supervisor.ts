/**
 * The id and the phases of the supervisor's chart, for reports on a start. The bundle of the page contains these values
 * instead of this file, so that the page does not load the machines.
 */
import { type ChartNode, described, isNamed, type Phase } from '../../actors/server/visualizer/phases.ts';
import { kubeletMachine } from '../../machines/startup/kubelet.ts';

export const ROOT: string = kubeletMachine.id;

/** The phase of each state, by the state's path; null: the state is not one. */
export const PHASES: Readonly<Record<string, Phase | null>> = Object.fromEntries(phasesBelow(kubeletMachine.root, ''));

function phasesBelow(node: ChartNode, prefix: string): [string, Phase | null][] {
  return Object.entries(node.states).flatMap(([key, state]) => {
    const path = `${prefix}${key}`;
    return [
      [path, isNamed(state) ? described(state) : null] as [string, Phase | null],
      ...phasesBelow(state, `${path}.`),
    ];
  });
}
