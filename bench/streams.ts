/**
 * Measures a hundred MiB through the node's API, and through the runtime's streaming server alone: exec by WebSocket
 * and by SPDY, port-forward by SPDY. A checksum covers every byte: a wrong one ends the run.
 *
 *     node bench/streams.ts [--rounds 5] [--mib 100]
 *
 * Requires containerd. The API uses TLS with a client certificate, and the runtime's server does not, as in practice.
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { parseArgs } from 'node:util';
import { WebSocket } from 'ws';
import { connectRuntime, type RuntimeClient } from '../src/actors/cri/client.ts';
import { runtimeStreamUrls } from '../src/actors/server/streaming/endpoints.ts';
import { SpdyClient } from '../src/actors/spdy/client.ts';
import { Authority, type Credential } from '../test/fakes/api-server/pki.ts';
import { containerdAvailable, startContainerd } from '../test/support/containerd.ts';
import { eventually, SLEEP, shellPod, TestNode } from '../test/support/daemon.ts';
import { load, type Measure, printMeasures } from './statistics.ts';

const MIB = 1024 * 1024;
const PORT = 8080;
const BYTE = 'x';
const FILE = '/www/large';
const IDENTITY = { commonName: 'bench', organizations: ['system:masters'], usages: ['client auth'] };
const CONTROL = "the runtime's streaming server, asked directly";
const ASK_TIMEOUT_MS = 10_000;
const INSECURE = { rejectUnauthorized: false, agent: false } as const;

const { values: flags } = parseArgs({
  options: { rounds: { type: 'string', default: '5' }, mib: { type: 'string', default: '100' } },
});
const size = Number(flags.mib) * MIB;
const SCRIPT = `mkdir -p /www; head -c ${size} /dev/zero | tr '\\0' ${BYTE} > ${FILE}; httpd -p ${PORT} -h /www; ${SLEEP}`;

/** Sums the received bytes. */
class Receiver {
  private readonly hash = createHash('sha256');
  private bytes = 0;

  take(chunk: Uint8Array): void {
    this.bytes += chunk.length;
    this.hash.update(chunk);
  }

  /** @throws if the bytes are not those that were sent */
  check(): void {
    const sent = createHash('sha256').update(Buffer.alloc(size, BYTE)).digest('hex');
    if (this.bytes !== size || this.hash.digest('hex') !== sent) {
      throw new Error(`${this.bytes} bytes came of ${size}, or others than were sent`);
    }
  }
}

async function spdyTo(url: string, protocol: string, credential: Partial<Credential>): Promise<SpdyClient> {
  const ask = url.startsWith('https:') ? httpsRequest : httpRequest;
  const headers = { Connection: 'Upgrade', Upgrade: 'SPDY/3.1', 'X-Stream-Protocol-Version': protocol };
  const asked = ask(url, { method: 'POST', headers, ...credential, ...INSECURE });
  asked.end();
  const [, socket, head] = (await once(asked, 'upgrade')) as [IncomingMessage, Duplex, Buffer];
  return new SpdyClient(socket, head);
}

async function outputBySpdy(url: string, credential: Partial<Credential>): Promise<Receiver> {
  const spdy = await spdyTo(url, 'v4.channel.k8s.io', credential);
  const receiver = new Receiver();
  await new Promise<void>((ended) => {
    spdy.open({ streamType: 'error' }, {});
    spdy.open({ streamType: 'stdout' }, { data: (chunk) => receiver.take(chunk), end: ended });
  });
  spdy.close();
  return receiver;
}

async function outputByWebSocket(url: string, credential: Credential): Promise<Receiver> {
  const client = new WebSocket(url.replace('https', 'wss'), ['v5.channel.k8s.io'], { ...credential, ...INSECURE });
  const receiver = new Receiver();
  client.on('message', (data: Buffer) => {
    if (data[0] === 1) receiver.take(data.subarray(1));
  });
  await once(client, 'close');
  return receiver;
}

/** The body of the answer from the server in the pod. */
async function bodyByPort(url: string, credential: Partial<Credential>): Promise<Receiver> {
  const spdy = await spdyTo(url, 'portforward.k8s.io', credential);
  const receiver = new Receiver();
  await new Promise<void>((ended) => {
    const headers = { port: String(PORT), requestID: '0' };
    let head = Buffer.alloc(0);
    let isHead = true;
    const take = (chunk: Buffer) => {
      if (!isHead) return receiver.take(chunk);
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf('\r\n\r\n');
      isHead = end < 0;
      return isHead ? undefined : receiver.take(head.subarray(end + 4));
    };
    spdy.open({ streamType: 'error', ...headers }, {}).end();
    const data = spdy.open({ streamType: 'data', ...headers }, { data: take, end: ended });
    data.write(Buffer.from('GET /large HTTP/1.0\r\n\r\n'));
  });
  spdy.close();
  return receiver;
}

/** MiB per second. */
async function throughput(transfer: () => Promise<Receiver>): Promise<number> {
  const before = performance.now();
  const receiver = await transfer();
  const tookMs = performance.now() - before;
  receiver.check();
  return size / MIB / (tookMs / 1_000);
}

interface Ids {
  readonly containerId: string;
  readonly podSandboxId: string;
}

/** The ids of the pod, once its file is complete and served. */
async function idsOf(client: RuntimeClient): Promise<Ids | null> {
  const limits = () => ({ timeoutMs: ASK_TIMEOUT_MS, signal: AbortSignal.timeout(ASK_TIMEOUT_MS) });
  const { containers } = await client.call(
    'ListContainers',
    { filter: { state: { state: 'CONTAINER_RUNNING' } } },
    limits(),
  );
  const [container] = containers;
  if (!container) return null;
  const cmd = ['sh', '-c', `[ $(stat -c %s ${FILE}) = ${size} ] && netstat -ltn | grep -q :${PORT}`];
  const { exit_code: code } = await client.call(
    'ExecSync',
    { container_id: container.id, cmd, timeout: '5' },
    limits(),
  );
  return code === 0 ? { containerId: container.id, podSandboxId: container.pod_sandbox_id } : null;
}

async function measured(node: TestNode, client: RuntimeClient, ids: Ids, credential: Credential): Promise<Measure[]> {
  const runtime = runtimeStreamUrls(client.call.bind(client));
  const output = { stdin: false, stdout: true, stderr: false, tty: false };
  const command = ['cat', FILE];
  const base = `https://127.0.0.1:${node.port}`;
  const exec = `${base}/exec/default/stream-node1/c?command=cat&command=${encodeURIComponent(FILE)}&output=1`;
  const forward = `${base}/portForward/default/stream-node1`;
  const alone = async () => outputBySpdy(await runtime.exec({ ...output, ...ids, command }), {});
  const portAlone = async () => bodyByPort(await runtime.portForward({ ...ids, ports: [] }), {});
  const rows = [
    { name: 'exec by WebSocket', control: alone, ours: () => outputByWebSocket(exec, credential) },
    { name: 'exec by SPDY', control: alone, ours: () => outputBySpdy(exec, credential) },
    { name: 'port-forward by SPDY', control: portAlone, ours: () => bodyByPort(forward, credential) },
  ];
  const measures: Measure[] = rows.map(({ name }) => ({ name, unit: 'MiB/s', control: CONTROL, rounds: [] }));
  for (let round = 0; round < Number(flags.rounds); round++) {
    for (const [at, { control, ours }] of rows.entries()) {
      measures[at]!.rounds.push({ control: [await throughput(control)], ours: [await throughput(ours)] });
    }
  }
  return measures;
}

async function main(): Promise<void> {
  const missing = containerdAvailable();
  if (missing !== null) throw new Error(missing);
  const [containerd, authority] = await Promise.all([startContainerd(), Authority.create('bench-ca')]);
  const credential = await authority.issue(IDENTITY);
  const caFile = join(containerd.directory, 'client-ca.crt');
  writeFileSync(caFile, authority.caPem);
  const node = new TestNode({ endpoint: containerd.endpoint, flags: [`--client-ca-file=${caFile}`] });
  const client = connectRuntime({ endpoint: containerd.endpoint });
  try {
    await node.start();
    node.write('stream.json', shellPod('stream', containerd.image, SCRIPT));
    const ids = await eventually('the container runs', () => idsOf(client), 60_000);
    printMeasures(await measured(node, client, ids, credential));
    console.log(`  load ${load()}; each of ${flags.mib} MiB, checksums right`);
  } finally {
    client.close();
    await node.stop();
    await node.close();
    await containerd.close();
  }
}

await main();
