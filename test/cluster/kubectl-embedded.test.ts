/**
 * kubectl and `statelet exec` at a node with the embedded runtime: exec, attach and port-forward, by WebSocket and by
 * SPDY, with and without a terminal.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { eventually, TestNode } from '../support/daemon.ts';
import { untilNothingIsLost } from '../support/kubectl-race.ts';
import { freePort } from '../support/ports.ts';
import { requirement } from '../support/require.ts';

const STATELET = join(import.meta.dirname, '../../src/bin/statelet.js');
const missing = ['kubectl', 'script'].find((tool) => spawnSync('which', [tool]).status !== 0);
const skip = requirement('kubectl', missing === undefined ? null : `there is no ${missing}`).skip;

/** What takes a second takes much longer on a busy machine. */
const STARTING_MS = 60_000;
const SCRIPT = 'echo ready; trap "exit 0" TERM; while read line; do echo got $line; done; while :; do sleep 1; done';

describe.skipIf(skip)('streams of the embedded runtime', () => {
  let node: TestNode;
  let cluster: Cluster;
  let kubeconfig: string;

  beforeAll(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig('admin');
    node = new TestNode({ flags: [`--client-ca-file=${cluster.caFile}`] });
    await node.start([`--kubeconfig=${await cluster.kubeconfig('system:node:node1')}`]);
    await cluster.admin.create(pod('app', { command: ['sh', '-c', SCRIPT], stdin: true }));
    await cluster.admin.create(pod('shell', { command: ['sh'], stdin: true, tty: true }));
    await eventually(
      'both run',
      async () =>
        (await cluster.admin.list('pods')).every(({ status }) => (status as { phase?: string }).phase === 'Running'),
      STARTING_MS,
    );
  });
  afterAll(async () => {
    try {
      for (const name of ['app', 'shell']) await cluster?.admin.delete('pods', name, 1);
      await eventually('the pods are gone', async () => (await cluster.admin.list('pods')).length === 0, STARTING_MS);
    } finally {
      await node?.close();
      await cluster?.close();
    }
  });

  /** Runs a file with its arguments, or a line in a terminal. */
  async function run(argv: readonly string[], { stdin = '', env = {} }: { stdin?: string; env?: object } = {}) {
    const [file = '', ...args] = argv;
    const child = spawn(file, args, { env: { ...process.env, ...env } });
    const output = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const)
      child[name].on('data', (chunk) => (output[name] += String(chunk)));
    child.stdin.end(stdin);
    const [code] = (await once(child, 'close')) as [number];
    return { code, ...output };
  }
  /** On a terminal, kubectl's own messages are in the same output. */
  async function onOneStream(argv: readonly string[], env: object, stdin = '') {
    const { code, stdout } = await run(argv, { stdin, env });
    return { code, stdout, stderr: stdout };
  }
  const kubectl = (...argv: string[]) => [
    'kubectl',
    `--kubeconfig=${kubeconfig}`,
    `--cache-dir=${join(node.directory, 'cache')}`,
    ...argv,
  ];
  const quoted = (argv: readonly string[]) => argv.map((word) => `'${word}'`).join(' ');
  const onTerminal = (argv: readonly string[]) => ['script', '-qec', quoted(argv), '/dev/null'];

  describe.each(['true', 'false'])('by WebSocket: %s', (isWebSocket) => {
    const env = { KUBECTL_REMOTE_COMMAND_WEBSOCKETS: isWebSocket, KUBECTL_PORT_FORWARD_WEBSOCKETS: isWebSocket };

    it('exec passes input, output and the exit code', async () => {
      const echo = () => run(kubectl('exec', '-i', 'app', '--', 'cat'), { stdin: 'typed\n', env });
      expect(await untilNothingIsLost(echo)).toMatchObject({
        code: 0,
        stdout: 'typed\n',
      });
      const fail = () => run(kubectl('exec', 'app', '--', 'sh', '-c', 'echo no >&2; exit 7'), { env });
      expect(await untilNothingIsLost(fail)).toEqual({
        code: 7,
        stdout: '',
        stderr: 'no\ncommand terminated with exit code 7\n',
      });
    });

    it('exec on a terminal has one', async () => {
      const argv = kubectl('exec', '-it', 'app', '--', 'sh', '-c', 'tty; exit 3');
      const { code, stdout } = await untilNothingIsLost(() => onOneStream(onTerminal(argv), env));
      expect([code, stdout]).toEqual([3, expect.stringMatching(/\/dev\/pts\/\d+\r\n/)]);
    });

    it('attach speaks to the process of the container', async () => {
      const { code, stdout } = await run(kubectl('attach', '-i', 'app'), { stdin: 'hello\n', env });
      expect([code, stdout]).toEqual([0, expect.stringMatching(/^(got hello\n)?$/)]);
      await eventually('the process has heard it', async () =>
        (await run(kubectl('logs', 'app'))).stdout.includes('got hello'),
      );
      const attached = onTerminal(kubectl('attach', '-it', 'shell'));
      const { stdout: typed } = await untilNothingIsLost(() => onOneStream(attached, env, 'echo $((40 + 2))\n'));
      expect(typed).toContain('\r\n42\r\n');
    });

    it('port-forward reaches what listens on the machine', async () => {
      const web = createServer((_request, response) => response.end('hello from here\n')).listen(0, '127.0.0.1');
      await once(web, 'listening');
      const [from, to] = [await freePort(), (web.address() as { port: number }).port];
      const [file = '', ...argv] = kubectl('port-forward', 'app', `${from}:${to}`, '--address=127.0.0.1');
      const child = spawn(file, argv, { env: { ...process.env, ...env } });
      await once(child.stdout, 'data');
      const bodies = await Promise.all(
        Array.from({ length: 20 }, async () => (await fetch(`http://127.0.0.1:${from}/`)).text()),
      );
      child.kill('SIGINT');
      web.close();
      expect(bodies).toEqual(Array.from({ length: 20 }, () => 'hello from here\n'));
    });
  });

  it('statelet exec has input, a terminal and the exit code', async () => {
    const statelet = (...argv: string[]) => [process.execPath, STATELET, 'exec', `--root-dir=${node.rootDir}`, ...argv];
    expect(await run(statelet('app', '-i', '--', 'cat'), { stdin: 'typed\n' })).toMatchObject({
      code: 0,
      stdout: 'typed\n',
    });
    const { code, stdout } = await run(onTerminal(statelet('app', '-it', '--', 'sh', '-c', 'tty; exit 3')));
    expect([code, stdout]).toEqual([3, expect.stringMatching(/\/dev\/pts\/\d+\r+\n/)]);
  });
});

const pod = (name: string, container: object) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'default' },
  spec: {
    nodeName: 'node1',
    hostNetwork: true,
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'c', image: 'statelet.local/host:latest', ...container }],
  },
});
