/** Programs that have credentials: their input, how often they run, and their errors. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ExecPlugin } from '../../../src/actors/kube/exec-plugin.ts';
import type { ExecCommand } from '../../../src/actors/kube/kubeconfig.ts';

const V1 = 'client.authentication.k8s.io/v1';
let directory: string;
beforeAll(() => void (directory = mkdtempSync(join(tmpdir(), 'plugin-'))));
afterAll(() => rmSync(directory, { recursive: true }));

const shell = (script: string, more: Partial<ExecCommand> = {}): ExecCommand => ({
  command: 'sh',
  args: ['-c', script],
  env: [],
  apiVersion: V1,
  interactiveMode: 'Never',
  ...more,
});
const answering = (status: object | null, more: object = {}) =>
  `cat <<'END'\n${JSON.stringify({ apiVersion: V1, kind: 'ExecCredential', status, ...more })}\nEND`;

it('tells the program what is asked, and about the cluster if that is wanted', async () => {
  const place = join(directory, 'told');
  const script = `printf '%s %s' "$OWN" "$KUBERNETES_EXEC_INFO" > ${place}; ${answering({ token: 't' })}`;
  const cluster = { server: 'https://x' };
  const plugin = new ExecPlugin(shell(script, { env: [{ name: 'OWN', value: 'mine' }], cluster }));
  await expect(plugin.current()).resolves.toMatchObject({ token: 't', cert: undefined });
  const [own, info] = readFileSync(place, 'utf8').split(/ (.*)/s);
  expect(own).toBe('mine');
  expect(JSON.parse(info!)).toEqual({ kind: 'ExecCredential', apiVersion: V1, spec: { cluster, interactive: false } });
});

it('runs the program once for all that wait, and again when its answer has expired or was refused', async () => {
  const runs = join(directory, 'runs');
  writeFileSync(runs, '');
  let nowMs = 0;
  const status = { token: 't', expirationTimestamp: new Date(1_000).toISOString() };
  const plugin = new ExecPlugin(shell(`echo run >> ${runs}; ${answering(status)}`), { now: () => nowMs });
  const counted = async (times: number) => {
    await Promise.all(Array.from({ length: times }, () => plugin.current()));
    return readFileSync(runs, 'utf8').trim().split('\n').length;
  };
  expect(await counted(3)).toBe(1);
  nowMs = 1_000;
  expect(await counted(1)).toBe(1);
  nowMs = 1_001;
  expect(await counted(1)).toBe(2);
  nowMs = 0;
  plugin.expire();
  expect(await counted(2)).toBe(3);
});

it.each([
  [shell('', { command: '/no/such' }), 'exec: executable /no/such not found'],
  [shell('echo why >&2; exit 3'), 'exec: executable sh failed with exit code 3: why'],
  [
    shell('', { interactiveMode: 'Always' }),
    'exec plugin cannot support interactive mode: standard input is not a terminal',
  ],
  [shell('echo canary'), 'decoding stdout: it is no JSON'],
  [shell('head -c 2000000 /dev/zero'), 'exec: executable sh answered with too many bytes'],
  [
    shell(answering({ token: 't' }), { apiVersion: `${V1}beta1` }),
    `exec plugin is configured to use API version ${V1}beta1, plugin returned version ${V1}`,
  ],
  [shell(answering(null)), "exec plugin didn't return a status field"],
  [shell(answering({})), "exec plugin didn't return a token or cert/key pair"],
  [shell(answering({ clientKeyData: 'x' })), 'exec plugin returned only certificate or key, not both'],
  [
    shell(answering({ clientCertificateData: 'x', clientKeyData: 'x' })),
    'failed parsing client key/certificate: tls: failed to find any PEM data in certificate input',
  ],
])('says why it failed: %#', async (exec, why) => {
  await expect(new ExecPlugin(exec).current()).rejects.toThrow(`getting credentials: ${why}`);
});

it('gives up a program that does not end, also when it has started another one', async () => {
  const plugin = new ExecPlugin(shell('sleep 20 & sleep 20'), { deadlineMs: 200 });
  const began = performance.now();
  await expect(plugin.current()).rejects.toThrow('exec: executable sh did not end in time');
  expect(performance.now() - began).toBeLessThan(10_000);
});
