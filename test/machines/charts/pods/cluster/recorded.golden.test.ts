/**
 * The recorded kubelet's writes about pods to its API server, compared with this agent's writes in the same situation.
 *
 * Compared are every Event as a series (object, reason, type, message, field), every DELETE, every POST of other
 * objects, and the last status of each pod. The number of statuses before the last one depends on timing.
 */
import { afterAll, describe, expect, it } from 'vitest';
import { type Recorded, type Recording, recordings } from '../../../model/spec/recordings.ts';
import { normal } from '../status/replay.ts';
import { type Lived, live } from './recorded-case.ts';
import { excuses } from './recorded-excuses.ts';

const figures = { cases: 0, events: 0, requests: 0, statuses: 0, excused: 0, patches: 0, recordedPatches: 0 };
afterAll(() => {
  const { cases, events, requests, statuses, excused, patches, recordedPatches } = figures;
  console.info(
    `API requests: ${cases} recordings: ${events} series of events, ${requests} POST and DELETE, ${statuses} last ` +
      `statuses equal; ${excused} excused (recorded-excuses.ts); ` +
      `${patches} PATCH of statuses, recorded ${recordedPatches}`,
  );
});

const isEvent = ({ path }: Recorded): boolean => /events(\/|$)/.test(path);

/** Replaces names that differ in each run by the names in the recording. */
function mask(text: string, uids: ReadonlyMap<string, string> = new Map()): string {
  let masked = text;
  for (const [uid, name] of uids) masked = masked.replaceAll(uid, name);
  return masked
    .replaceAll(/<(uid|cid|sid|imageid|digest):[^>]*>|<(rv|dur|ip|rand|uuid)>/g, '*')
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '*')
    .replaceAll(/\b(5a|c0)\d{4}0{40,}/g, '*')
    .replaceAll(/\b10\.0\.0\.\d+\b/g, '*')
    .replaceAll(/[\d.]+m?s \([\d.]+m?s including waiting\)/g, '* (* including waiting)')
    .replaceAll(/used: (<n>|\d+)/g, 'used: *')
    .replaceAll(/Image size: \d+ bytes/g, 'Image size: * bytes');
}

const series = (event: Recorded, uids?: ReadonlyMap<string, string>): string =>
  mask(
    [event.involvedObject.name, event.involvedObject.fieldPath ?? '', event.type, event.reason, event.message].join(
      ' | ',
    ),
    uids,
  );

const recordedEvents = ({ writes }: Recording): Set<string> =>
  new Set(writes.filter((write) => isEvent(write) && write.method === 'POST').map(({ body }) => series(body)));

const ownEvents = ({ writes, uids }: Lived): Set<string> =>
  new Set(writes.filter((write) => isEvent(write) && write.verb === 'create').map(({ body }) => series(body, uids)));

const requestText = (verb: string, path: string, body: Recorded, uids?: ReadonlyMap<string, string>): string => {
  const { preconditions: _, ...rest } = body ?? {};
  return mask(`${verb} ${path} ${JSON.stringify(ordered(rest))}`, uids);
};

function ordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value)
    .filter(
      ([key, each]) => each !== undefined && !['kind', 'apiVersion', 'automountServiceAccountToken'].includes(key),
    )
    .map(([key, each]) => [key, key.endsWith('config.seen') ? '<time>' : ordered(each)] as const);
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** DELETEs of missing objects are left out: the watch had not reported the deletion yet. */
const recordedRequests = ({ writes }: Recording): string[] =>
  writes
    .filter((write) => !isEvent(write) && write.method !== 'PATCH' && write.code !== 404)
    .map(({ method, path, body }) => requestText(method, path.replace(/^\/api\/v1\/namespaces\//, ''), body))
    .toSorted();

const VERBS: Readonly<Record<string, string>> = { create: 'POST', delete: 'DELETE' };

const ownRequests = ({ writes, uids }: Lived): string[] =>
  writes
    .filter((write) => !isEvent(write) && VERBS[write.verb] !== undefined && write.error === undefined)
    .map(({ verb, path, body }) => requestText(VERBS[verb]!, path, body, uids))
    .toSorted();

/** The modelled runtime reports no users, and its images have other names. */
function comparable(status: Recorded, uids?: ReadonlyMap<string, string>): Recorded {
  const text = mask(JSON.stringify(normal(status)), uids)
    .replaceAll(/"imageID":"[^"]+"/g, '"imageID":"*"')
    .replaceAll(':latest"', '"');
  const plain: Recorded = JSON.parse(text);
  for (const list of ['containerStatuses', 'initContainerStatuses']) {
    for (const container of plain[list] ?? []) delete container.user;
  }
  return plain;
}

function lastStatuses({ statuses }: Recording): Map<string, Recorded> {
  const last = new Map<string, Recorded>();
  const nth = new Map<string, number>();
  for (const { pod, event, status } of statuses) {
    if (event === 'ADDED') nth.set(pod, (nth.get(pod) ?? 0) + 1);
    const count = nth.get(pod) ?? 1;
    last.set(count === 1 ? `<uid:${pod}>` : `<uid:${pod}:${count}>`, status);
  }
  return last;
}

const lives = recordings.map((recording) => [recording.name, recording] as const);

describe.each(lives)('recording %s', (name, recording) => {
  const excuse = excuses[name];
  if (excuse?.skip !== undefined) {
    it.skip(`is not lived through: ${excuse.skip}`, () => {});
    figures.excused += 1;
    return;
  }

  it('writes the same to the API server', () => {
    const lived = live(recording);
    expect(lived.crashes).toEqual([]);
    lived.node.assertReplays();
    figures.cases += 1;
    figures.patches += lived.writes.filter(({ verb, path }) => verb === 'patch' && path.endsWith('/status')).length;
    figures.recordedPatches += recording.writes.filter(
      ({ method, path }) => method === 'PATCH' && path.endsWith('/status'),
    ).length;
    const differences = [
      ...compareEvents(recording, lived),
      ...compareRequests(recording, lived),
      ...compareStatuses(recording, lived),
    ];
    const unexcused = differences.filter(
      (text) => !(excuse?.differences ?? []).some(({ text: pattern }) => pattern.test(text)),
    );
    figures.excused += differences.length - unexcused.length;
    expect(unexcused.join('\n')).toBe('');
    for (const { text, reason } of excuse?.differences ?? []) {
      expect(
        differences.some((each) => text.test(each)),
        `an excuse that is not needed: ${reason}`,
      ).toBe(true);
    }
  });
});

function compareEvents(recording: Recording, lived: Lived): string[] {
  const [wanted, own] = [recordedEvents(recording), ownEvents(lived)];
  figures.events += wanted.intersection(own).size;
  return [
    ...[...wanted.difference(own)].map((each) => `missing event ${each}`),
    ...[...own.difference(wanted)].map((each) => `more events ${each}`),
  ];
}

function compareRequests(recording: Recording, lived: Lived): string[] {
  const [wanted, own] = [recordedRequests(recording), ownRequests(lived)];
  const rest = [...own];
  const missing = wanted.filter((each) => {
    const at = rest.indexOf(each);
    if (at >= 0) rest.splice(at, 1);
    return at < 0;
  });
  figures.requests += wanted.length - missing.length;
  return [...missing.map((each) => `missing request ${each}`), ...rest.map((each) => `more requests ${each}`)];
}

function compareStatuses(recording: Recording, lived: Lived): string[] {
  const differences: string[] = [];
  for (const [uid, status] of lastStatuses(recording)) {
    const [wanted, own] = [comparable(status), comparable(lived.statuses.get(uid) ?? {}, lived.uids)];
    if (JSON.stringify(wanted) === JSON.stringify(own)) figures.statuses += 1;
    else differences.push(`status ${uid}: wanted ${JSON.stringify(wanted)}, is ${JSON.stringify(own)}`);
  }
  return differences;
}
