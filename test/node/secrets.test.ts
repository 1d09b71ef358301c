/** Planted credentials: nothing that the daemon writes may contain them. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { eventually, SLEEP, shellPod, TestNode } from '../support/daemon.ts';

const [IN_FILE, IN_ARGUMENTS] = ['canary-5f1d-in-the-file', 'canary-9c2e-in-the-arguments'];

let node: TestNode;
afterEach(() => node.close());

it('writes no header of the manifest URL to journal, log or any other file', async () => {
  node = new TestNode({
    configuration: `staticPodURLHeader: { Authorization: ["${IN_FILE}"] }`,
    flags: [`--manifest-url-header=X-Token:${IN_ARGUMENTS}`, '-v=4'],
  });
  await node.start();
  expect(await node.stop()).toBe(0);
  const written = filesBelow(node.rootDir);
  expect(written.some((file) => file.startsWith(node.journal))).toBe(true);
  const journals = written.filter((file) => file.startsWith(node.journal)).map((file) => readFileSync(file, 'utf8'));
  expect(journals.join('')).toMatch(/"--manifest-url-header=X-Token:[^"]+"/);
  for (const canary of [IN_FILE, IN_ARGUMENTS]) {
    expect(written.filter((file) => readFileSync(file).includes(canary))).toEqual([]);
    expect(node.log).not.toContain(canary);
  }
});

/** One text of each kind that users consider secret. */
const PLANTED = {
  secret: 'canary-secret-4b1f',
  command: 'canary-in-the-command-77aa',
  variable: 'canary-variable-90c2',
  header: 'canary-header-d3e8',
  hook: 'canary-hook-1c55',
  url: 'canary-url-6f02',
  argument: 'canary-argument-8a3e',
};

const isPlanted = (text: string): readonly string[] => Object.values(PLANTED).filter((canary) => text.includes(canary));

const secret = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'login' },
  stringData: { password: PLANTED.secret, program: PLANTED.command },
};
const headers = (value: string) => [{ name: 'X-Token', value }];
const fromSecret = (key: string) => ({ secretKeyRef: { name: 'login', key } });
const containers = [
  {
    name: 'c',
    image: 'busybox',
    command: ['sh', '-c', `echo "got $PASSWORD $WRITTEN $0 $1"; ${SLEEP}`],
    args: ['$(PASSWORD)', PLANTED.argument],
    env: [
      { name: 'PASSWORD', valueFrom: fromSecret('password') },
      { name: 'WRITTEN', value: PLANTED.variable },
    ],
    livenessProbe: {
      httpGet: { port: 1, httpHeaders: headers(PLANTED.header) },
      failureThreshold: 100,
      periodSeconds: 1,
    },
    lifecycle: { preStop: { httpGet: { port: 1, httpHeaders: headers(PLANTED.hook) } } },
  },
  {
    name: 'no-such-program',
    image: 'busybox',
    command: ['/$(PROGRAM)', '$(WRITTEN)'],
    env: [
      { name: 'PROGRAM', valueFrom: fromSecret('program') },
      { name: 'WRITTEN', value: PLANTED.variable },
    ],
  },
];

it('has no secret that pods are given in its journal, its log and what commands print of them', async () => {
  node = new TestNode({ flags: [`--manifest-url=http://me:${PLANTED.url}@127.0.0.1:1/pods`, '-v=4'] });
  node.write('secret.json', secret);
  node.write('web.json', {
    ...shellPod('web', 'busybox', SLEEP),
    spec: { containers, terminationGracePeriodSeconds: 1 },
  });
  await node.start();
  const got = `got ${PLANTED.secret} ${PLANTED.variable} ${PLANTED.secret} ${PLANTED.argument}`;
  await eventually('the values in the container', () => node.containerLog('web', 'c').includes(got));
  await eventually('the end of the other', () => /no-such-program.*(CrashLoopBackOff|Error)/.test(node.log));
  expect(await node.stop()).toBe(0);
  for (const file of filesBelow(node.journal)) expect(isPlanted(readFileSync(file, 'latin1')), file).toEqual([]);
  expect(isPlanted(node.log)).toEqual([]);
  for (const verb of [['why'], ['replay', '--output', 'json'], ['time']]) {
    const { stdout, stderr } = node.statelet(verb[0]!, node.journal, ...verb.slice(1));
    expect(isPlanted(stdout + stderr), verb[0]).toEqual([]);
  }
  expect(node.statelet('replay', node.journal).code).toBe(0);
});

const filesBelow = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile());
