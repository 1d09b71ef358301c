/** Handshakes, certificates of clients, and files that change while connections are open. */
import { X509Certificate } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { protocolOf } from '../../../../src/actors/server/tls/listener.ts';
import { selfSigned } from '../../../../src/actors/server/tls/self-signed.ts';
import { Authority } from '../../../fakes/api-server/pki.ts';
import { exchange, exchangeRaw, parseReply } from '../exchange.ts';
import { GoldenNode } from '../golden-node.ts';
import { recordings } from '../golden-records.ts';

const SOON_MS = 60_000;
const HEALTHZ = 'GET /healthz HTTP/1.1\r\nHost: node1\r\n\r\n';

let node: GoldenNode;
beforeEach(async () => {
  node = await GoldenNode.start();
});
afterEach(() => node.close());

function shake(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false, ...options }, () => resolve(socket));
    socket.once('error', reject);
  });
}

/** One request on a connection that stays open. */
async function ask(socket: TLSSocket, request = HEALTHZ): Promise<number> {
  const chunk = await new Promise<Buffer>((resolve) => {
    socket.once('data', resolve);
    socket.write(request);
  });
  return parseReply(chunk).status;
}

async function eventually(what: string, probe: () => Promise<boolean> | boolean): Promise<void> {
  const end = Date.now() + SOON_MS;
  while (!(await probe())) {
    if (Date.now() > end) throw new Error(`${what}: not within ${SOON_MS} ms; said ${JSON.stringify(node.emitted)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

describe('a handshake', () => {
  const recorded = recordings().filter(({ group, id }) => group === 'tls' && id !== 'tls-client-ca-list');
  type Handshake = { request?: { alpn?: string[] }; result: { alpn?: null; version?: string; error?: string } };

  it('is what the recorded kubelet made of it: no ALPN, TLS 1.2 and 1.3, nothing older', async () => {
    const port = await node.serve('A');
    for (const each of recorded) {
      const { request, result } = each as unknown as Handshake;
      const only = /^tls-(TLSv1(?:_\d)?)$/.exec(each.id)?.[1]?.replace('_', '.') as 'TLSv1.2' | undefined;
      const versions = only ? { minVersion: only, maxVersion: only, ciphers: 'ALL:@SECLEVEL=0' } : {};
      const shaken = shake(port, { ...versions, ...(request?.alpn ? { ALPNProtocols: request.alpn } : {}) });
      const socket = await shaken.catch((error: Error) => error);
      const isRefused = socket instanceof Error;
      const refusal = isRefused && /protocol version/i.test(socket.message) ? 'protocol version' : null;
      expect(refusal, each.id).toBe(result.error === undefined ? null : 'protocol version');
      expect(isRefused ? undefined : socket.getProtocol(), each.id).toBe(result.version);
      expect(isRefused ? false : socket.alpnProtocol, each.id).toBe(false);
      if (!isRefused) socket.destroy();
    }
    expect(recorded.length).toBeGreaterThanOrEqual(7);
  });

  it('that is none is told so', async () => {
    const port = await node.serve('A');
    const answer = await exchangeRaw(HEALTHZ, { port, isPlain: true });
    expect(answer.toString()).toBe('HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n');
  });

  it('has the suites that are configured, by the names of the configuration', () => {
    expect(protocolOf({ minVersion: '', cipherSuites: [] })).toMatchObject({ minVersion: 'TLSv1.2' });
    expect(protocolOf({ minVersion: 'VersionTLS10', cipherSuites: [] }).minVersion).toBe('TLSv1.2');
    expect(protocolOf({ minVersion: 'VersionTLS13', cipherSuites: [] }).minVersion).toBe('TLSv1.3');
    const { ciphers } = protocolOf({ minVersion: '', cipherSuites: ['TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384'] });
    expect(ciphers.split(':').filter((name) => !name.startsWith('TLS_'))).toEqual(['ECDHE-RSA-AES256-GCM-SHA384']);
  });

  it.each(['X25519MLKEM768', 'SecP256r1MLKEM768', 'X25519', 'P-256', 'P-384', 'P-521'])(
    'agrees on a key by %s, as upstream by default',
    async (ecdhCurve) => {
      const socket = await shake(await node.serve('A'), { ecdhCurve });
      expect(socket.getProtocol()).toBe('TLSv1.3');
      socket.destroy();
    },
  );

  it('agrees on no key by others', async () => {
    await expect(shake(await node.serve('A'), { ecdhCurve: 'X448' })).rejects.toThrow(/handshake failure/);
  });

  it('agrees on a key by a curve that is configured', async () => {
    const port = await node.serve('A', {}, { curves: ['P-384'] });
    const socket = await shake(port);
    expect(socket.getEphemeralKeyInfo()).toMatchObject({ name: 'secp384r1' });
    socket.destroy();
    await expect(shake(port, { ecdhCurve: 'X25519' })).rejects.toThrow(/handshake failure/);
  });
});

describe('a file that changes', () => {
  const issue = (authority: Authority) => authority.issue({ commonName: 'again', usages: ['server auth'], names: [] });

  it('is the certificate of the next handshake; connections go on', async () => {
    const port = await node.serve('A');
    const socket = await shake(port, { ...node.shown('x509-admin').certificate });
    expect(await ask(socket)).toBe(200);
    const { cert, key } = await issue(node.authority);
    writeFileSync(node.file('kubelet.crt'), cert);
    writeFileSync(node.file('kubelet.key'), key);
    await eventually('certificateChanged', () => node.emitted.some(({ type }) => type === 'server.certificateChanged'));
    const next = await shake(port);
    expect(next.getPeerX509Certificate()?.subject).toBe('CN=again');
    expect(await ask(socket)).toBe(200);
    for (const each of [socket, next]) each.destroy();
  });

  it('is read no more where a gate says so, and its neighbour is', async () => {
    const port = await node.serve('A', {}, { isFixed: true });
    const { cert, key } = await issue(node.authority);
    writeFileSync(node.file('kubelet.crt'), cert);
    writeFileSync(node.file('kubelet.key'), key);
    writeFileSync(node.file('ca.crt'), node.authority.caPem + (await Authority.create('other')).caPem);
    await eventually('clientCAChanged', () => node.emitted.some(({ type }) => type === 'server.clientCAChanged'));
    const socket = await shake(port);
    expect(socket.getPeerX509Certificate()?.subject).toBe('CN=node1');
    expect(node.emitted.map(({ type }) => type)).not.toContain('server.certificateChanged');
    socket.destroy();
  });

  it('is not used when it does not fit, and why is said once', async () => {
    const port = await node.serve('A');
    writeFileSync(node.file('kubelet.crt'), (await issue(node.authority)).cert);
    await eventually('reloadFailed', () => node.emitted.some(({ type }) => type === 'server.reloadFailed'));
    const socket = await shake(port);
    expect(socket.getPeerX509Certificate()?.subject).toBe('CN=node1');
    expect(node.emitted.filter(({ type }) => type === 'server.reloadFailed')).toHaveLength(1);
    socket.destroy();
  });

  it('is the authority of clients: certificates of the old one do not count, on an open connection, too', async () => {
    const port = await node.serve('A');
    const old = await shake(port, { ...node.shown('x509-admin').certificate });
    expect(await ask(old)).toBe(200);
    const other = await Authority.create('rotated-ca');
    const fresh = await other.issue({
      commonName: 'admin',
      organizations: ['system:masters'],
      usages: ['client auth'],
    });
    writeFileSync(node.file('ca.crt'), node.authority.caPem + other.caPem);
    await eventually(
      'both',
      async () => (await exchange('GET', '/healthz', { port, shown: { certificate: fresh } })).status === 200,
    );
    expect(await ask(old), 'still in the bundle').toBe(200);
    writeFileSync(node.file('ca.crt'), other.caPem);
    await eventually('the new one alone', async () => (await ask(old)) === 401);
    expect((await exchange('GET', '/healthz', { port, shown: { certificate: fresh } })).status).toBe(200);
    old.destroy();
  });
});

describe('a node that was given no certificate', () => {
  it('makes one like the recorded kubelet, once', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'statelet-pki-'));
    const files = await selfSigned(directory, 'node1');
    const text = readFileSync(files.certFile, 'utf8');
    const certificate = new X509Certificate(text);
    expect(certificate.subject).toMatch(/^CN=node1@\d{10}$/);
    expect(certificate.subjectAltName).toBe('DNS:node1');
    expect(certificate.publicKey.asymmetricKeyType).toBe('rsa');
    expect(Math.round((certificate.validToDate.getTime() - Date.now()) / 86_400_000)).toBe(365);
    expect(text.match(/BEGIN CERTIFICATE/g)).toHaveLength(2);
    expect([files.certFile, files.keyFile].map((file) => statSync(file).mode & 0o777)).toEqual([0o644, 0o600]);
    await selfSigned(directory, 'node1');
    expect(readFileSync(files.certFile, 'utf8')).toBe(text);
    rmSync(directory, { recursive: true });
  });

  it('completes a pair of which an agent that was killed has put only the key into its place', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'statelet-pki-'));
    const { certFile } = await selfSigned(directory, 'node1');
    const text = readFileSync(certFile, 'utf8');
    renameSync(certFile, `${certFile}.new`);
    await selfSigned(directory, 'node1');
    expect([readFileSync(certFile, 'utf8'), readdirSync(directory)]).toEqual([text, ['kubelet.crt', 'kubelet.key']]);
    rmSync(directory, { recursive: true });
  });

  it.each([
    ['kubelet.key', 'kubelet.crt'],
    ['kubelet.crt', 'kubelet.key'],
  ])('leaves %s alone when there is no %s', async (there, missing) => {
    const directory = mkdtempSync(join(tmpdir(), 'statelet-pki-'));
    writeFileSync(join(directory, there), 'mine');
    await expect(selfSigned(directory, 'node1')).rejects.toThrow(
      `error reading ${join(directory, missing)}, certificate and key must be supplied as a pair`,
    );
    expect(readdirSync(directory)).toEqual([there]);
    expect(readFileSync(join(directory, there), 'utf8')).toBe('mine');
    rmSync(directory, { recursive: true });
  });
});
