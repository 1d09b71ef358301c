/**
 * The daemon with the command lines and files with which a real kubelet ended for reasons outside of its configuration:
 * clients, certificates, the runtime's endpoint, control groups, CPUs, ports. Each is run as a process on a real
 * containerd; exit status and the kubelet's lines must appear, in order.
 *
 * `NOT_EQUAL` names the cases that are not equal with their reasons; they must differ, so that the list can only become
 * shorter.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemCalls } from '../../src/actors/host/kernel/syscall.ts';
import { mountsBelow } from '../../src/actors/volume/mounter.ts';
import { ENDS_ELSEWHERE, NOT_EQUAL } from '../golden/config-excused.ts';
import { type Case, readCases, withCase } from '../machines/configuration/corpus.ts';
import { cgroupV1Available, makeCgroupRoot } from '../support/cgroups.ts';
import { type Containerd, containerdAvailable, startContainerd } from '../support/containerd.ts';
import { patient } from '../support/patience.ts';
import { freePort } from '../support/ports.ts';
import { requirement } from '../support/require.ts';

const STATELET = join(import.meta.dirname, '../../src/bin/statelet.js');
const KLOG_HEADER = /^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ [^\]]+\] /;
/** Lines of Go's gRPC library, not of the kubelet. */
const LIBRARY = /^\[core\]/;
/** A case that does not end is not equal; the slowest waits for a runtime that does not answer. */
const CASE_TIMEOUT_MS = patient(90_000);
/** The cases of the whole corpus, and the number of them that the pure pipeline decides and no later part refuses. */
const CORPUS = 835;
const PURE = 779;

const isHere = ({ expect: { exit, stderr } }: Case): boolean =>
  exit !== 'running' && ENDS_ELSEWHERE.some(([, pattern]) => pattern.test(stderr.join('\n')));
const cases = readCases().filter(isHere);
const figures = { equal: 0, excused: 0 };

interface Ended {
  readonly exit: number | null;
  readonly output: readonly string[];
}

/** Runs a case to its end, or until its time limit. Its root directory is a mount by then. */
async function run({ argv }: Case, directory: string): Promise<Ended> {
  const own = [`--journal-dir=${join(directory, 'journal')}`, '--visualizer-port=off'];
  const child = spawn(process.execPath, [STATELET, 'run', ...own, ...argv], { cwd: directory });
  let output = '';
  child.stderr.on('data', (chunk) => (output += String(chunk)));
  const timer = setTimeout(() => child.kill('SIGKILL'), CASE_TIMEOUT_MS);
  const exit = await new Promise<number | null>((ended) => child.once('close', ended));
  clearTimeout(timer);
  for (const point of (await mountsBelow(directory)).toReversed()) systemCalls()!.unmount(point);
  return { exit, output: output.split('\n').map((line) => normal(line.replace(KLOG_HEADER, ''))) };
}

/** The kubelet names hierarchies in the random order of a Go map. */
function normal(line: string): string {
  return line.replace(/(has some missing paths: )([^"]+)/, (_, words: string, paths: string) => {
    return words + paths.split(', ').toSorted().join(', ');
  });
}

/** The first of the kubelet's lines that does not follow the previous ones; `null` if all do. */
function firstMissing(wanted: readonly string[], output: readonly string[]): string | null {
  let at = 0;
  for (const line of wanted.filter((each) => !LIBRARY.test(each)).map(normal)) {
    const found = output.indexOf(line, at);
    if (found < 0) return line;
    at = found + 1;
  }
  return null;
}

const unavailable = containerdAvailable() ?? cgroupV1Available();

describe.skipIf(requirement('containerd', unavailable).skip)('the daemon ends as the kubelet did', () => {
  let containerd: Containerd;
  let places: Record<string, string>;
  beforeAll(async () => {
    containerd = await startContainerd();
    const root = makeCgroupRoot().slice(1);
    const [server, readOnly, healthz] = [await freePort(), await freePort(), await freePort()].map(String);
    places = {
      '${CRI}': containerd.endpoint,
      '${CRI_PATH}': containerd.endpoint.replace('unix://', ''),
      '${PORT10250}': server!,
      '${PORT10255}': readOnly!,
      '${PORT10248}': healthz!,
      'golden-config': root,
      golden_config: root.replaceAll('-', '_'),
    };
  });
  afterAll(async () => {
    await containerd.close();
    const total = PURE + figures.equal;
    const share = ((100 * total) / CORPUS).toFixed(1);
    process.stdout.write(
      `${cases.length} cases decided by other parts: equal ${figures.equal}, excused ${figures.excused}; ` +
        `of the corpus ${total} of ${CORPUS} are equal (${share}%)\n`,
    );
  });

  it.each(cases.map((each) => [each.name, each] as const))('%s', async (name, raw) => {
    await withCase(
      raw,
      async (filled, directory) => {
        const { exit, output } = await run(filled, directory);
        const missing = firstMissing(filled.expect.stderr, output);
        const isEqual = exit === filled.expect.exit && missing === null;
        const isExcused = Object.hasOwn(NOT_EQUAL, name);
        figures[isExcused ? 'excused' : 'equal']++;
        const found = `exit ${exit}, wanted ${filled.expect.exit}; missing: ${missing}\n${output.join('\n')}`;
        expect(isEqual, isExcused ? `${name} is equal and needs no excuse any more` : found).toBe(!isExcused);
      },
      places,
    );
  });

  it('agree with the kubelet in 97 of 100 cases of the corpus', () => {
    expect((PURE + figures.equal) / CORPUS).toBeGreaterThanOrEqual(0.97);
    expect(Object.keys(NOT_EQUAL).filter((name) => !cases.some((each) => each.name === name))).toEqual([]);
  });
});
