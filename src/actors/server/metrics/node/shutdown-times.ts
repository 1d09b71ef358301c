/**
 * When the last graceful shutdown of this node began and ended, by the file in which the shutdown manager keeps it: of
 * one before this agent began, too.
 */
import { readFile } from 'node:fs/promises';
import { isEnabled } from '../../../../machines/configuration/index.ts';
import type { ShutdownSettings } from '../../../../machines/model/settings/node-settings.ts';
import type { NodeView } from '../../node-view.ts';
import { type Family, gaugeOf, one } from '../family.ts';
import { MS_PER_SECOND } from '../projection.ts';

/** Zero for what has not been; also where the shutdown is not graceful, and where groups have no metrics. */
export async function shutdownTimes(view: NodeView): Promise<Family[]> {
  const [manager] = view.contexts<{ readonly settings: ShutdownSettings }>('kubelet/shutdown');
  const isCounted = isEnabled(view.configuration().featureGates, 'GracefulNodeShutdownBasedOnPodPriority');
  const { startTime, endTime } = manager && isCounted ? await stateIn(manager.settings.stateFile) : NONE;
  return [
    gaugeOf(
      'kubelet_graceful_shutdown_start_time_seconds',
      '[ALPHA] Last graceful shutdown start time since unix epoch in seconds',
      [one(secondsOf(startTime))],
    ),
    gaugeOf(
      'kubelet_graceful_shutdown_end_time_seconds',
      '[ALPHA] Last graceful shutdown end time since unix epoch in seconds',
      [one(secondsOf(endTime))],
    ),
  ];
}

interface State {
  readonly startTime?: unknown;
  readonly endTime?: unknown;
}

const NONE: State = {};

async function stateIn(file: string): Promise<State> {
  try {
    const state: unknown = JSON.parse(await readFile(file, 'utf8'));
    return typeof state === 'object' && state !== null ? state : NONE;
  } catch {
    return NONE;
  }
}

/** Go's zero time, in the year 1, is none. */
const secondsOf = (time: unknown): number =>
  typeof time === 'string' ? Math.max(0, Date.parse(time) || 0) / MS_PER_SECOND : 0;
