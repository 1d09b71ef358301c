/** The package of a node: two builds are equal, and it runs where it was unpacked, without npm, `PATH` or network. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { isProgram } from '../../scripts/package/native.ts';
import { FORMAT_VERSION } from '../../src/kernel/records.ts';
import { eventually } from '../support/daemon.ts';
import { freePort } from '../support/ports.ts';
import { requirement } from '../support/require.ts';

const ROOT = join(import.meta.dirname, '../..');
const NAME = `statelet-${packageJson.version}-linux-x64`;
const DEB = `statelet_${packageJson.version}_amd64.deb`;
const COMPRESSED_MAX_BYTES = 45e6;
const INSTALLED_MAX_BYTES = 140e6;

const folder = mkdtempSync(join(tmpdir(), 'statelet-package-test-'));
const [one, other] = [join(folder, 'one'), join(folder, 'other')];
const installed = join(folder, NAME);

/** The lowest compression level: released packages are smaller. */
const make = (out: string, ...more: readonly string[]): void =>
  void execFileSync(process.execPath, [join(ROOT, 'scripts/package.ts'), '--level', '0', '--out', out, ...more]);

beforeAll(() => {
  make(one);
  execFileSync('tar', ['xf', join(one, `${NAME}.tar.xz`), '-C', folder]);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const filesBelow = (directory: string): readonly string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) =>
    statSync(join(directory, name)).isFile(),
  );

it('two that are made of one commit are equal byte by byte', () => {
  make(other);
  for (const name of [`${NAME}.tar.xz`, DEB, 'SHA256SUMS']) {
    expect(readFileSync(join(one, name)).equals(readFileSync(join(other, name))), name).toBe(true);
  }
  execFileSync('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: one });
});

it('is as small as it is said to be', () => {
  for (const name of [`${NAME}.tar.xz`, DEB])
    expect(statSync(join(one, name)).size, name).toBeLessThan(COMPRESSED_MAX_BYTES);
  const bytes = filesBelow(installed).reduce((sum, name) => sum + statSync(join(installed, name)).size, 0);
  expect(bytes).toBeLessThan(INSTALLED_MAX_BYTES);
});

it('has what an operator looks for, and names no place of the machine that made it', () => {
  const listed = execFileSync('dpkg-deb', ['--contents', join(one, DEB)], { encoding: 'utf8' });
  for (const path of [
    'bin/statelet',
    'lib/systemd/system/statelet.service',
    'share/statelet/20-statelet.conf',
    'share/man/man8/statelet.8.gz',
    'share/bash-completion/completions/statelet',
    'share/zsh/vendor-completions/_statelet',
    'share/doc/statelet/copyright',
    'share/doc/statelet/sbom.spdx.json',
    'share/doc/statelet/changelog.gz',
  ])
    expect(listed).toContain(` ./usr/${path}\n`);
  expect(listed).not.toMatch(/\.d\.ts|\.map\n|node_modules\/(typescript|vitest)/);
  const control = execFileSync('dpkg-deb', ['--field', join(one, DEB)], { encoding: 'utf8' });
  expect(control).toMatch(/^Package: statelet\nVersion: .*\nArchitecture: amd64$/m);
  const text = filesBelow(installed).filter((name) => /\.(cjs|js|json|conf|service)$/.test(name));
  const naming = text.filter((name) => readFileSync(join(installed, name), 'latin1').includes(ROOT));
  expect(naming).toEqual([]);
});

it('its list of components has a checksum and a licence for each', () => {
  const document = JSON.parse(readFileSync(join(installed, 'share/doc/statelet/sbom.spdx.json'), 'utf8'));
  const [own, ...others] = document.packages as {
    name: string;
    licenseDeclared: string;
    checksums?: { checksumValue: string }[];
  }[];
  expect(own).toMatchObject({ name: 'statelet', licenseDeclared: 'Apache-2.0' });
  expect(others.map(({ name }) => name)).toEqual(expect.arrayContaining(['node', 'xstate', 'koffi', 'fastify']));
  for (const { name, licenseDeclared, checksums } of others) {
    expect(licenseDeclared, name).toMatch(/^[\w.() -]+$/);
    expect(licenseDeclared, name).not.toBe('NOASSERTION');
    expect(checksums?.[0]?.checksumValue, name).toMatch(/^[0-9a-f]{40,128}$/);
  }
});

it('scripts and completion are correct for their shells', () => {
  const control = join(folder, 'control');
  execFileSync('dpkg-deb', ['--control', join(one, DEB), control]);
  for (const name of ['postinst', 'prerm', 'postrm']) execFileSync('sh', ['-n', join(control, name)]);
  const completion = join(installed, 'share/bash-completion/completions/statelet');
  const asked = `source ${completion}; COMP_WORDS=(statelet repl); COMP_CWORD=1; _statelet; echo "\${COMPREPLY[@]}"`;
  expect(execFileSync('bash', ['-c', asked], { encoding: 'utf8' })).toBe('replay\n');
});

const STRIP = 'aarch64-linux-gnu-strip';
const cannotStrip = isProgram(STRIP) ? null : `${STRIP} is not installed (Debian: binutils-aarch64-linux-gnu)`;
/** The processor for which an ELF file is built. */
const machineOf = (file: string): number => readFileSync(file).readUInt16LE(18);
const [X64, AARCH64] = [62, 183];

it.skipIf(requirement('arm64', cannotStrip).skip)('one for arm64 has the native parts of arm64, and no others', () => {
  const [out, root] = [join(folder, 'arm64'), join(folder, 'arm64-root')];
  make(out, '--arch', 'arm64');
  const deb = join(out, DEB.replace('amd64', 'arm64'));
  expect(execFileSync('dpkg-deb', ['--field', deb, 'Architecture'], { encoding: 'utf8' })).toBe('arm64\n');
  expect(statSync(deb).size).toBeLessThan(COMPRESSED_MAX_BYTES);
  execFileSync('dpkg-deb', ['--extract', deb, root]);
  const native = (at: string) => filesBelow(at).filter((name) => /\.node$|bin\/node$/.test(name));
  const machines = (at: string) => native(at).map((name) => machineOf(join(at, name)));
  expect(native(root)).toHaveLength(2);
  expect(machines(root)).toEqual([AARCH64, AARCH64]);
  expect(machines(installed)).toEqual([X64, X64]);
  const sbom = readFileSync(join(root, 'usr/share/doc/statelet/sbom.spdx.json'), 'utf8');
  expect(sbom).toContain('koffi-linux-arm64');
  expect(sbom).not.toContain('koffi-linux-x64');
});

const statelet = join(installed, 'bin/statelet');
const BARE = { env: { PATH: '' }, encoding: 'utf8' } as const;

it('says its commit and the format of its journals', () => {
  const commit = execFileSync('git', ['-C', ROOT, 'rev-parse', '--short=12', 'HEAD'], { encoding: 'utf8' }).trim();
  expect(execFileSync(statelet, ['--version'], BARE)).toBe(
    `${packageJson.version} (commit ${commit}, journal format ${FORMAT_VERSION}, as kubelet v1.36.2)\n`,
  );
});

it('runs from where dpkg has put it', () => {
  const root = join(folder, 'unpacked');
  execFileSync('dpkg-deb', ['--extract', join(one, DEB), root]);
  // dpkg leaves folders with the time of their creation.
  utimesSync(join(root, 'usr/lib/statelet/src/bin'), Date.now() / 1_000, Date.now() / 1_000);
  expect(execFileSync(join(root, 'usr/bin/statelet'), ['get', '--help'], BARE)).toContain('statelet get');
});

it('starts a node and its pods, and replays its journal', async () => {
  const [root, pods, healthz] = [join(folder, 'root'), join(folder, 'pods'), await freePort()];
  mkdirSync(pods);
  const configuration = join(folder, 'kubelet.yaml');
  const standalone = readFileSync(join(ROOT, 'examples/standalone.yaml'), 'utf8');
  writeFileSync(configuration, standalone.replace('staticPodPath: pods', `staticPodPath: ${pods}`));
  writeFileSync(join(pods, 'one.json'), JSON.stringify(POD));
  const ports = ['--healthz-port', String(healthz), '--port', String(await freePort()), '--visualizer-port=off'];
  const argv = ['run', '--config', configuration, '--data-dir', root, ...ports];
  const daemon = spawn(statelet, argv, { env: { PATH: '' }, stdio: ['ignore', 'ignore', 'pipe'] });
  const output: string[] = [];
  daemon.stderr.on('data', (chunk) => output.push(String(chunk)));
  await eventually('the pod runs', () => output.join('').includes('phase="Running"'));
  const ended = once(daemon, 'exit');
  daemon.kill('SIGINT');
  expect(await ended).toEqual([0, null]);
  expect(execFileSync(statelet, ['replay', join(root, 'journal')], BARE)).toContain('same');
});

const POD = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'one' },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'app', image: 'busybox', command: ['/bin/sh', '-c', 'while :; do /bin/sleep 1; done'] }],
  },
};
