/** The first client certificate of a node without rotation: what is asked, what is reused, and what ends the start. */
import { describe, expect, it } from 'vitest';
import { bootstrapMachine } from '../../../../src/machines/startup/certificates/bootstrap.ts';
import { nodeTemplate } from '../../../../src/machines/startup/certificates/setup.ts';
import { type Answers, fail, ok, runUnder } from '../../../support/answering-world.ts';

const START_MS = 1_000_000;
const metadata = { name: 'node-csr-x', uid: 'u', resourceVersion: '7' };
const key = { $secret: '§0000000000000000000000', len: 1 };
const facts = {
  path: '/pki/kubelet-client-1.pem',
  notBeforeMs: 0,
  notAfterMs: 9_000_000,
  commonName: 'system:node:n1',
};
const issuedStatus = { certificate: 'UEVN', conditions: [{ type: 'Approved' }] };
const usages = ['digital signature', 'client auth'];
const world: Answers = {
  'certificate.firstRequest': ok({ name: 'node-csr-x', request: 'T1dO', usages, key }),
  'certificate.checkRequest': ok({ problem: '' }),
  'certificate.store': ok(facts),
  'kube.checkHealth': ok(null),
  'kube.create': ok({ metadata, spec: { request: 'T1dO' } }),
  'kube.get': ok({ metadata, spec: { request: 'RklSU1Q=' }, status: issuedStatus }),
  'kube.watch': 'stream',
};
const input = { certDir: '/pki', template: nodeTemplate('n1', { dnsNames: [], ipAddresses: [] }) };
const run = (change: Answers = {}) => runUnder(bootstrapMachine, input, { ...world, ...change });
const answer = (subject: ReturnType<typeof run>) =>
  subject
    .sent()
    .flatMap((sent) => (sent.to === 'parent' && 'output' in sent ? [sent.output] : []))
    .at(-1);
const inputs = (subject: ReturnType<typeof run>, operation: string) =>
  subject.records().flatMap((record) => (record.k === 'effect' && record.name === operation ? [record.input] : []));
const exists = fail('certificatesigningrequests "node-csr-x" already exists', 'AlreadyExists');

describe('the bootstrap', () => {
  it('asks under the name of its key, stores what is issued, and lets go of the key that was kept', () => {
    const subject = run();
    expect(subject.asked()).toEqual([
      'certificate.firstRequest',
      'kube.checkHealth',
      'kube.create',
      'kube.get',
      'certificate.store',
    ]);
    expect(inputs(subject, 'kube.create')).toMatchObject([
      { client: 'bootstrap', body: { metadata: { name: 'node-csr-x' }, spec: { request: 'T1dO', usages } } },
    ]);
    expect(inputs(subject, 'certificate.store')).toEqual([
      { directory: '/pki', name: 'kubelet-client', certificate: 'UEVN', key, keyFile: '/pki/kubelet-client.key.tmp' },
    ]);
    expect(answer(subject)).toEqual({ ok: true, value: facts });
    expect(subject.divergence()).toBeNull();
  });

  it('goes on with the request of an earlier start', () => {
    const subject = run({ 'kube.create': exists });
    expect(subject.logged()).toEqual([
      'csr for this node already exists, reusing',
      'csr for this node is still valid',
      'Waiting for client certificate to be issued',
      'Certificate signing request is issued',
    ]);
    expect(inputs(subject, 'certificate.checkRequest')).toEqual([{ request: 'T1dO', found: 'RklSU1Q=' }]);
    expect(answer(subject)).toMatchObject({ ok: true });
  });

  it.each<[string, Answers]>([
    ['error loading key', { 'certificate.firstRequest': fail('error loading key') }],
    [
      'cannot create certificate signing request: Unauthorized',
      { 'kube.create': fail('Unauthorized', 'Unauthorized') },
    ],
    [
      'cannot retrieve certificate signing request: forbidden',
      { 'kube.create': exists, 'kube.get': fail('forbidden', 'Forbidden') },
    ],
    [
      'retrieved csr is not compatible: csr subjects differ',
      { 'kube.create': exists, 'certificate.checkRequest': ok({ problem: 'csr subjects differ' }) },
    ],
    [
      'cannot watch on the certificate signing request: csr "node-csr-x" was deleted',
      { 'kube.get': fail('not found', 'NotFound') },
    ],
    [
      'cannot watch on the certificate signing request: certificate signing request is denied, reason: No, message: never',
      { 'kube.get': ok({ metadata, status: { conditions: [{ type: 'Denied', reason: 'No', message: 'never' }] } }) },
    ],
    ['tls: no match', { 'certificate.store': fail('tls: no match') }],
  ])('ends the start with: %s', (message, change) => {
    expect(answer(run(change))).toEqual({ ok: false, message });
  });

  it('asks a server that does not answer for a minute, then makes its request all the same', () => {
    const subject = run({ 'kube.checkHealth': fail('connect ECONNREFUSED') });
    subject.time.advanceTo(START_MS + 59_000);
    expect(subject.asked()).not.toContain('kube.create');
    expect(subject.asked().filter((name) => name === 'kube.checkHealth').length).toBeGreaterThan(20);
    subject.time.advanceTo(START_MS + 60_000);
    expect(subject.logged()).toContain('Error waiting for apiserver to come up');
    expect(answer(subject)).toMatchObject({ ok: true });
    expect(subject.divergence()).toBeNull();
  });

  it('watches the request until it is signed, for an hour', () => {
    const change = { 'kube.get': ok({ metadata }) };
    const subject = run(change);
    subject.emit('kube.watch', {
      type: 'watch.changed',
      change: 'MODIFIED',
      object: { metadata, status: issuedStatus },
    });
    subject.time.advanceTo(START_MS);
    expect(answer(subject)).toMatchObject({ ok: true });
    const late = run(change);
    late.time.advanceTo(START_MS + 3_599_000);
    expect(answer(late)).toBeUndefined();
    late.time.advanceTo(START_MS + 3_600_000);
    expect(answer(late)).toEqual({ ok: false, message: 'timed out waiting for the condition' });
  });

  it('ends when its request is deleted', () => {
    const subject = run({ 'kube.get': ok({ metadata }) });
    subject.emit('kube.watch', { type: 'watch.changed', change: 'DELETED', object: { metadata } });
    subject.time.advanceTo(START_MS);
    expect(answer(subject)).toMatchObject({ ok: false });
  });
});
