/**
 * The reports on a whole start: the use of its time, the critical chain to its goal, and the differences from another
 * start. The same as `statelet time`, `blame`, `critical-chain` and `diff` print.
 */

import type { DriverView, PhaseView } from '../../actors/server/visualizer/protocol.ts';
import { type Blame, blame } from '../../bin/insight/blame.ts';
import { type CriticalChain, criticalChain, type Goal, goalOf } from '../../bin/insight/critical-chain.ts';
import { type Comparison as Compared, compare } from '../../bin/insight/diff.ts';
import { type StartupTime, startupTime } from '../../bin/insight/startup-time.ts';
import { Story, type StorySource } from '../../bin/insight/story.ts';

export interface StartView {
  readonly time: StartupTime;
  readonly blame: Blame;
  /** The chains to the end of a failed start, or to its present wait, and to each goal: healthz, pods. */
  readonly chains: readonly CriticalChain[];
}

export interface SideView {
  readonly incarnation: string;
  readonly node: string;
  readonly started: number;
  readonly phases: readonly PhaseView[];
}

export interface Comparison extends Compared {
  readonly sides: { readonly a: SideView; readonly b: SideView };
}

export interface HealthView {
  readonly rows: readonly HealthRow[];
  /** Milliseconds of turns, newest last; absent: not measured. */
  readonly turnsMs?: readonly number[];
  readonly busiest: readonly { readonly name: string; readonly records: number }[];
  readonly drivers: readonly DriverView[];
}

export interface HealthRow {
  readonly name: string;
  readonly value: string;
  readonly isBad?: boolean;
}

/** Pods whose critical chain is shown. */
const CHAINS_MAX = 20;

export const startView = (source: StorySource): StartView => startViewOf(new Story(source));

export function startViewOf(story: Story): StartView {
  const pods = [...story.pods.values()].filter(({ running }) => running).slice(0, CHAINS_MAX);
  const targets = [...(story.healthz ? ['healthz'] : []), ...pods.map(({ uid }) => `pod/${uid}`)];
  const goals = targets.flatMap((target) => {
    const goal = goalOf(story, target);
    return typeof goal === 'string' ? [] : [goal];
  });
  const failure = story.failure ? [{ name: 'the start failed', n: story.failure.n }] : [];
  const chains = [...failure, ...waitOf(story), ...goals].map((goal) => criticalChain(story, goal));
  return { time: startupTime(story), blame: blame(story), chains };
}

/** The present wait of a start that is not over: the call without an answer, else the beginning of the wait. */
function waitOf({ failure, healthz, phases, operations }: Story): Goal[] {
  const waiting = phases.findLast(({ left, waitsFor }) => left === undefined && waitsFor !== undefined);
  if (failure || healthz || !waiting) return [];
  const call = [...operations.values()].find(
    ({ ended, class: cls, began }) => ended === undefined && cls !== 'stream' && began >= waiting.entered,
  );
  return [{ name: `the wait for ${waiting.waitsFor}`, n: call?.n ?? waiting.enteredBy }];
}

export function comparison(a: StorySource, b: StorySource): Comparison {
  const [one, other] = [new Story(a), new Story(b)];
  return { ...compare(one, other), sides: { a: sideOf(one), b: sideOf(other) } };
}

const sideOf = ({ header, started, phases }: Story): SideView => ({
  incarnation: header.incarnation,
  node: header.node,
  started,
  phases,
});
