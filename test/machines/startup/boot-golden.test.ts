/**
 * The recorded kubelets, through the supervisor: every command line and configuration file with which a kubelet of 1.36
 * ended or ran, started as a node.
 *
 * `configuration/corpus.test.ts` covers the pure pipeline; here the node's own end is compared, with its exit code, its
 * last line and the phase that it names.
 */
import { resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readConfiguration, readDropIns } from '../../../src/actors/host/configuration/configuration.ts';
import { parseCommandLine } from '../../../src/machines/configuration/flags/flags.ts';
import { commandFailed } from '../../../src/machines/configuration/resolve.ts';
import { ENDS_ELSEWHERE, EXCUSED } from '../../golden/config-excused.ts';
import { type Case, readCases, withCase } from '../configuration/corpus.ts';
import { BootNode, MACHINE_INFO, ok } from './boot-node.ts';

const BOOT_MS = 1_000;
/** The version of the recorded kubelet. */
const VERSION = 'v1.36.2';

const decidedElsewhere = ({ expect: wanted }: Case) =>
  ENDS_ELSEWHERE.some(([, pattern]) => pattern.test(wanted.stderr.join('\n')));
const usesCluster = ({ argv }: Case) => argv.some((argument) => /^--?(bootstrap[-_])?kubeconfig/.test(argument));
const isComparable = (each: Case) => !Object.hasOwn(EXCUSED, each.name) && !decidedElsewhere(each);

const cases = readCases().filter(isComparable);
const ended = cases.filter(({ expect: { exit } }) => exit === 1);
const running = cases.filter((each) => each.expect.exit === 'running' && !usesCluster(each));

/** The machine on which the corpus was recorded, with the files of the case as the host decodes them. */
async function bootCase({ argv }: Case, directory: string): Promise<BootNode> {
  const line = parseCommandLine(argv, { version: '', raw: '' });
  const { config = '', configDir = '' } = line.kind === 'run' ? line.flags : {};
  const answers = {
    'host.cgroups': ok({ version: 1, controllers: ['cpu', 'cpuset', 'memory', 'pids'], swapCounted: false }),
    'host.machineInfo': ok({ ...MACHINE_INFO, cores: 2, memoryBytes: '25769803776' }),
    ...(config === '' ? {} : { 'host.readConfiguration': ok(await readConfiguration(resolve(directory, config))) }),
    ...(configDir === '' ? {} : { 'host.readDropIns': ok(await readDropIns(resolve(directory, configDir))) }),
  };
  return new BootNode({ argv, version: VERSION, answers }).boot().run(BOOT_MS);
}

const failureOf = (node: BootNode) => (node.ended && 'failure' in node.ended ? node.ended.failure : null);

describe('a kubelet that ended', () => {
  it.each(ended.map((each) => [each.name, each] as const))('%s', async (_, raw) => {
    await withCase(raw, async (filled, directory) => {
      const node = await bootCase(filled, directory);
      expect(node.ended).toMatchObject({ exitCode: 1 });
      const failure = failureOf(node)!;
      const last = commandFailed(failure.message).lines;
      expect(last).toEqual(filled.expect.stderr.slice(-last.length));
      expect(failure.phase).toMatch(/^(command|run|runKubelet|startKubelet)\.\w+$/);
      expect(node.lines().at(-1)).toMatchObject({ text: 'command failed', fields: { err: failure.message } });
    });
  });
});

describe('a kubelet that ran', () => {
  it.each(running.map((each) => [each.name, each] as const))('%s', async (_, raw) => {
    await withCase(raw, async (filled, directory) => {
      const node = await bootCase(filled, directory);
      expect(failureOf(node)).toBeNull();
      expect(node.crashes()).toEqual([]);
      expect(node.state()).toMatchObject({ alive: { startup: { startKubelet: { serving: 'blocked' } } } });
    });
  });
});

it('compares most of what was recorded', () => {
  expect(ended.length).toBeGreaterThan(300);
  expect(running.length).toBeGreaterThan(300);
});
