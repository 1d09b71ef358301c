/** Proves V1 and V2 of the node's servers, and how they follow from the configuration. */
import { describe, expect, it } from 'vitest';
import { serverMachine } from '../../../../src/machines/charts/node/server.ts';
import type { ServedPort } from '../../../../src/machines/model/operations/server.ts';
import { fail, ok, runUnder } from '../../../support/answering-world.ts';
import { BootNode, document } from '../../startup/boot-node.ts';

const served = { address: '127.0.0.1', port: 10_250, settings: {}, secure: null };
const selfSign = { directory: '/pki', hostname: 'node1' };
const listening = { type: 'server.listening', address: '127.0.0.1', port: 10_250 };

describe('a server', () => {
  it('signs its own certificate first when it was given none, and says where it serves', () => {
    const run = runUnder(serverMachine, { served, selfSign }, { 'server.selfSign': ok({}), 'server.serve': 'stream' });
    run.time.advanceTo(run.time.now() + 100);
    expect(run.asked()).toEqual(['server.selfSign', 'server.serve']);
    expect(run.state()).toEqual({ open: 'listening' });
    run.emit('server.serve', listening);
    expect(run.state()).toEqual({ open: 'serving' });
    expect(run.sent()).toEqual([
      { to: 'parent', type: 'server.serving', address: '127.0.0.1', port: 10_250, isReadOnly: true },
    ]);
    expect(run.divergence()).toBeNull();
  });

  it.each([
    [
      'a port that is taken',
      { 'server.serve': fail('listen tcp 127.0.0.1:10250: bind: address already in use') },
      /in use$/,
    ],
    [
      'a certificate that cannot be made',
      { 'server.selfSign': fail('EACCES') },
      /^unable to generate self signed cert: E/,
    ],
  ])('tells the supervisor of %s', (_, answers, why) => {
    const all = { 'server.selfSign': ok({}), 'server.serve': 'stream' as const, ...answers };
    const run = runUnder(serverMachine, { served, selfSign }, all);
    run.time.advanceTo(run.time.now() + 100);
    expect(run.state()).toBe('failed');
    expect(run.sent()).toEqual([{ to: 'parent', type: 'server.failed', message: expect.stringMatching(why) }]);
  });

  it('goes on when a file that changed cannot be used', () => {
    const run = runUnder(serverMachine, { served, selfSign: null }, { 'server.serve': 'stream' });
    run.emit('server.serve', listening);
    run.emit('server.serve', { type: 'server.reloadFailed', message: 'kubelet.crt: no PEM data' });
    run.emit('server.serve', { type: 'server.clientCAChanged' });
    expect(run.state()).toEqual({ open: 'serving' });
  });
});

describe('a node', () => {
  const ports = (fields: Parameters<typeof document>[0], argv = ['--config=/k.yaml', '--fail-swap-on=true']) =>
    new BootNode({ argv, answers: { 'host.readConfiguration': ok(document(fields)) } })
      .boot()
      .run(1_000)
      .effects('server.serve')
      .map(({ input }) => input as ServedPort)
      .toSorted((one, other) => one.port - other.port);

  it('serves its API by TLS on 10250 and nothing read-only, unless told so', () => {
    expect(ports({})).toMatchObject([{ address: '0.0.0.0', port: 10_250, secure: { auth: { anonymous: false } } }]);
    expect(ports({ enableServer: false })).toEqual([]);
    expect(ports({ readOnlyPort: 10_255 })).toMatchObject([{ port: 10_250 }, { port: 10_255, secure: null }]);
    expect(ports({}, ['--fail-swap-on=true'])).toMatchObject([{ port: 10_250 }, { port: 10_255, secure: null }]);
  });

  it('knows clients and switches as the configuration has them', () => {
    const [api] = ports({
      authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
      enableProfilingHandler: false,
      enableSystemLogQuery: true,
      featureGates: { PodLogsQuerySplitStreams: true },
      tlsCertFile: '/tls.crt',
      tlsPrivateKeyFile: '/tls.key',
      tlsMinVersion: 'VersionTLS13',
      tlsCurvePreferences: [29, 4588],
    });
    expect(api).toMatchObject({
      settings: { profilingHandler: false, systemLogQuery: true, splitStreams: true, debuggingHandlers: true },
      secure: {
        auth: { anonymous: true, clientCAFile: '', authorization: 'AlwaysAllow', tokenTtlMs: 120_000 },
        tls: { certFile: '/tls.crt', keyFile: '/tls.key', curves: ['X25519', 'X25519MLKEM768'], mayBeMissing: false },
      },
    });
  });

  it('serves the certificate of its configuration until the cluster has issued another one', () => {
    const files = { tlsCertFile: '/tls.crt', tlsPrivateKeyFile: '/tls.key' };
    const issuedFile = '/var/lib/kubelet/pki/kubelet-server-current.pem';
    const tlsOf = (more: object) => ports({ ...files, ...more })[0]?.secure?.tls;
    expect(tlsOf({ serverTLSBootstrap: true })).toMatchObject({ certFile: '/tls.crt', issuedFile });
    expect(tlsOf({})).not.toHaveProperty('issuedFile');
  });

  it('serves without what its feature gates turn off, and what a group of gates turns on', () => {
    const gated = { ContainerCheckpoint: false, ComponentFlagz: false, ComponentStatusz: false };
    const [api] = ports({ featureGates: { ...gated, AllAlpha: true, ReloadKubeletClientCAFile: false } });
    expect(api?.settings).toMatchObject({ splitStreams: true, without: ['checkpoint', 'flagz', 'statusz'] });
    expect(api?.secure).toMatchObject({ auth: { isClientCAFixed: true } });
    expect(ports({ featureGates: { AllowParsingUserUIDFromCertAuth: false } })[0]?.secure).toMatchObject({
      auth: { ignoresUids: true },
    });
    const [fixed] = ports({ featureGates: { ReloadKubeletServerCertificateFile: false } });
    expect(fixed?.secure?.tls.isFixed).toBe(true);
    expect(ports({})[0]?.settings).not.toHaveProperty('without');
  });

  it('ends when the port of its API cannot be had, in the words of the kubelet', () => {
    const message = 'listen tcp 127.0.0.1:10250: bind: address already in use';
    const node = new BootNode({ answers: { 'server.serve': fail(message) } }).boot().run(1_000);
    expect(node.ended).toMatchObject({ exitCode: 1, failure: { message } });
    expect(node.lines('error').at(-1)?.fields).toMatchObject({
      klog: `"Failed to listen and serve" err="${message}"`,
    });
  });
});
