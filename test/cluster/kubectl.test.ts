/**
 * A node of a cluster as its users see it: by kubectl, through an API server (a real one if there is one), with the
 * journal as a proof of what happened.
 */
import { spawn, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Cluster, startCluster } from '../support/cluster.ts';
import { eventually, TestNode } from '../support/daemon.ts';
import { untilNothingIsLost } from '../support/kubectl-race.ts';
import { requirement } from '../support/require.ts';

const CANARY = 'canary-77aa-of-the-cluster';
/** What takes a second takes much longer on a busy machine. */
const POD_LIMIT_S = 60;
const EXIT_CODE = 'jsonpath={.status.containerStatuses[0].state.terminated.exitCode}';

const missing = spawnSync('kubectl', ['version', '--client']).status === 0 ? null : 'there is no kubectl';

describe.skipIf(requirement('kubectl', missing).skip)('kubectl and a node', () => {
  let cluster: Cluster;
  let node: TestNode;
  let kubeconfig: string;
  beforeAll(async () => {
    cluster = await startCluster();
    kubeconfig = await cluster.kubeconfig();
    node = new TestNode({ flags: ['-v=4'] });
    await node.start([
      `--kubeconfig=${await cluster.kubeconfig('system:node:node1')}`,
      `--client-ca-file=${cluster.caFile}`,
    ]);
  });
  afterAll(async () => {
    await node?.close();
    await cluster?.close();
  });

  /** Asynchronous, because the test API server answers from this process. */
  async function run(argv: readonly string[], stdin: string) {
    const own = [`--kubeconfig=${kubeconfig}`, `--cache-dir=${join(node.directory, 'kubectl-cache')}`];
    const child = spawn('kubectl', [...own, ...argv], { stdio: ['pipe', 'pipe', 'pipe'] });
    const output = { stdout: '', stderr: '' };
    child.stdout.on('data', (chunk) => (output.stdout += String(chunk)));
    child.stderr.on('data', (chunk) => (output.stderr += String(chunk)));
    child.stdin.end(stdin);
    const status = await new Promise<number | null>((ended) => child.once('close', ended));
    return { status, ...output };
  }
  async function kubectl(argv: readonly string[], stdin = ''): Promise<string> {
    const { status, stdout, stderr } = await untilNothingIsLost(() => run(argv, stdin));
    if (status !== 0) throw new Error(`kubectl ${argv.join(' ')}: ${stderr}\n${node.log}`);
    return stdout;
  }
  const apply = (object: object) => kubectl(['apply', '-f', '-'], JSON.stringify(object));
  const wait = (what: string, condition: string) =>
    kubectl(['wait', what, `--for=${condition}`, `--timeout=${POD_LIMIT_S}s`]);
  const pod = (name: string, script: string, container: object = {}, spec: object = {}) => ({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      nodeName: 'node1',
      hostNetwork: true,
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 2,
      containers: [{ name: 'c', image: 'busybox', command: ['sh', '-c', script], ...container }],
      ...spec,
    },
  });

  it('show that it is ready, and what it is', async () => {
    // kubectl waits for a condition, but not for the existence of its object.
    await eventually('the Node', () => kubectl(['get', 'node', 'node1']), POD_LIMIT_S * 1_000);
    await wait('node/node1', 'condition=Ready');
    expect(await kubectl(['get', 'nodes'])).toMatch(/node1 +Ready +<none> +\S+ +v1\.36\.\d+\+statelet\./);
    const described = await kubectl(['describe', 'node', 'node1']);
    expect(described).toMatch(/Ready +True .*KubeletReady +kubelet is posting ready status/);
    expect(described).toContain('InternalIP:  127.0.0.1');
  });

  it('run a pod, look into it, and end it', async () => {
    await apply(pod('web', 'echo it runs; trap "exit 0" TERM; sleep 3600 & wait'));
    await wait('pod/web', 'condition=Ready');
    expect(await kubectl(['get', 'pod', 'web'])).toMatch(/web +1\/1 +Running +0/);
    // An older API server drops fields that it does not know.
    const { serverVersion } = JSON.parse(await kubectl(['version', '-o', 'json']));
    const generation = (Number.parseInt(serverVersion.minor, 10) || 0) >= 34 ? '1' : '';
    const jsonPath = 'jsonpath={.status.podIP} {.status.observedGeneration}';
    expect(await kubectl(['get', 'pod', 'web', '-o', jsonPath])).toBe(`127.0.0.1 ${generation}`);
    expect(await kubectl(['logs', 'web'])).toBe('it runs\n');
    expect(await kubectl(['exec', 'web', '--', 'sh', '-c', 'echo $((6 * 7))'])).toBe('42\n');
    await kubectl(['delete', 'pod', 'web']);
    expect(await kubectl(['get', 'pods', '-o', 'name'])).not.toContain('web');
    const events = await kubectl([
      'get',
      'events',
      '-o',
      'jsonpath={range .items[*]}{.involvedObject.name}={.reason} {end}',
    ]);
    for (const reason of ['Pulled', 'Created', 'Started', 'Killing']) expect(events).toContain(`web=${reason}`);
  });

  it('show how a pod ended that was to end', async () => {
    await apply(pod('once', 'exit 3', {}, { restartPolicy: 'Never' }));
    await wait('pod/once', 'jsonpath={.status.phase}=Failed');
    expect(await kubectl(['get', 'pod', 'once', '-o', EXIT_CODE])).toBe('3');
    await kubectl(['delete', 'pod', 'once']);
  });

  it('give a pod the content of a Secret, and to no other pod', async () => {
    await apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'token' }, stringData: { value: CANARY } });
    const env = [{ name: 'VALUE', valueFrom: { secretKeyRef: { name: 'token', key: 'value' } } }];
    // It prints the length of the value instead of the value, which would be in a log file, where it belongs to the
    // pod.
    await apply(pod('reader', 'exit ${#VALUE}', { env }, { restartPolicy: 'Never' }));
    await wait('pod/reader', 'jsonpath={.status.phase}=Failed');
    expect(await kubectl(['get', 'pod', 'reader', '-o', EXIT_CODE])).toBe(String(CANARY.length));
    const written = filesBelow(node.journal).filter((file) => readFileSync(file).includes(CANARY));
    expect(written).toEqual([]);
    expect(node.log).not.toContain(CANARY);
    await kubectl(['delete', 'pod', 'reader']);
  });

  it('leave a journal that replays', async () => {
    await node.stop();
    const { code, stdout, stderr } = node.statelet('replay', node.journal);
    expect(code, `${stdout}${stderr}`).toBe(0);
  });
});

const filesBelow = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile());
