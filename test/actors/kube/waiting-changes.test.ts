/** Changes that wait for decisions about earlier ones: proves C1 of `watch.ts`. */
import { expect, it } from 'vitest';
import { type Change, WaitingChanges } from '../../../src/actors/kube/watch.ts';
import type { JsonObject } from '../../../src/kernel/json.ts';
import type { KubeObject } from '../../../src/machines/model/operations/kube.ts';

const BYTES = 10;
const object = (uid: string, more: JsonObject = {}): KubeObject => ({
  metadata: { name: uid, namespace: 'ns', uid, ...more },
});
const ENDING = { deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 0 };

async function reported(...changes: readonly (readonly [Change, KubeObject])[]): Promise<string[]> {
  const seen: string[] = [];
  const waiting = new WaitingChanges((change, { metadata }) => {
    seen.push(`${change} ${metadata.name}${metadata['deletionTimestamp'] === undefined ? '' : ' ending'}`);
  });
  // The first change is reported at once; the others arrive during it.
  await Promise.all(
    [['ADDED', object('first')] as const, ...changes].map(([change, each]) => waiting.add(change, each, BYTES)),
  );
  await waiting.reported();
  return seen.slice(1);
}

it('of a known object, the state with the time of its deletion is reported before the deletion', async () => {
  const ends = [['MODIFIED', object('a', ENDING)] as const, ['DELETED', object('a', ENDING)] as const];
  expect(await reported(['MODIFIED', object('a')], ...ends)).toEqual(['MODIFIED a ending', 'DELETED a ending']);
});

it('of an object that begins and ends meanwhile, only the deletion is reported', async () => {
  expect(
    await reported(['ADDED', object('a')], ['MODIFIED', object('a', ENDING)], ['DELETED', object('a', ENDING)]),
  ).toEqual(['DELETED a ending']);
});

it('of an object that changes, the newest state is reported, and only its deletion if it is deleted without notice', async () => {
  const changes = [['MODIFIED', object('a')] as const, ['MODIFIED', object('a')] as const];
  expect(await reported(...changes)).toEqual(['MODIFIED a']);
  expect(await reported(...changes, ['DELETED', object('a')])).toEqual(['DELETED a']);
});
