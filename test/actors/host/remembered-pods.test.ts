/** Pods remembered on disk: whole, for the owner alone, and never outside of their folder. */
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { loadPods, savePod } from '../../../src/actors/host/remembered-pods.ts';
import type { RememberedPod } from '../../../src/machines/operations/host.ts';

let directory: string;
beforeEach(() => {
  directory = join(mkdtempSync(join(tmpdir(), 'statelet-pods-')), 'pods');
});
afterEach(() => rmSync(join(directory, '..'), { recursive: true, force: true }));

const call = <Input>(input: Input) => ({
  id: 1,
  input,
  resume: false,
  signal: new AbortController().signal,
  emit: () => {},
});
const remembered: RememberedPod = { pod: { metadata: { name: 'web' } }, objects: { 'ConfigMap/default/c': null } };
const save = (uid: string, pod: RememberedPod | null) => savePod(call({ directory, uid, remembered: pod }));
const load = async () => (await loadPods(call({ directory }))).pods;

describe('pods that are remembered', () => {
  it('are read as they were written, by their owner alone', async () => {
    await save('u1', remembered);
    await save('u2', remembered);
    expect(await load()).toEqual([remembered, remembered]);
    expect(statSync(join(directory, 'u1.json')).mode & 0o777).toBe(0o600);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
  });

  it('are forgotten, also twice', async () => {
    await save('u1', remembered);
    await save('u1', null);
    await save('u1', null);
    expect(await load()).toEqual([]);
    expect(readdirSync(directory)).toEqual([]);
  });

  it('are none where there is no folder', async () => {
    expect(await load()).toEqual([]);
  });

  it('are what can be read; damage costs nothing else', async () => {
    await save('u1', remembered);
    writeFileSync(join(directory, 'a.json'), '{"pod":');
    writeFileSync(join(directory, 'b.json'), '7');
    writeFileSync(join(directory, 'c.json'), 'null');
    writeFileSync(join(directory, 'u3.json.tmp'), 'half');
    expect(await load()).toEqual([remembered]);
  });

  it.each(['../x', '', '.', 'a/b', 'x'.repeat(200)])('have uids, and %j is none', async (uid) => {
    await expect(save(uid, remembered)).rejects.toThrow('is no uid of a pod');
  });
});
