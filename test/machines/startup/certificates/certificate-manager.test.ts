/** When a certificate is requested, awaited, replaced and abandoned, in virtual time. */

import { describe, expect, it } from 'vitest';
import type { Json } from '../../../../src/kernel/json.ts';
import {
  type CertificateNames,
  namesOf,
  requestedNames,
} from '../../../../src/machines/model/operations/certificate.ts';
import type { KubeObject } from '../../../../src/machines/model/operations/kube.ts';
import { certificateManagerMachine } from '../../../../src/machines/startup/certificates/certificate-manager.ts';
import {
  missingIn,
  nodeTemplate,
  rotationDeadline,
  verdictOf,
} from '../../../../src/machines/startup/certificates/setup.ts';
import { clientCertificateInput } from '../../../../src/machines/startup/clients/client-builder.ts';
import { type Answers, fail, ok, runUnder } from '../../../support/answering-world.ts';

const START_MS = 1_000_000;
const HOUR_MS = 3_600_000;
const facts = (notBeforeMs: number, notAfterMs: number) => ({
  path: '/pki/kubelet-client-1.pem',
  notBeforeMs,
  notAfterMs,
  commonName: 'system:node:n1',
  organizations: ['system:nodes'],
  dnsNames: [],
  ipAddresses: [],
});
const metadata = { name: 'csr-1', uid: 'u', resourceVersion: '7' };
const pending = ok({ metadata });
const issued = ok({ metadata, status: { certificate: 'UEVN', conditions: [{ type: 'Approved' }] } });
const world: Answers = {
  'certificate.load': ok({ certificate: null }),
  'certificate.request': ok({ request: 'UEVN', key: { $secret: '§0000000000000000000000', len: 1 } }),
  'certificate.store': ok(facts(START_MS, START_MS + HOUR_MS)),
  'kube.create': ok({ metadata }),
  'kube.get': issued,
  'kube.watch': 'stream',
  'kube.closeConnections': ok(null),
};
const run = (change: Answers = {}) =>
  runUnder(certificateManagerMachine, clientCertificateInput({ certDir: '/pki', nodeName: 'n1' }, false), {
    ...world,
    ...change,
  });
const toParent = (subject: ReturnType<typeof run>) =>
  subject.sent().filter((sent) => sent.to === 'parent' && !('type' in sent && sent.type === 'certificate.loaded'));

describe('the certificate manager', () => {
  it('stores what was issued, reconnects, and asks again between 70 and 90 per cent of its life', () => {
    const subject = run();
    expect(subject.asked()).toEqual([
      'certificate.load',
      'certificate.request',
      'kube.create',
      'kube.get',
      'certificate.store',
      'kube.closeConnections',
    ]);
    subject.time.advanceTo(START_MS + 0.69 * HOUR_MS);
    expect(subject.asked()).toHaveLength(6);
    subject.time.advanceTo(START_MS + 0.91 * HOUR_MS);
    expect(subject.asked().slice(6)).toContain('kube.create');
    expect(subject.divergence()).toBeNull();
  });

  it('watches a request until it is signed', () => {
    const subject = run({ 'kube.get': pending });
    expect(subject.asked().at(-1)).toBe('kube.watch');
    const change = (status: object) =>
      subject.emit('kube.watch', { type: 'watch.changed', change: 'MODIFIED', object: { metadata, status } });
    change({ conditions: [{ type: 'Approved' }] });
    expect(subject.logged().at(-1)).toBe('Certificate signing request is approved, waiting to be issued');
    change({ conditions: [{ type: 'Approved' }], certificate: 'UEVN' });
    subject.time.advanceTo(START_MS);
    expect(subject.asked()).toContain('certificate.store');
    expect(subject.divergence()).toBeNull();
  });

  it('requests again if the request is not signed for a quarter of an hour', () => {
    const subject = run({ 'kube.get': pending });
    subject.time.advanceTo(START_MS + 899_000);
    expect(subject.asked().filter((name) => name === 'kube.create')).toHaveLength(1);
    subject.time.advanceTo(START_MS + 905_000);
    expect(subject.logged()).toContain('Certificate request was not signed');
    expect(subject.asked().filter((name) => name === 'kube.create')).toHaveLength(2);
  });

  it('backs off when the server cannot be asked, up to half a minute', () => {
    const subject = run({ 'kube.create': fail('connection refused', 'ECONNREFUSED') });
    const attempts = () => subject.asked().filter((name) => name === 'kube.create').length;
    subject.time.advanceTo(START_MS + 70_000);
    expect(attempts()).toBe(6);
    subject.time.advanceTo(START_MS + 70_000 + 320_000);
    expect(attempts()).toBeGreaterThanOrEqual(14);
  });

  it('asks once a second where the signer leaves out what was asked for', () => {
    const stored = ok({ ...facts(START_MS, START_MS + HOUR_MS), commonName: 'another' });
    const subject = run({ 'certificate.store': stored });
    const requests = () => subject.asked().filter((name) => name === 'kube.create').length;
    subject.time.advanceTo(START_MS + 900);
    expect(requests()).toBe(1);
    subject.time.advanceTo(START_MS + 9_900);
    expect(requests()).toBe(10);
  });

  it('uses a valid certificate without a request', () => {
    const subject = run({ 'certificate.load': ok({ certificate: facts(START_MS, START_MS + HOUR_MS) }) });
    expect(subject.asked()).toEqual(['certificate.load']);
  });

  describe('of a certificate that expired', () => {
    const old = { 'certificate.load': ok({ certificate: facts(START_MS - HOUR_MS, START_MS + 60_000) }) };

    it('ends the node after five minutes, when the server answers', () => {
      const subject = run({ ...old, 'kube.create': fail('Unauthorized', 'Unauthorized') });
      subject.time.advanceTo(START_MS + 60_000 + 299_000);
      expect(toParent(subject)).toEqual([]);
      subject.time.advanceTo(START_MS + 60_000 + 301_000);
      expect(toParent(subject)).toMatchObject([
        {
          type: 'certificate.lost',
          message: 'The currently active client certificate has expired and the server is responsive, exiting.',
        },
      ]);
    });

    it('waits for a server that is away, and ends when it is back and refuses', () => {
      let refusal = fail('connection refused', 'ECONNREFUSED');
      const subject = run({ ...old, 'kube.create': () => refusal });
      subject.time.advanceTo(START_MS + HOUR_MS);
      expect(toParent(subject)).toEqual([]);
      expect(subject.logged().some((text) => text.includes('but the server is not responsive'))).toBe(true);
      refusal = fail('Unauthorized', 'Unauthorized');
      subject.time.advanceTo(START_MS + HOUR_MS + 60_000);
      expect(toParent(subject)).toMatchObject([{ type: 'certificate.lost' }]);
    });

    it('goes on when the server comes back in time and signs', () => {
      let answer = fail('connection refused', 'ECONNREFUSED');
      const renewed = facts(START_MS, START_MS + 24 * HOUR_MS);
      const subject = run({ ...old, 'kube.create': () => answer, 'certificate.store': ok(renewed) });
      subject.time.advanceTo(START_MS + HOUR_MS);
      answer = ok({ metadata });
      subject.time.advanceTo(START_MS + 2 * HOUR_MS);
      expect(subject.state()).toMatchObject({ working: { guarding: 'valid', rotation: { waiting: 'sleeping' } } });
      expect(toParent(subject)).toEqual([]);
    });
  });

  describe('of a certificate that had expired before the start', () => {
    const input = clientCertificateInput({ certDir: '/pki', nodeName: 'n1' }, false, { isNoneWhenExpired: true });
    const start = (refusal: ReturnType<typeof fail>) =>
      runUnder(certificateManagerMachine, input, {
        ...world,
        'certificate.load': ok({ certificate: facts(START_MS - 2 * HOUR_MS, START_MS - HOUR_MS) }),
        'kube.create': refusal,
      });

    it('ends the node five minutes after the start, when the server answers', () => {
      const subject = start(fail('Unauthorized', 'Unauthorized'));
      subject.time.advanceTo(START_MS + 299_000);
      expect(toParent(subject)).toEqual([]);
      subject.time.advanceTo(START_MS + 301_000);
      const message = 'No valid client certificate is found and the server is responsive, exiting.';
      expect(toParent(subject)).toMatchObject([{ type: 'certificate.lost', message }]);
      expect(subject.divergence()).toBeNull();
    });

    it('waits for a server that is away', () => {
      const subject = start(fail('connection refused', 'ECONNREFUSED'));
      subject.time.advanceTo(START_MS + HOUR_MS);
      expect(toParent(subject)).toEqual([]);
      expect(subject.logged()).toContain(
        'No valid client certificate is found but the server is not responsive. ' +
          'A restart may be necessary to retrieve new initial credentials.',
      );
    });
  });

  it('says of files that are no pair what upstream says', () => {
    const subject = run({ 'certificate.load': fail('tls: failed to find any PEM data in certificate input') });
    expect(toParent(subject)).toMatchObject([
      {
        type: 'certificate.failed',
        message:
          'failed to initialize client certificate manager: tls: failed to find any PEM data in certificate input',
      },
    ]);
  });
});

describe('a serving certificate', () => {
  const asked = (names: CertificateNames, more: { mayLackAddresses?: boolean } = {}) => {
    const template = nodeTemplate('n1', { dnsNames: [], ipAddresses: [] });
    const client = clientCertificateInput({ certDir: '/pki', nodeName: 'n1' }, false);
    const input = { ...client, purpose: 'serving' as const, template, ...more };
    const subject = runUnder(certificateManagerMachine, input, { ...world, 'kube.get': pending });
    subject.send({ type: 'certificate.namesChanged', ...names });
    subject.time.advanceTo(START_MS + 1_000);
    return subject.asked().includes('kube.create');
  };

  it('is asked for with an address, or with a name alone where a gate says so', () => {
    const named = { dnsNames: ['n1'], ipAddresses: [] };
    expect(asked({ ...named, ipAddresses: ['192.0.2.1'] })).toBe(true);
    expect(asked(named)).toBe(false);
    expect(asked(named, { mayLackAddresses: true })).toBe(true);
    expect(asked({ dnsNames: [], ipAddresses: [] }, { mayLackAddresses: true })).toBe(false);
  });
});

describe('a serving certificate that is waited for', () => {
  const wait = (names: CertificateNames) => {
    const template = nodeTemplate('n1', { dnsNames: [], ipAddresses: [] });
    const client = clientCertificateInput({ certDir: '/pki', nodeName: 'n1' }, false);
    const input = { ...client, purpose: 'serving' as const, template };
    const subject = runUnder(certificateManagerMachine, input, { ...world, 'kube.get': pending });
    const names1 = { dnsNames: ['n1'], ipAddresses: ['192.0.2.1'] };
    subject.send({ type: 'certificate.namesChanged', ...names1 });
    subject.time.advanceTo(START_MS + 1_000);
    subject.send({ type: 'certificate.namesChanged', ...names });
    subject.time.advanceTo(START_MS + 10_000);
    expect(subject.divergence()).toBeNull();
    return subject
      .records()
      .flatMap((record) => (record.k === 'effect' && record.name === 'certificate.request' ? [record.input] : []));
  };

  it('is requested again when the names of the node have changed, after one pause', () => {
    const requests = wait({ dnsNames: ['n1'], ipAddresses: ['192.0.2.9'] });
    expect(requests).toMatchObject([{ ipAddresses: ['192.0.2.1'] }, { ipAddresses: ['192.0.2.9'] }]);
  });

  it('is waited for while the names are the same', () => {
    expect(wait({ dnsNames: ['n1'], ipAddresses: ['192.0.2.1'] })).toHaveLength(1);
  });

  it('is not asked for while the node has no addresses any more', () => {
    expect(wait({ dnsNames: ['n1'], ipAddresses: [] })).toHaveLength(1);
  });
});

describe('the policy', () => {
  const csr = (status: { readonly [key: string]: Json }): KubeObject => ({ metadata, status });

  it.each([
    [{}, { state: 'pending' }],
    [{ conditions: [{ type: 'Approved' }] }, { state: 'approved' }],
    [
      { conditions: [{ type: 'Approved' }], certificate: 'x' },
      { state: 'issued', certificate: 'x' },
    ],
    [
      { conditions: [{ type: 'Denied', reason: 'KubectlDeny', message: 'no' }] },
      { state: 'refused', message: 'certificate signing request is denied, reason: KubectlDeny, message: no' },
    ],
    [
      { conditions: [{ type: 'Approved' }, { type: 'Failed', reason: 'SigningError', message: 'no' }] },
      { state: 'refused', message: 'certificate signing request failed, reason: SigningError, message: no' },
    ],
  ])('reads %o', (status, verdict) => {
    expect(verdictOf(csr(status), 'u')).toEqual(verdict);
  });

  it('does not take the answer to another request for its own', () => {
    expect(verdictOf(csr({ certificate: 'x' }), 'other')).toMatchObject({ state: 'refused' });
  });

  it.each([
    [0, 0.7],
    [0.5, 0.8],
    [0.999_999, 0.9],
  ])('rotates at %d between 70 and 90 per cent', (random, share) => {
    expect(rotationDeadline(facts(0, HOUR_MS), random)).toBeCloseTo(share * HOUR_MS, -2);
  });

  it('names what a certificate lacks, and nothing that it has besides', () => {
    const names = { dnsNames: ['n1'], ipAddresses: ['10.0.0.1'] };
    const has = { ...facts(0, 1), ...names };
    expect(missingIn(has, nodeTemplate('n1', { dnsNames: [], ipAddresses: [] }))).toBe('');
    expect(missingIn(has, nodeTemplate('n2', names))).toContain('does not match requested CN (system:node:n2)');
    expect(missingIn(has, nodeTemplate('n1', { ...names, dnsNames: ['n1', 'b'] }))).toBe(
      'Current certificate is missing requested DNS names [b]',
    );
  });

  it('takes names and addresses from the node', () => {
    const addresses = [
      { type: 'InternalIP', address: '10.0.0.1' },
      { type: 'Hostname', address: 'n1' },
      { type: 'ExternalDNS', address: 'n1.example' },
    ];
    const names = { dnsNames: ['n1', 'n1.example'], ipAddresses: ['10.0.0.1'] };
    expect([namesOf(addresses), requestedNames(addresses)]).toEqual([names, names]);
  });

  it('takes a host name that is an address for one, and leaves out what is none', () => {
    const addresses = [
      { type: 'InternalIP', address: 'FD00:0:0:0:0:0:a:1' },
      { type: 'ExternalIP', address: 'none' },
      { type: 'InternalDNS', address: '' },
      { type: 'Hostname', address: '10.0.0.1' },
    ];
    expect(requestedNames(addresses)).toEqual({ dnsNames: [], ipAddresses: ['fd00::a:1', '10.0.0.1'] });
  });
});
