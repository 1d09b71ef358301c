/** The recordings of the kubelet, played on a separate containerd: the requests and the last statuses must be equal. */
import { existsSync, readdirSync } from 'node:fs';
import pLimit from 'p-limit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { cgroupV1Available } from '../../support/cgroups.ts';
import { containerdAvailable, containerdMajor } from '../../support/containerd.ts';
import { isEmulated, patient } from '../../support/patience.ts';
import { registryAvailable } from '../../support/registry.ts';
import { requirement } from '../../support/require.ts';
import { isSelection, LEFT_OUT, PULLED, played } from './cases.ts';
import {
  type Difference,
  differences,
  liveRequests,
  liveStatuses,
  recordedRequests,
  recordedStatuses,
} from './compare.ts';
import { EXCUSES as ALL_EXCUSES, type Excuse, HURRIED } from './excused.ts';
import { GoldenNode, type Published } from './golden-node.ts';
import { Names } from './names.ts';
import { type Played, play } from './play.ts';

/** As many cases at a time as the recorder had. */
const AT_A_TIME = 10;
/** Cases that run alone: a few seconds from beginning to end may be too short beside nine other cases. */
const ALONE: ReadonlySet<string> = new Set(['active-deadline', ...HURRIED]);
/** It takes less than two minutes; a busy machine may need many times that. */
const LONGEST_MS = patient(1_800_000);

const { skip } = requirement('containerd', containerdAvailable());
const { skip: cannotPull } = requirement('registry', registryAvailable());
const cases = cannotPull ? played.filter(({ name }) => PULLED[name] === undefined) : played;
const HUGE_PAGES = '/sys/kernel/mm/hugepages';
const figures = { cases: 0, facts: 0, equal: 0 };

describe.skipIf(skip)('recordings on a live runtime', () => {
  const runs = new Map<string, Played>();
  const used = new Set<Excuse>();
  let excuses: readonly Excuse[];
  let golden: GoldenNode | undefined;
  let published: readonly Published[];
  beforeAll(async () => {
    const major = containerdMajor();
    const version = cgroupV1Available() === null ? 1 : 2;
    const pages = existsSync(HUGE_PAGES) ? readdirSync(HUGE_PAGES) : [];
    excuses = ALL_EXCUSES.filter(
      ({ containerd = major, cgroup = version, emulated = isEmulated, withoutPages = '' }) =>
        containerd === major && cgroup === version && emulated === isEmulated && !pages.includes(withoutPages),
    );
    const started = await GoldenNode.start();
    golden = started;
    const limit = pLimit(AT_A_TIME);
    // The longest case begins first, so that no single one runs alone at the end.
    const order = cases.toSorted((a, b) => lengthOf(b) - lengthOf(a));
    const run = async (recording: (typeof cases)[number]) =>
      void runs.set(recording.name, await play(started, recording));
    await Promise.all(order.filter(({ name }) => !ALONE.has(name)).map((recording) => limit(() => run(recording))));
    for (const recording of order.filter(({ name }) => ALONE.has(name))) await run(recording);
    published = started.published();
  }, LONGEST_MS);
  afterAll(async () => {
    await golden?.close();
    const { cases: passed, facts, equal } = figures;
    console.info(
      `live recordings: ${passed} of ${runs.size} cases pass; of ${facts} facts ${equal} are equal and ` +
        `${facts - equal} are but for excused differences (excused.ts); ${Object.keys(LEFT_OUT).length} cases left out`,
    );
  });

  it.each(cases)('$name', (recording) => {
    const run = runs.get(recording.name)!;
    expect(run.stuck).toEqual([]);
    const own = published.filter(({ namespace }) => namespace === recording.name);
    const names = new Names(golden!, recording, own);
    const recorded = { ...recordedRequests(recording), ...recordedStatuses(recording) };
    const live = { ...liveRequests(run, golden!.proxy.calls, names), ...liveStatuses(run, own, names) };
    const open = differences(recorded, live).filter((difference) => !isExcused(recording.name, difference));
    figures.facts += Object.keys(recorded).length;
    figures.equal += Object.keys(recorded).filter((key) => differences(recorded[key], live[key]).length === 0).length;
    expect(open).toEqual([]);
    figures.cases += 1;
  });

  function isExcused(name: string, { path, live }: Difference): boolean {
    const excuse = excuses.find(
      (each) =>
        (each.case === '*' || each.case === name) &&
        each.path.test(path) &&
        (each.live?.test(live === undefined ? 'undefined' : JSON.stringify(live)) ?? true),
    );
    if (excuse === undefined) return false;
    used.add(excuse);
    return true;
  }

  it.skipIf(isSelection)('has no excuse that nothing needs', () => {
    expect(excuses.filter((excuse) => !used.has(excuse) && excuse.racy !== true)).toEqual([]);
  });
});

const lengthOf = ({ steps }: (typeof played)[number]): number => steps.at(-1)?.at ?? 0;
