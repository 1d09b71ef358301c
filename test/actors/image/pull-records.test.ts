/** The records of pulls on disk: in upstream's format, without secrets, never incomplete. */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { PulledCredentials } from '../../../src/machines/model/operations/image.ts';
import { perform } from '../../support/host-ports.ts';
import { credentialsIn } from './support.ts';

async function records() {
  const context = await credentialsIn();
  const { root, ports, vault } = context;
  const by = (name: string, hash: string): PulledCredentials => ({
    nodePodsAccessible: false,
    secrets: [{ namespace: 'ns', name, uid: 'u', hash: vault.seal(hash) }],
  });
  const pulled = (credentials: PulledCredentials | null, imageRef = 'sha256:1', image = 'a.io/x:1') =>
    perform(ports['images.recordPulled'], { root, image, imageRef, repository: 'a.io/x', credentials });
  const read = (imageRef = 'sha256:1', image = 'a.io/x:1') =>
    perform(ports['images.pullRecord'], { root, image, imageRef });
  const files = (folder: string) => readdirSync(join(root, 'image_manager', folder));
  const content = () => {
    const name = files('pulled')[0] ?? '';
    return JSON.parse(readFileSync(join(root, 'image_manager/pulled', name), 'utf8'));
  };
  return { ...context, by, pulled, read, files, content };
}

it('keeps the intent until the pull has ended', async () => {
  const { root, ports, read, pulled, files } = await records();
  expect(await read()).toEqual({ intended: false, record: null });
  await perform(ports['images.recordIntent'], { root, image: 'a.io/x:1' });
  expect(await read()).toEqual({ intended: true, record: null });
  expect(await perform(ports['images.listIntents'], { root })).toEqual({ images: ['a.io/x:1'] });
  await pulled({ nodePodsAccessible: true, secrets: [] });
  expect(await read()).toEqual({
    intended: false,
    record: { 'a.io/x': { nodePodsAccessible: true, secrets: [] } },
  });
  expect(files('pulling')).toEqual([]);
  await perform(ports['images.recordIntent'], { root, image: 'a.io/y:1' });
  await perform(ports['images.forgetIntent'], { root, image: 'a.io/y:1' });
  expect(files('pulling')).toEqual([]);
});

it('writes what upstream writes, for the owner alone, and tells hashes as handles', async () => {
  const { root, by, pulled, read, files, content, vault } = await records();
  await pulled(by('one', 'h1'));
  expect(content()).toEqual({
    kind: 'ImagePulledRecord',
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    lastUpdatedTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
    imageRef: 'sha256:1',
    credentialMapping: {
      'a.io/x': { kubernetesSecrets: [{ uid: 'u', namespace: 'ns', name: 'one', credentialHash: 'h1' }] },
    },
  });
  const file = join(root, 'image_manager/pulled', files('pulled')[0] ?? '');
  expect(file).toMatch(/sha256-[0-9a-f]{64}$/);
  expect([statSync(file).mode & 0o777, statSync(join(file, '..')).mode & 0o777]).toEqual([0o600, 0o700]);
  const { record } = await read();
  expect(record?.['a.io/x']?.secrets[0]?.hash).toEqual(vault.seal('h1'));
});

it('adds tenants, replaces a changed hash, and lets access for all win', async () => {
  const { by, pulled, content } = await records();
  await Promise.all([pulled(by('two', 'h2')), pulled(by('one', 'h1')), pulled(by('two', 'h3')), pulled(null)]);
  const hashes = () =>
    content().credentialMapping['a.io/x'].kubernetesSecrets?.map((each: Record<string, string>) => [
      each['name'],
      each['credentialHash'],
    ]);
  expect(hashes()).toEqual([
    ['one', 'h1'],
    ['two', 'h3'],
  ]);
  await pulled({ nodePodsAccessible: true, secrets: [] });
  await pulled(by('one', 'h9'));
  expect(content().credentialMapping).toEqual({ 'a.io/x': { nodePodsAccessible: true } });
});

it('does not write what is known already', async () => {
  const { root, by, pulled, files } = await records();
  await pulled(by('one', 'h1'));
  const file = join(root, 'image_manager/pulled', files('pulled')[0] ?? '');
  const before = statSync(file, { bigint: true }).mtimeNs;
  await pulled(by('one', 'h1'));
  expect(statSync(file, { bigint: true }).mtimeNs).toBe(before);
});

it('drops the records of images that are gone, but not of those that were just pulled', async () => {
  const { root, ports, pulled, read } = await records();
  const open = { nodePodsAccessible: true, secrets: [] };
  await pulled(open, 'sha256:1');
  await pulled(open, 'sha256:2');
  const prune = (untilMs: number) => perform(ports['images.pruneRecords'], { root, keep: ['sha256:1'], untilMs });
  await prune(Date.now() - 60_000);
  expect((await read('sha256:2')).record).toEqual({
    'a.io/x': { nodePodsAccessible: true, secrets: [] },
  });
  await prune(Date.now() + 60_000);
  expect((await read('sha256:2')).record).toBeNull();
  expect((await read('sha256:1')).record).toEqual({
    'a.io/x': { nodePodsAccessible: true, secrets: [] },
  });
});

it('lists and prunes what can be read without what cannot, which stays', async () => {
  const { root, ports, pulled, files } = await records();
  await perform(ports['images.recordIntent'], { root, image: 'a.io/y:1' });
  writeFileSync(join(root, 'image_manager/pulling/sha256-0'), '{');
  const { images, unread = [] } = await perform(ports['images.listIntents'], { root });
  expect([images, unread.length]).toEqual([['a.io/y:1'], 1]);
  await pulled({ nodePodsAccessible: true, secrets: [] });
  writeFileSync(join(root, 'image_manager/pulled/sha256-0'), '{');
  await perform(ports['images.pruneRecords'], { root, keep: [], untilMs: Date.now() + 60_000 });
  expect(files('pulled')).toEqual(['sha256-0']);
});

it('reads a record of an older kubelet, and fails on a damaged one', async () => {
  const { root, pulled, read, files } = await records();
  await pulled({ nodePodsAccessible: true, secrets: [] });
  const file = join(root, 'image_manager/pulled', files('pulled')[0] ?? '');
  writeFileSync(file, readFileSync(file, 'utf8').replace('v1beta1', 'v1alpha1'));
  expect((await read()).record).toEqual({ 'a.io/x': { nodePodsAccessible: true, secrets: [] } });
  writeFileSync(file, '{"kind":');
  await expect(read()).rejects.toThrow();
  await pulled({ nodePodsAccessible: true, secrets: [] });
  expect((await read()).record).toEqual({ 'a.io/x': { nodePodsAccessible: true, secrets: [] } });
});

it('remembers service accounts beside secrets, each once', async () => {
  const { pulled, read, content } = await records();
  const account = (name: string) => ({ namespace: 'ns', name, uid: `uid-${name}` });
  const byAccount = (...names: string[]) => ({ nodePodsAccessible: false, secrets: [], accounts: names.map(account) });
  await pulled(byAccount('b'));
  expect(content().credentialMapping).toEqual({ 'a.io/x': { kubernetesServiceAccounts: [account('b')] } });
  await pulled(byAccount('a', 'b'));
  expect(content().credentialMapping['a.io/x']).toEqual({ kubernetesServiceAccounts: [account('a'), account('b')] });
  expect(await read()).toEqual({ intended: false, record: { 'a.io/x': byAccount('a', 'b') } });
});
