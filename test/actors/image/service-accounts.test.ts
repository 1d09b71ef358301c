/** Plugins that get tokens of a pod's service account: their requests, over the protocol of a real API server. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ServiceAccounts } from '../../../src/actors/image/service-accounts.ts';
import { type ApiServer, startApiServer } from '../../fakes/api-server/index.ts';
import { perform } from '../../support/host-ports.ts';
import { bench, settings } from '../kube/support.ts';
import { API, credentialsIn, plugin, response, writeProviders } from './support.ts';

const HOUR_MS = 3_600_000;
const AUDIENCE = 'registry.example.com';
const READS = 'cat >> $FOLDER/asked';
const ANSWER = response({ 'a.io': { username: 'u', password: 'p' } });

let server: ApiServer;
let kube: ReturnType<typeof bench>;

beforeEach(async () => {
  server = await startApiServer();
  kube = bench();
  await kube.ask('kube.connect', settings(await server.kubeconfig('system:node:n1')));
  for (const name of ['builder', 'other']) {
    const annotations = { 'example.com/role': `role-of-${name}`, 'example.com/more': 'yes', 'example.com/own': 'no' };
    server.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, annotations } });
  }
});
afterEach(async () => {
  await kube.connection.close();
  await server.close();
});

function pod(name: string, serviceAccount = 'builder') {
  const spec = { nodeName: 'n1', serviceAccountName: serviceAccount, containers: [{ name: 'c', image: 'a.io/x' }] };
  const { metadata } = server.create({ apiVersion: 'v1', kind: 'Pod', metadata: { name }, spec });
  return { namespace: 'default', name, uid: metadata.uid, serviceAccount };
}

async function withPlugin(script: string, attributes: object = {}) {
  const time = { ms: Date.now() };
  const accounts = new ServiceAccounts(kube.connection, () => time.ms);
  const context = await credentialsIn({ accounts, now: () => time.ms });
  const { folder, binDir, ports, vault } = context;
  plugin(binDir, 'p', script.replaceAll('$FOLDER', folder));
  const tokenAttributes = {
    serviceAccountTokenAudience: AUDIENCE,
    requireServiceAccount: true,
    cacheType: 'ServiceAccount',
    ...attributes,
  };
  const base = { name: 'p', apiVersion: API, matchImages: ['*.io'], defaultCacheDuration: '1h' };
  const config = writeProviders(folder, [{ ...base, tokenAttributes }]);
  const registered = await perform(ports['images.registerProviders'], { config, binDir, tokens: true });
  const asked = () => {
    const file = join(folder, 'asked');
    return existsSync(file)
      ? readFileSync(file, 'utf8')
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line))
      : [];
  };
  return { ...context, asked, time, registered, vault };
}

const tokenRequests = () => server.requests.filter(({ path }) => path.endsWith('/token'));

describe('a plugin with tokenAttributes', () => {
  it('is given a token for its audience, bound to the pod, and the annotations that it names', async () => {
    const keys = {
      requiredServiceAccountAnnotationKeys: ['example.com/role'],
      optionalServiceAccountAnnotationKeys: ['example.com/more', 'example.com/absent'],
    };
    const { lookup, asked, registered } = await withPlugin(`${READS}; echo '${ANSWER}'`, keys);
    expect(registered).toEqual({ usesAccounts: true });
    const web = pod('web');
    expect(await lookup('a.io/x', [], web)).toEqual(['u:p of default/builder']);
    const [request] = asked();
    expect(request).toEqual({
      kind: 'CredentialProviderRequest',
      apiVersion: API,
      image: 'a.io/x',
      serviceAccountToken: expect.any(String),
      serviceAccountAnnotations: { 'example.com/role': 'role-of-builder', 'example.com/more': 'yes' },
    });
    expect(server.users.tokenUser(request.serviceAccountToken, ['elsewhere'])).toBeUndefined();
    expect(server.users.tokenUser(request.serviceAccountToken, [AUDIENCE])).toMatchObject({
      name: 'system:serviceaccount:default:builder',
      extra: { 'authentication.kubernetes.io/pod-uid': [web.uid] },
    });
  });

  it('is asked once for all pods of an account, and again for another account', async () => {
    const { lookup, asked } = await withPlugin(`${READS}; echo '${ANSWER}'`);
    const [one, two, three] = [pod('one'), pod('two'), pod('three', 'other')];
    expect(await lookup('a.io/x', [], one)).toEqual(['u:p of default/builder']);
    expect(await lookup('a.io/x', [], two)).toEqual(['u:p of default/builder']);
    expect(asked()).toHaveLength(1);
    expect(await lookup('a.io/x', [], three)).toEqual(['u:p of default/other']);
    expect(asked()).toHaveLength(2);
  });

  it('whose answers last as long as a token is asked for each pod', async () => {
    const { lookup, asked } = await withPlugin(`${READS}; echo '${ANSWER}'`, { cacheType: 'Token' });
    const [one, two] = [pod('one'), pod('two')];
    for (const each of [one, two, one, two]) await lookup('a.io/x', [], each);
    expect(asked()).toHaveLength(2);
    expect(tokenRequests()).toHaveLength(2);
  });

  it('is asked again when the account has changed', async () => {
    const keys = { requiredServiceAccountAnnotationKeys: ['example.com/role'] };
    const { lookup, asked } = await withPlugin(`${READS}; echo '${ANSWER}'`, keys);
    const web = pod('web');
    await lookup('a.io/x', [], web);
    server.patch(
      { apiVersion: 'v1', resource: 'serviceaccounts', name: 'builder' },
      { metadata: { annotations: { 'example.com/role': 'another' } } },
    );
    await lookup('a.io/x', [], web);
    expect(asked().map((each) => each.serviceAccountAnnotations)).toEqual([
      { 'example.com/role': 'role-of-builder' },
      { 'example.com/role': 'another' },
    ]);
  });

  it('is not asked for an account that lacks a required annotation, without a word', async () => {
    const keys = { requiredServiceAccountAnnotationKeys: ['example.com/absent'] };
    const { lookup, asked, warnings } = await withPlugin(`${READS}; echo '${ANSWER}'`, keys);
    expect(await lookup('a.io/x', [], pod('web'))).toEqual([]);
    expect([asked(), tokenRequests(), warnings]).toEqual([[], [], []]);
  });

  it('may not give the token back as what is kept for its account', async () => {
    const echo = `token=$(sed 's/.*serviceAccountToken":"\\([^"]*\\)".*/\\1/'); echo '${ANSWER}' | sed "s/\\"p\\"/\\"$token\\"/"`;
    const refused = await withPlugin(echo);
    const web = pod('web');
    expect(await refused.lookup('a.io/x', [], web)).toEqual([]);
    expect(refused.warnings).toEqual([
      'Credential provider plugin returned the service account token as the password for image "a.io/x", ' +
        "which is not allowed when service account cache type is not set to 'Token'",
    ]);
    const taken = await withPlugin(echo, { cacheType: 'Token' });
    expect(await taken.lookup('a.io/x', [], web)).toEqual([expect.stringMatching(/^u:ey.* of default\/builder$/)]);
  });

  it('keeps a token until most of its life has passed, and uses it while there is no other', async () => {
    const { lookup, time } = await withPlugin(`echo '${ANSWER}'`);
    const web = pod('web');
    const find = () => lookup('a.io/x', [], web);
    await find();
    time.ms += 0.79 * HOUR_MS;
    await find();
    expect(tokenRequests()).toHaveLength(1);
    time.ms += 0.02 * HOUR_MS;
    server.faults.add({ path: /token$/, kind: 'status', code: 403, times: Number.POSITIVE_INFINITY });
    expect(await find()).toEqual(['u:p of default/builder']);
    server.faults.clear();
    await find();
    expect(tokenRequests().length).toBeGreaterThan(1);
  });

  it('gives nothing where the account or its token cannot be had, and that is said', async () => {
    const { lookup, warnings } = await withPlugin(`echo '${ANSWER}'`);
    const web = pod('web');
    // Another pod of this node still has the account, so the node may request its tokens.
    pod('stays');
    server.delete('v1', 'pods', 'web', 'default', 0);
    expect(await lookup('a.io/x', [], web)).toEqual([]);
    expect(await lookup('a.io/x', [], { ...web, serviceAccount: 'gone' })).toEqual([]);
    expect(warnings).toEqual([
      'Error getting service account token default/builder: pods "web" not found',
      'Failed to get service account default/gone: serviceaccounts "gone" is forbidden: User "system:node:n1" cannot get ' +
        'resource "serviceaccounts" in API group "" in the namespace "default": ' +
        "no relationship found between node 'n1' and this object",
    ]);
  });

  it.each([
    [true, []],
    [false, ['u:p']],
  ])('and requireServiceAccount %j, of a static pod', async (requireServiceAccount, expected) => {
    const { lookup, asked } = await withPlugin(`${READS}; echo '${ANSWER}'`, { requireServiceAccount });
    expect(await lookup('a.io/x', [], { ...pod('web'), serviceAccount: '' })).toEqual(expected);
    expect(asked().map((each) => Object.keys(each))).toEqual(expected.map(() => ['kind', 'apiVersion', 'image']));
  });
});

it('without the feature gate such a configuration is refused', async () => {
  const { folder, binDir, ports } = await credentialsIn();
  plugin(binDir, 'p', 'exit 1');
  const tokenAttributes = { serviceAccountTokenAudience: 'x', requireServiceAccount: true, cacheType: 'Token' };
  const base = { name: 'p', apiVersion: API, matchImages: ['*.io'], defaultCacheDuration: '1h' };
  const config = writeProviders(folder, [{ ...base, tokenAttributes }]);
  await expect(perform(ports['images.registerProviders'], { config, binDir, tokens: false })).rejects.toThrow(
    'failed to validate credential provider config: providers.tokenAttributes: Forbidden: tokenAttributes is not ' +
      'supported when KubeletServiceAccountTokenForCredentialProviders feature gate is disabled',
  );
});
