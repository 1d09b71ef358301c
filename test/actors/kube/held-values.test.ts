/** Whose values are held while other pods and Secrets come and go, by what the API server says. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { documentIdOf, sealed } from '../../../src/actors/kube/decode.ts';
import { valueNames } from '../../../src/actors/pod-values.ts';
import { type SecretHandle, Vault } from '../../../src/kernel/journal/secrets.ts';
import type { KubeObject, WatchItem } from '../../../src/machines/model/operations/kube.ts';
import { type ApiServer, startApiServer } from '../../fakes/api-server/index.ts';
import { bench, pod, pods, settings } from './support.ts';

/** A vault that forgets what belongs to no object at once. */
const forgetful = () => new Vault(Buffer.alloc(32), { limits: { releasedBytes: 0, looseBytes: 0 } });

const withVariable = (name: string, value: string) =>
  pod(name, { containers: [{ name: 'app', image: 'busybox', env: [{ name: 'A', value }] }] });

const valueOf = (of: KubeObject, vault: Vault): string => vault.open({ $secret: valueNames(of)[0]!, len: 0 });

const FORGOTTEN = expect.objectContaining({ code: 'SECRET_NOT_HELD' });

let server: ApiServer;
let node: ReturnType<typeof bench>;
beforeEach(async () => {
  server = await startApiServer();
  node = bench(forgetful());
  await node.ask('kube.connect', settings(await server.kubeconfig()));
});
afterEach(async () => {
  await node.connection.close();
  await server.close();
});

interface Listed {
  readonly items: readonly KubeObject[];
  readonly resourceVersion: string;
}

describe('the values of a pod', () => {
  it('are held until its deletion is watched', async () => {
    server.create(withVariable('mine', 'own'));
    const { items, resourceVersion }: Listed = await node.ask('kube.list', pods());
    expect(valueOf(items[0]!, node.vault)).toBe('own');
    const end = new AbortController();
    const seen: string[] = [];
    const emit = ({ change }: WatchItem) => {
      seen.push(change);
      if (change === 'DELETED') end.abort();
    };
    const watched = node.ask('kube.watch', { ...pods(), resourceVersion }, { signal: end.signal, emit });
    server.create(withVariable('other', 'theirs'));
    await expect.poll(() => seen).toEqual(['ADDED']);
    expect(valueOf(items[0]!, node.vault)).toBe('own');
    server.delete('v1', 'pods', 'mine', 'default', 0);
    await watched;
    expect(() => valueOf(items[0]!, node.vault)).toThrow(FORGOTTEN);
  });

  it('are not held any more if a list lacks it', async () => {
    server.create(withVariable('mine', 'own'));
    const { items }: Listed = await node.ask('kube.list', pods());
    server.delete('v1', 'pods', 'mine', 'default', 0);
    server.create(withVariable('other', 'theirs'));
    const later: Listed = await node.ask('kube.list', pods());
    expect(() => valueOf(items[0]!, node.vault)).toThrow(FORGOTTEN);
    expect(valueOf(later.items[0]!, node.vault)).toBe('theirs');
  });

  it('are sealed once while its status changes', () => {
    const vault = forgetful();
    const metadata = { name: 'a', namespace: 'default', uid: 'u1' };
    const changed = (value: string, status: object) =>
      sealed(pods(), { ...withVariable('a', value), metadata, status } as KubeObject, vault);
    const [first, second, third] = [changed('1', {}), changed('1', { phase: 'Running' }), changed('2', {})];
    expect(second['spec']).toBe(first['spec']);
    expect(second['status']).toEqual({ phase: 'Running' });
    expect(valueOf(third, vault)).toBe('2');
    expect(() => valueOf(first, vault)).toThrow(FORGOTTEN);
  });

  it('that has ended are not held', () => {
    const vault = forgetful();
    const metadata = { name: 'a', namespace: 'default', uid: 'u1' };
    const ended = { ...withVariable('a', 'own'), metadata, status: { phase: 'Failed' } };
    expect(() => valueOf(sealed(pods(), ended, vault), vault)).toThrow(FORGOTTEN);
  });

  it('are held with its tokens, of which the newest counts', () => {
    const vault = forgetful();
    const target = { ...pods('default'), resource: 'serviceaccounts', subresource: 'token' };
    const issue = (token: string) => {
      const spec = { audiences: ['x'], boundObjectRef: { uid: 'u1' } };
      const status = { token, expirationTimestamp: '2026-11-28T12:00:00Z' };
      const answer = sealed(target, { metadata: { name: 'default' }, spec, status }, vault);
      return (answer['status'] as unknown as { token: SecretHandle }).token;
    };
    const [first, second] = [issue('first'), issue('second')];
    expect(() => vault.open(first)).toThrow(FORGOTTEN);
    expect(vault.open(second)).toBe('second');
    vault.release(documentIdOf(pods(), { metadata: { name: 'a', uid: 'u1' } })!);
    expect(() => vault.open(second)).toThrow(FORGOTTEN);
  });
});

it('the values of a Secret are held until nobody follows it', async () => {
  const secrets = { ...pods(), resource: 'secrets' };
  server.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 's' },
    data: { password: Buffer.from('hunter2').toString('base64') },
  });
  const fieldSelector = 'metadata.name=s';
  const { items, resourceVersion }: Listed = await node.ask('kube.list', { ...secrets, fieldSelector });
  const { password } = items[0]!['data'] as unknown as { password: { text: SecretHandle } };
  const end = new AbortController();
  const input = { ...secrets, fieldSelector, resourceVersion };
  const watched = node.ask('kube.watch', input, { signal: end.signal });
  await node.ask('kube.list', pods());
  expect(node.vault.open(password.text)).toBe('hunter2');
  end.abort();
  await watched;
  expect(() => node.vault.open(password.text)).toThrow(FORGOTTEN);
});
