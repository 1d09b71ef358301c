/**
 * What this product requires of an API server, checked on the test API server, and on a real kube-apiserver if there is
 * one (test/support/cluster.ts). All other tests may rely on what passes here on both.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../src/kernel/json.ts';
import type { KubeObject } from '../../src/machines/model/operations/kube.ts';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { eventually } from '../support/daemon.ts';
import { pod, Rest } from '../support/rest.ts';

let cluster: Cluster;
let rest: Rest;
beforeAll(async () => {
  cluster = await startCluster();
  rest = cluster.admin.rest;
});
afterAll(async () => {
  await cluster?.close();
});

const PODS = '/api/v1/namespaces/default/pods';
const NODES = '/api/v1/nodes';
const STRATEGIC = 'application/strategic-merge-patch+json';
const MERGE = 'application/merge-patch+json';
const JSON_PATCH = 'application/json-patch+json';
const version = (object: KubeObject): string => object.metadata.resourceVersion!;
/** Pods have a generation since 1.33. */
const generation = (value: number) => (cluster.minor >= 33 ? { generation: value } : {});

describe('discovery', () => {
  it('tells version, groups and resources', async () => {
    expect(await rest.get('/version')).toMatchObject({ gitVersion: expect.stringMatching(/^v\d+\.\d+\.\d+/) });
    expect(await rest.get('/api')).toMatchObject({ kind: 'APIVersions', versions: ['v1'] });
    const { groups } = (await rest.get('/apis')) as unknown as { groups: { name: string }[] };
    expect(groups.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['apps', 'coordination.k8s.io', 'certificates.k8s.io', 'node.k8s.io', 'storage.k8s.io']),
    );
    const { resources } = (await rest.get('/api/v1')) as unknown as { resources: { name: string; kind: string }[] };
    expect(resources).toEqual(
      expect.arrayContaining([expect.objectContaining({ name: 'pods', kind: 'Pod', namespaced: true })]),
    );
    expect(resources.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['pods/status', 'pods/binding', 'pods/eviction', 'serviceaccounts/token', 'nodes/status']),
    );
  });

  it('prints tables', async () => {
    await rest.post(PODS, pod('table'));
    const table = (await rest.get(`${PODS}/table`, {
      accept: 'application/json;as=Table;g=meta.k8s.io;v=v1',
    })) as unknown as {
      kind: string;
      columnDefinitions: { name: string }[];
      rows: { cells: unknown[] }[];
    };
    expect(table.kind).toBe('Table');
    expect(table.columnDefinitions.slice(0, 5).map(({ name }) => name)).toEqual([
      'Name',
      'Ready',
      'Status',
      'Restarts',
      'Age',
    ]);
    expect(table.rows[0]!.cells.slice(0, 3)).toEqual(['table', '0/1', 'Pending']);
  });
});

describe('writing', () => {
  it('fills in what a pod does not say', async () => {
    const created = await rest.post(PODS, pod('defaults'));
    expect(created).toMatchObject({
      metadata: { ...generation(1), uid: expect.any(String), creationTimestamp: expect.stringMatching(/Z$/) },
      spec: {
        restartPolicy: 'Always',
        dnsPolicy: 'ClusterFirst',
        terminationGracePeriodSeconds: 30,
        schedulerName: 'default-scheduler',
        enableServiceLinks: true,
        priority: 0,
        containers: [{ imagePullPolicy: 'Always', terminationMessagePath: '/dev/termination-log', resources: {} }],
        tolerations: [
          { key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 },
          { key: 'node.kubernetes.io/unreachable', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 },
        ],
      },
      status: { phase: 'Pending', qosClass: 'BestEffort' },
    });
  });

  it('makes names up', async () => {
    const created = await rest.post(PODS, { ...pod(''), metadata: { generateName: 'made-' } });
    expect(created.metadata.name).toMatch(/^made-[a-z0-9]{5}$/);
  });

  it.each([
    ['GET', `${PODS}/nobody`, undefined, 404, 'NotFound', 'pods "nobody" not found'],
    [
      'GET',
      '/apis/coordination.k8s.io/v1/namespaces/default/leases/nobody',
      undefined,
      404,
      'NotFound',
      'leases.coordination.k8s.io "nobody" not found',
    ],
    [
      'GET',
      '/api/v1/namespaces/default/nothings',
      undefined,
      404,
      'NotFound',
      'the server could not find the requested resource',
    ],
    [
      'POST',
      '/api/v1/namespaces/nowhere/pods',
      { ...pod('x'), metadata: { name: 'x' } },
      404,
      'NotFound',
      'namespaces "nowhere" not found',
    ],
    [
      'POST',
      PODS,
      { ...pod('none'), spec: { containers: [] } },
      422,
      'Invalid',
      expect.stringContaining('spec.containers: Required value'),
    ],
    [
      'POST',
      PODS,
      { ...pod('Bad_Name') },
      422,
      'Invalid',
      expect.stringContaining('metadata.name: Invalid value: "Bad_Name"'),
    ],
  ] as const)('refuses %s %s', async (method, path, body, code, reason, message) => {
    expect(await rest.refused(method, path, body as Json | undefined)).toMatchObject({
      kind: 'Status',
      status: 'Failure',
      code,
      reason,
      message,
    });
  });

  it('refuses a second object of the same name', async () => {
    await rest.post(PODS, pod('twice'));
    expect(await rest.refused('POST', PODS, pod('twice'))).toMatchObject({
      code: 409,
      reason: 'AlreadyExists',
      message: 'pods "twice" already exists',
    });
  });

  it('refuses to write over what the writer has not seen', async () => {
    const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
    const spec = { holderIdentity: 'n1', leaseDurationSeconds: 40, renewTime: '2026-11-21T00:00:00.000000Z' };
    await rest.ensure('/api/v1/namespaces', {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: 'kube-node-lease' },
    });
    const lease = await rest.post(leases, {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'n1' },
      spec,
    });
    const renewed = await rest.put(`${leases}/n1`, {
      ...lease,
      spec: { ...spec, renewTime: '2026-11-21T00:00:10.000000Z' },
    });
    expect(version(renewed)).not.toBe(version(lease));
    expect(
      await rest.refused('PUT', `${leases}/n1`, { ...lease, spec: { ...spec, holderIdentity: 'n2' } }),
    ).toMatchObject({
      code: 409,
      reason: 'Conflict',
      message:
        'Operation cannot be fulfilled on leases.coordination.k8s.io "n1": the object has been modified; ' +
        'please apply your changes to the latest version and try again',
    });
  });

  it('leaves the version alone when nothing changes', async () => {
    const created = await rest.post(PODS, pod('same'));
    const patched = await rest.patch(`${PODS}/same`, MERGE, { metadata: { labels: {} } });
    expect(version(patched)).toBe(version(created));
  });

  it('keeps spec and status apart', async () => {
    const created = await rest.post(PODS, pod('apart'));
    const status = { phase: 'Running', podIP: '10.1.1.1', podIPs: [{ ip: '10.1.1.1' }] };
    const patched = await rest.patch(`${PODS}/apart/status`, STRATEGIC, { status, spec: { activeDeadlineSeconds: 5 } });
    expect(patched['status']).toMatchObject(status);
    expect(patched['spec']).not.toHaveProperty('activeDeadlineSeconds');
    const updated = await rest.put(`${PODS}/apart`, {
      ...patched,
      spec: { ...(patched['spec'] as object), activeDeadlineSeconds: 5 },
      status: { phase: 'Failed' },
    });
    expect(updated).toMatchObject({
      metadata: generation(2),
      spec: { activeDeadlineSeconds: 5 },
      status: { phase: 'Running' },
    });
    expect(updated.metadata['uid']).toBe(created.metadata['uid']);
  });

  it('rejects changes of immutable fields of a pod', async () => {
    await rest.post(PODS, pod('frozen'));
    expect(await rest.refused('PATCH', `${PODS}/frozen`, { spec: { restartPolicy: 'Never' } }, MERGE)).toMatchObject({
      code: 422,
      reason: 'Invalid',
      message: expect.stringContaining('spec: Forbidden: pod updates may not change fields other than'),
    });
  });
});

describe('patches', () => {
  const conditions = (types: readonly string[]) => types.map((type) => ({ type, status: 'True' }));

  it('merge conditions by type, in the order that is asked for', async () => {
    await rest.post(NODES, { apiVersion: 'v1', kind: 'Node', metadata: { name: 'patched' } });
    const path = `${NODES}/patched/status`;
    await rest.patch(path, STRATEGIC, { status: { conditions: conditions(['A', 'B', 'C']) } });
    const patched = await rest.patch(path, STRATEGIC, {
      status: {
        '$setElementOrder/conditions': [{ type: 'C' }, { type: 'A' }, { type: 'D' }],
        conditions: [
          { type: 'A', status: 'False' },
          { type: 'D', status: 'True' },
          { $patch: 'delete', type: 'B' },
        ],
      },
    });
    expect((patched['status'] as { conditions: object[] }).conditions).toMatchObject([
      { type: 'C', status: 'True' },
      { type: 'A', status: 'False' },
      { type: 'D', status: 'True' },
    ]);
    const order = [{ type: 'D' }, { type: 'A' }];
    const wrong = { '$setElementOrder/conditions': order, conditions: conditions(['A', 'D']) };
    expect(await rest.refused('PATCH', path, { status: wrong }, STRATEGIC)).toMatchObject({
      code: 500,
      message: expect.stringMatching(/^The order in patch list:\n.*\n doesn't match \$setElementOrder list:\n/s),
    });
    const between = { conditions: [{ type: 'N', status: 'True' }, ...conditions(['A'])] };
    const joined = await rest.patch(path, STRATEGIC, { status: between });
    expect((joined['status'] as { conditions: object[] }).conditions).toMatchObject(
      ['N', 'C', 'A', 'D'].map((type) => ({ type })),
    );
    const replaced = await rest.patch(path, STRATEGIC, {
      status: { conditions: [{ $patch: 'replace' }, { type: 'E', status: 'True' }] },
    });
    expect((replaced['status'] as { conditions: object[] }).conditions).toMatchObject([{ type: 'E' }]);
  });

  it('merge finalizers, and take them out one by one', async () => {
    await rest.post(PODS, pod('held', { finalizers: ['example.com/a'] }));
    const added = await rest.patch(`${PODS}/held`, STRATEGIC, { metadata: { finalizers: ['example.com/b'] } });
    expect(added.metadata['finalizers']).toEqual(['example.com/b', 'example.com/a']);
    const taken = await rest.patch(`${PODS}/held`, STRATEGIC, {
      metadata: { '$deleteFromPrimitiveList/finalizers': ['example.com/a'] },
    });
    expect(taken.metadata['finalizers']).toEqual(['example.com/b']);
    const bare = await rest.patch(`${PODS}/held`, MERGE, { metadata: { finalizers: null } });
    expect(bare.metadata).not.toHaveProperty('finalizers');
  });

  it('by JSON patch are all or nothing', async () => {
    await rest.post(PODS, pod('json'));
    const add = { op: 'add', path: '/metadata/labels', value: { 'a/b': 'c' } };
    const patched = await rest.patch(`${PODS}/json`, JSON_PATCH, [add]);
    expect(patched.metadata['labels']).toEqual({ 'a/b': 'c' });
    const wrong = { op: 'test', path: '/metadata/labels/a~1b', value: 'x' };
    expect(await rest.refused('PATCH', `${PODS}/json`, [{ ...add, value: {} }, wrong], JSON_PATCH)).toMatchObject({
      code: 422,
    });
    expect((await rest.get(`${PODS}/json`)).metadata['labels']).toEqual({ 'a/b': 'c' });
  });
});

describe('lists and watches', () => {
  it('give pages of one moment', async () => {
    for (const name of ['page-a', 'page-b', 'page-c']) await rest.post(PODS, pod(name, { labels: { set: 'pages' } }));
    const first = await rest.list(PODS, { labelSelector: 'set=pages', limit: '2' });
    expect(first.items.map(({ metadata }) => metadata.name)).toEqual(['page-a', 'page-b']);
    await rest.post(PODS, pod('page-d', { labels: { set: 'pages' } }));
    const query = { labelSelector: 'set=pages', limit: '2', continue: first.metadata.continue! };
    const second = await rest.list(PODS, query);
    expect(second.items.map(({ metadata }) => metadata.name)).toEqual(['page-c']);
    expect(second.metadata.resourceVersion).toBe(first.metadata.resourceVersion);
    expect(second.metadata.continue ?? '').toBe('');
  });

  it('select by field and label', async () => {
    await rest.post(PODS, pod('on-n7', { labels: { tier: 'web', x: '1' } }, { nodeName: 'n7' }));
    const names = async (query: Record<string, string>) =>
      (await rest.list(PODS, query)).items.map(({ metadata }) => metadata.name);
    expect(await names({ fieldSelector: 'spec.nodeName=n7' })).toEqual(['on-n7']);
    expect(await names({ fieldSelector: 'metadata.name=on-n7,spec.nodeName!=n8' })).toEqual(['on-n7']);
    expect(await names({ labelSelector: 'tier in (web, db),!absent,x' })).toEqual(['on-n7']);
    expect(await names({ labelSelector: 'tier notin (web),x' })).toEqual([]);
  });

  it('tell what enters and leaves a selection, from a version on', async () => {
    const from = (await rest.list(PODS, {})).metadata.resourceVersion;
    await rest.post(PODS, pod('seen', { labels: { set: 'watched' } }));
    await rest.post(PODS, pod('unseen'));
    await rest.patch(`${PODS}/seen`, MERGE, { metadata: { annotations: { a: 'b' } } });
    await rest.patch(`${PODS}/seen`, MERGE, { metadata: { labels: { set: 'other' } } });
    const events = await rest.watch(PODS, { resourceVersion: from, labelSelector: 'set=watched', timeoutSeconds: '2' });
    expect(events.map(({ type, object }) => `${type} ${object.metadata.name}`)).toEqual([
      'ADDED seen',
      'MODIFIED seen',
      'DELETED seen',
    ]);
  });

  it('begin with what is there when no version is named', async () => {
    await rest.post(PODS, pod('there', { labels: { set: 'there' } }));
    const events = await rest.watch(PODS, { labelSelector: 'set=there', timeoutSeconds: '1' });
    expect(events.map(({ type }) => type)).toEqual(['ADDED']);
  });
});

describe('the end of pods', () => {
  const create = async (name: string, more: object = {}) =>
    await rest.post(PODS, pod(name, more, { nodeName: 'n1', terminationGracePeriodSeconds: 20 }));

  it('waits for the node, and comes when the node says so', async () => {
    const created = await create('graceful');
    const ending = await rest.delete(`${PODS}/graceful`, {});
    expect(ending.metadata).toMatchObject({
      deletionGracePeriodSeconds: 20,
      deletionTimestamp: expect.any(String),
      ...generation(2),
    });
    const sooner = await rest.delete(`${PODS}/graceful`, { gracePeriodSeconds: 5 });
    expect(sooner.metadata).toMatchObject({ deletionGracePeriodSeconds: 5 });
    const uid = '00000000-0000-0000-0000-000000000000';
    expect(
      await rest.refused('DELETE', `${PODS}/graceful`, { gracePeriodSeconds: 0, preconditions: { uid } }),
    ).toMatchObject({
      code: 409,
      reason: 'Conflict',
      message: expect.stringContaining(
        `"graceful": the UID in the precondition (${uid}) does not match the UID in record`,
      ),
    });
    await rest.delete(`${PODS}/graceful`, {
      gracePeriodSeconds: 0,
      preconditions: { uid: created.metadata['uid'] as string },
    });
    expect(await rest.refused('GET', `${PODS}/graceful`)).toMatchObject({ code: 404 });
  });

  it('comes at once for a pod that no node has, or that is over', async () => {
    await rest.post(PODS, pod('unbound'));
    await rest.delete(`${PODS}/unbound`, {});
    await create('over');
    await rest.patch(`${PODS}/over/status`, STRATEGIC, { status: { phase: 'Succeeded' } });
    await rest.delete(`${PODS}/over`, {});
    for (const name of ['unbound', 'over'])
      expect(await rest.refused('GET', `${PODS}/${name}`)).toMatchObject({ code: 404 });
  });

  it('waits for finalizers', async () => {
    await create('finalized', { finalizers: ['example.com/hold'] });
    await rest.delete(`${PODS}/finalized`, { gracePeriodSeconds: 0 });
    expect((await rest.get(`${PODS}/finalized`)).metadata).toMatchObject({ deletionGracePeriodSeconds: 0 });
    await rest.patch(`${PODS}/finalized`, MERGE, { metadata: { finalizers: null } });
    expect(await rest.refused('GET', `${PODS}/finalized`)).toMatchObject({ code: 404 });
  });

  it('comes by eviction, too', async ({ skip }) => {
    skip(cluster.minor < 26, 'this API server is older than 1.26: an eviction leaves no condition');
    await create('evicted');
    await rest.post(`${PODS}/evicted/eviction`, {
      apiVersion: 'policy/v1',
      kind: 'Eviction',
      metadata: { name: 'evicted' },
    });
    const evicted = await rest.get(`${PODS}/evicted`);
    expect(evicted.metadata).toHaveProperty('deletionTimestamp');
    expect((evicted['status'] as { conditions: object[] }).conditions).toMatchObject([
      { type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI' },
    ]);
  });

  it('is preceded by a binding, once', async () => {
    await rest.post(PODS, pod('bound'));
    const binding = {
      apiVersion: 'v1',
      kind: 'Binding',
      metadata: { name: 'bound' },
      target: { kind: 'Node', name: 'n3' },
    };
    await rest.post(`${PODS}/bound/binding`, binding);
    expect(await rest.get(`${PODS}/bound`)).toMatchObject({
      spec: { nodeName: 'n3' },
      status: { conditions: [{ type: 'PodScheduled', status: 'True' }] },
    });
    expect(await rest.refused('POST', `${PODS}/bound/binding`, binding)).toMatchObject({ code: 409 });
  });
});

describe('the identity and the rights of a user', () => {
  it('signs tokens of service accounts, and knows them again', async () => {
    const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'robot' } };
    await rest.post('/api/v1/namespaces/default/serviceaccounts', account);
    const bound = await rest.post(PODS, pod('owner', {}, { nodeName: 'n1', serviceAccountName: 'robot' }));
    await rest.post(PODS, pod('stranger', {}, { nodeName: 'n1' }));
    const uid = bound.metadata['uid'] as string;
    const request = (reference: object) => ({
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: {
        audiences: ['vault'],
        expirationSeconds: 600,
        boundObjectRef: { apiVersion: 'v1', kind: 'Pod', name: 'owner', ...reference },
      },
    });
    const path = '/api/v1/namespaces/default/serviceaccounts/robot/token';
    const { status } = (await rest.post(path, request({ uid }))) as unknown as { status: { token: string } };
    const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenReview' };
    const reviewed = async (audiences: string[]) =>
      (
        await rest.post('/apis/authentication.k8s.io/v1/tokenreviews', {
          ...review,
          spec: { token: status.token, audiences },
        })
      )['status'];
    expect(await reviewed(['vault'])).toMatchObject({
      authenticated: true,
      user: {
        username: 'system:serviceaccount:default:robot',
        groups: expect.arrayContaining(['system:serviceaccounts', 'system:authenticated']),
        extra: { 'authentication.kubernetes.io/pod-name': ['owner'] },
      },
      audiences: ['vault'],
    });
    expect(await reviewed(['other'])).not.toHaveProperty('authenticated', true);
    expect(await rest.refused('POST', path, request({ uid: 'wrong' }))).toMatchObject({ code: 409 });
    expect(await rest.refused('POST', path, request({ name: 'stranger' }))).toMatchObject({
      code: 400,
      message: 'cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.',
    });
    await rest.delete(`${PODS}/owner`, { gracePeriodSeconds: 0 });
    // The API server caches the result for a token for ten seconds.
    await eventually('nobody', async () => {
      const answer = (await reviewed(['vault'])) as { readonly authenticated?: boolean };
      return answer.authenticated !== true;
    });
  });

  it('says who asked for a certificate', async () => {
    const node = new Rest(await cluster.kubeconfig('system:node:n9'));
    const { createRequest } = await import('../../src/actors/certificate/certificate-request.ts');
    const template = { commonName: 'system:node:n9', organizations: ['system:nodes'], dnsNames: [], ipAddresses: [] };
    const { request } = await createRequest(template);
    const created = await node.post('/apis/certificates.k8s.io/v1/certificatesigningrequests', {
      apiVersion: 'certificates.k8s.io/v1',
      kind: 'CertificateSigningRequest',
      metadata: { generateName: 'csr-' },
      spec: {
        request: Buffer.from(request).toString('base64'),
        signerName: 'kubernetes.io/kube-apiserver-client-kubelet',
        usages: ['digital signature', 'client auth'],
      },
    });
    expect(created).toMatchObject({
      spec: { username: 'system:node:n9', groups: ['system:nodes', 'system:authenticated'] },
      status: {},
    });
  });

  it('answers whether a user may', async () => {
    const ask = async (groups: string[]) =>
      (
        await rest.post('/apis/authorization.k8s.io/v1/subjectaccessreviews', {
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SubjectAccessReview',
          spec: {
            user: 'jane',
            groups,
            resourceAttributes: { verb: 'get', resource: 'nodes', subresource: 'metrics' },
          },
        })
      )['status'];
    expect(await ask(['system:masters'])).toMatchObject({ allowed: true });
    expect(await ask(['people'])).toMatchObject({ allowed: false });
  });
});
