/** `statelet config print` and `statelet run --validate` as processes. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';

const STATELET = join(import.meta.dirname, '../../src/bin/statelet.js');
const FILE = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: { webhook: { enabled: false } }
authorization: { mode: AlwaysAllow }
failCgroupV1: false
maxPods: 20
clusterDNS: [192.0.2.53]
staticPodURLHeader: { Authorization: [s3cret] }
`;

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'statelet-config-'));
  writeFileSync(join(directory, 'kubelet.yaml'), FILE);
});
afterEach(() => rmSync(directory, { recursive: true }));

function statelet(...argv: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [STATELET, ...argv], {
    cwd: directory,
    encoding: 'utf8',
  });
  return { code: status, stdout, stderr };
}

describe('config print', () => {
  it('writes a configuration file that says where each value came from, and that means the same', () => {
    const { code, stdout } = statelet('config', 'print', '--config=kubelet.yaml', '--node-ip=192.0.2.1', '--v=3');
    expect(code).toBe(0);
    const lines = stdout.split('\n');
    expect(lines).toContain(`maxPods: 20 # file ${join(directory, 'kubelet.yaml')}`);
    expect(lines).toContain('  verbosity: 3 # flag --v');
    expect(lines).toContain('podPidsLimit: -1 # default');
    expect(stdout).not.toContain('s3cret');
    writeFileSync(join(directory, 'again.yaml'), stdout);
    const again = statelet('config', 'print', '--config=again.yaml');
    expect(parse(again.stdout)).toEqual(parse(stdout));
  });

  it('names the drop-in that won', () => {
    const dropIn = FILE.replace(/authentication[^]*/, 'maxPods: 30\n');
    writeFileSync(join(directory, 'x.conf'), dropIn);
    const flags = ['--config=kubelet.yaml', `--config-dir=${directory}`];
    const { stdout } = statelet('config', 'print', '--format', 'json', ...flags);
    const { configuration, values } = JSON.parse(stdout) as { configuration: { maxPods: number }; values: object[] };
    expect(configuration.maxPods).toBe(30);
    const origin = { kind: 'dropIn', path: join(directory, 'x.conf') };
    expect(values).toContainEqual({ path: 'maxPods', value: 30, origin });
  });

  it('lists every value in a table', () => {
    const { stdout } = statelet('config', 'print', '--format=table', '--config=kubelet.yaml');
    const [head, ...rows] = stdout.trimEnd().split('\n');
    expect(head).toMatch(/^FIELD +VALUE +FROM$/);
    expect(rows.find((row) => row.startsWith('clusterDNS'))).toMatch(/^clusterDNS +\["192.0.2.53"\] +file /);
    expect(rows.length).toBeGreaterThan(70);
  });

  it.each([
    [['config', 'print', '--format=xml'], 'statelet config: --format is yaml, json, table; not xml'],
    [['config', 'show'], 'statelet config: unknown command show'],
    [['config', 'print', '--nope'], 'statelet config: failed to parse kubelet flag: unknown flag: --nope'],
  ])('%j is no usage', (argv, message) => {
    const { code, stdout, stderr } = statelet(...argv);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(message);
  });
});

describe('run --validate', () => {
  it('says ok, and changes nothing', () => {
    const flags = ['--validate', `--data-dir=${join(directory, 'data')}`, '--config=kubelet.yaml'];
    expect(statelet('run', ...flags)).toEqual({ code: 0, stdout: 'ok\n', stderr: '' });
    expect(readdirSync(directory)).toEqual(['kubelet.yaml']);
  });

  it.each([
    ['a value', 'maxPods: -1', '"command failed" err="failed to validate kubelet configuration, error: invalid'],
    [
      'what run() refuses',
      'authorization: {mode: Open}',
      'err="failed to run Kubelet: unknown authorization mode Open"',
    ],
  ])("ends with upstream's error for %s", (_, more, message) => {
    writeFileSync(join(directory, 'kubelet.yaml'), `${FILE.replace(/authorization.*\n/, '')}${more}\n`);
    const { code, stdout, stderr } = statelet('run', '--config=kubelet.yaml', '--validate');
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(message);
  });
});
