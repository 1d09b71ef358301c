/** Every status that the recorded kubelet published, derived again from the recorded facts. */
import { afterAll, describe, expect, it } from 'vitest';
import { isForeignCondition } from '../../../../../src/machines/model/status/conditions.ts';
import { podStatus } from '../../../../../src/machines/model/status/pod-status.ts';
import { type Recorded, type Recording, recordings, type StatusLine } from '../../../model/spec/recordings.ts';
import { excuses } from './excuses.ts';
import { factsOf, normal, replay } from './replay.ts';

const figures = { equal: 0, excused: 0, skipped: 0 };
afterAll(() => {
  const { equal, excused, skipped } = figures;
  console.info(`statuses: ${equal} equal, ${excused} not reproduced (excuses.ts), ${skipped} repeated`);
});

/** The status that the API server itself writes when an object is created. */
const isInitial = ({ status }: StatusLine): boolean => status.startTime === undefined;

/** The kubelet's own part: conditions of others, which a user patched in, are left out. */
function own(status: Recorded): string {
  const conditions = status.conditions?.filter((condition: Recorded) => !isForeignCondition(condition));
  return JSON.stringify(normal({ ...status, conditions }));
}

function objects(recording: Recording): ReadonlyArray<readonly [uid: string, lines: readonly StatusLine[]]> {
  const byUid = new Map<string, StatusLine[]>();
  const created = new Map<string, number>();
  for (const line of recording.statuses) {
    if (line.event === 'ADDED') created.set(line.pod, (created.get(line.pod) ?? 0) + 1);
    const nth = created.get(line.pod) ?? 1;
    const isStatic = !recording.uids.includes(`<uid:${line.pod}>`);
    const uid = isStatic ? (nth === 1 ? '<uid:static>' : '<uid:static:2>') : `<uid:${line.pod}>`;
    byUid.set(uid, [...(byUid.get(uid) ?? []), line]);
  }
  return [...byUid].map(([uid, lines]) => [uid, lines.filter((line) => !isInitial(line))] as const);
}

const NOTHING_YET = { stage: 'sync', sandbox: 'none', order: 'none' } as const;

/** As long as there is no cgroup to read them from, a pod's resources are those of its spec. */
it.each(recordings)('recording $name sums the resources of its pods', (recording) => {
  for (const [uid, lines] of objects(recording)) {
    const first = lines.find(({ status }) => status.resources !== undefined);
    if (first === undefined) continue;
    expect(podStatus(factsOf(recording, uid, first, NOTHING_YET)).resources).toEqual(first.status.resources);
  }
});

describe.each(recordings)('recording $name', (recording) => {
  it.each(objects(recording))('says the same of %s', (uid, lines) => {
    const distinct = lines.filter((line, index) => index === 0 || own(line.status) !== own(lines[index - 1]?.status));
    figures.skipped += lines.length - distinct.length;
    const { equal, differences, unstable } = replay(recording, uid, distinct);
    expect(unstable, 'the same facts again').toEqual([]);
    figures.equal += equal;
    figures.excused += differences.length;
    const excuse = excuses[`${recording.name} ${uid}`];
    const [first] = excuse === undefined ? differences : [];
    expect(first?.nearest, `${first?.line.event} at ${first?.line.at} ms`).toEqual(first?.expected);
    expect(differences.length, excuse?.reason).toBe(excuse?.statuses ?? 0);
    expect(differences.at(-1)?.line, 'the last status has no excuse').not.toBe(distinct.at(-1));
  });
});
