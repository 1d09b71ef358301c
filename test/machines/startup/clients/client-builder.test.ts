/** The clients of a node, the files that they come from, and the errors if there are none. */
import { describe, expect, it } from 'vitest';
import {
  type ClientBuilderInput,
  clientBuilderMachine,
  kubeSettings,
} from '../../../../src/machines/startup/clients/client-builder.ts';
import { type Answers, fail, ok, runUnder } from '../../../support/answering-world.ts';

const input: ClientBuilderInput = {
  kubeconfig: '/etc/kubelet.conf',
  bootstrapKubeconfig: '',
  certDir: '/pki',
  rotateCertificates: false,
  nodeName: 'n1',
  userAgent: 'kubelet/test',
  kubeAPIQPS: 50,
  kubeAPIBurst: 100,
  eventRecordQPS: 5,
  eventBurst: 10,
  nodeStatusUpdateFrequencyMs: 10_000,
  nodeLeaseDurationSeconds: 40,
};
const connects = ok({ server: 'https://api:6443' });
const run = (change: Partial<ClientBuilderInput>, answers: Answers) =>
  runUnder(clientBuilderMachine, { ...input, ...change }, answers);
const sent = (world: ReturnType<typeof run>) => world.sent().filter(({ to }) => to === 'parent');
const answered = (value: object) => [{ type: 'xstate.done.actor.subject', output: { ok: true, value } }];
const refused = (message: string) => [{ type: 'xstate.done.actor.subject', output: { ok: false, message } }];
const connected = (world: ReturnType<typeof run>) =>
  world.records().flatMap((record) => (record.k === 'effect' && record.name === 'kube.connect' ? [record.input] : []));

describe('the client builder', () => {
  it.each([{}, { bootstrapKubeconfig: '/etc/bootstrap.conf' }])(
    'builds nothing in standalone mode and requests nothing: %o',
    (change) => {
      const world = run({ ...change, kubeconfig: '' }, {});
      expect(world.logged()).toEqual(['Standalone mode, no API client']);
      expect(sent(world)).toMatchObject(answered({ mode: 'standalone' }));
      expect(world.asked()).toEqual([]);
    },
  );

  it('connects the three clients of a kubeconfig', () => {
    const world = run({}, { 'kube.connect': connects });
    expect(sent(world)).toMatchObject(answered({ mode: 'cluster', server: 'https://api:6443', rotates: false }));
    expect(connected(world)).toEqual([
      {
        kubeconfig: '/etc/kubelet.conf',
        role: 'node',
        qps: 50,
        burst: 100,
        eventQps: 5,
        eventBurst: 10,
        heartbeatTimeoutMs: 10_000,
        userAgent: 'kubelet/test',
        certificateFile: null,
        isBootstrapping: false,
      },
    ]);
    expect(world.divergence()).toBeNull();
  });

  it.each([
    [10_000, 40, 10_000],
    [60_000, 40, 40_000],
  ])(
    'gives a heartbeat the shorter of %i ms and %i s',
    (nodeStatusUpdateFrequencyMs, nodeLeaseDurationSeconds, expected) => {
      const context = {
        ...input,
        nodeStatusUpdateFrequencyMs,
        nodeLeaseDurationSeconds,
        server: '',
        isBootstrapping: false,
        refusal: '',
      };
      expect(kubeSettings(context, 'node').heartbeatTimeoutMs).toBe(expected);
    },
  );

  it.each([
    [{}, 'invalid kubeconfig: stat /etc/kubelet.conf: no such file or directory'],
    [{ rotateCertificates: true }, 'unable to load kubeconfig: stat /etc/kubelet.conf: no such file or directory'],
  ])('says as upstream why there are no clients: %o', (change, message) => {
    const world = run(change, {
      'kube.connect': fail('stat /etc/kubelet.conf: no such file or directory', 'KUBECONFIG'),
    });
    expect(sent(world)).toMatchObject(refused(message));
  });

  it('says no more than what the client said of itself', () => {
    const message = 'failed to initialize kubelet client: unable to load root certificates: no PEM';
    const world = run({}, { 'kube.connect': fail(message, 'CLIENT_REFUSED') });
    expect(sent(world)).toMatchObject(refused(message));
  });

  it('uses a rotating certificate, and requests it with the credentials of the kubeconfig', () => {
    const world = run({ rotateCertificates: true }, { 'kube.connect': connects });
    expect(sent(world)).toMatchObject(answered({ mode: 'cluster', rotates: true }));
    expect(connected(world)).toMatchObject([
      { role: 'node', kubeconfig: '/etc/kubelet.conf', certificateFile: '/pki/kubelet-client-current.pem' },
      { role: 'bootstrap', kubeconfig: '/etc/kubelet.conf', certificateFile: null },
    ]);
  });

  describe('with a bootstrap kubeconfig', () => {
    const bootstrap = { bootstrapKubeconfig: '/etc/bootstrap.conf', rotateCertificates: true };
    const lacksKubeconfig = ok({ isValid: false, problem: '' });

    it('needs none while the kubeconfig is valid', () => {
      const world = run(bootstrap, {
        'certificate.checkKubeconfig': ok({ isValid: true, problem: '' }),
        'kube.connect': connects,
      });
      expect(world.logged()).toContain('Current kubeconfig file contents are still valid, no bootstrap necessary');
      expect(connected(world)).toMatchObject([
        { role: 'node', isBootstrapping: false },
        { role: 'bootstrap', kubeconfig: '/etc/kubelet.conf' },
      ]);
    });

    it('writes the kubeconfig first and goes on without waiting for a certificate', () => {
      const world = run(bootstrap, {
        'certificate.checkKubeconfig': lacksKubeconfig,
        'certificate.writeKubeconfig': ok(null),
        'kube.connect': connects,
      });
      expect(world.asked()).toEqual([
        'certificate.checkKubeconfig',
        'kube.connect',
        'certificate.writeKubeconfig',
        'kube.connect',
      ]);
      expect(connected(world)).toMatchObject([
        { role: 'bootstrap', kubeconfig: '/etc/bootstrap.conf' },
        { role: 'node', kubeconfig: '/etc/kubelet.conf', isBootstrapping: true },
      ]);
      expect(sent(world)).toMatchObject(answered({ rotates: true }));
      expect(world.divergence()).toBeNull();
    });

    it('says what is wrong with the file that it cannot go on with', () => {
      const problem = 'part of the existing bootstrap client certificate in /etc/kubelet.conf is expired: 2020';
      const world = run(bootstrap, {
        'certificate.checkKubeconfig': ok({ isValid: false, problem }),
        'kube.connect': fail('stat /etc/bootstrap.conf: no such file or directory', 'KUBECONFIG'),
      });
      expect(world.logged()).toContain('Unhandled Error');
      expect(sent(world)).toMatchObject(
        refused('unable to load bootstrap kubeconfig: stat /etc/bootstrap.conf: no such file or directory'),
      );
    });

    it('waits for the first certificate when it will not rotate', () => {
      const facts = {
        path: '/pki/kubelet-client-1.pem',
        notBeforeMs: 0,
        notAfterMs: 9_000_000,
        commonName: 'system:node:n1',
        organizations: ['system:nodes'],
        dnsNames: [],
        ipAddresses: [],
      };
      const metadata = { name: 'csr-1', uid: 'u', resourceVersion: '7' };
      const world = run(
        { ...bootstrap, rotateCertificates: false },
        {
          'certificate.checkKubeconfig': lacksKubeconfig,
          'certificate.load': ok({ certificate: null }),
          'certificate.request': ok({ request: 'UEVN', key: { $secret: '§0000000000000000000000', len: 1 } }),
          'certificate.store': ok(facts),
          'certificate.writeKubeconfig': ok(null),
          'kube.connect': connects,
          'kube.create': ok({ metadata }),
          'kube.get': ok({ metadata, status: { certificate: 'UEVN', conditions: [{ type: 'Approved' }] } }),
        },
      );
      expect(world.asked().slice(1)).toEqual([
        'kube.connect',
        'certificate.load',
        'certificate.request',
        'kube.create',
        'kube.get',
        'certificate.store',
        'certificate.writeKubeconfig',
        'kube.connect',
      ]);
      expect(sent(world)).toMatchObject(answered({ mode: 'cluster', rotates: false }));
    });

    it('goes on with what an earlier start asked for when it will not rotate', () => {
      const world = run(
        { ...bootstrap, rotateCertificates: false, bootstrapsAsKubelet: true },
        {
          'certificate.checkKubeconfig': lacksKubeconfig,
          'certificate.firstRequest': ok({
            name: 'node-csr-x',
            request: 'UEVN',
            usages: [],
            key: { $secret: '', len: 1 },
          }),
          'kube.connect': connects,
          'kube.checkHealth': ok(null),
          'kube.create': fail('Unauthorized', 'Unauthorized'),
        },
      );
      expect(world.asked().slice(2)).toEqual(['certificate.firstRequest', 'kube.checkHealth', 'kube.create']);
      expect(sent(world)).toMatchObject(refused('cannot create certificate signing request: Unauthorized'));
      expect(world.divergence()).toBeNull();
    });

    it('ends when the first certificate is refused and it will not rotate', () => {
      const world = run(
        { ...bootstrap, rotateCertificates: false },
        {
          'certificate.checkKubeconfig': lacksKubeconfig,
          'certificate.load': ok({ certificate: null }),
          'certificate.request': ok({ request: 'UEVN', key: { $secret: '§0000000000000000000000', len: 1 } }),
          'kube.connect': connects,
          'kube.create': fail('Unauthorized', 'Unauthorized'),
        },
      );
      expect(sent(world)).toMatchObject(refused('cannot create certificate signing request: Unauthorized'));
    });
  });
});
