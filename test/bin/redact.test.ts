/**
 * `statelet redact`: texts planted in all places that users and programs write are removed, and no decision changes.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isPrivate, Redactor } from '../../src/bin/rewrite.ts';
import { openJournal } from '../../src/kernel/journal/open.ts';
import { readJournal } from '../../src/kernel/journal/reader.ts';
import type { KernelRecord } from '../../src/kernel/records.ts';
import { BootNode } from '../machines/startup/boot-node.ts';
import { image, manifest } from '../support/pods-node.ts';
import { inOtherWords, record, statelet } from './recorded.ts';

const work = mkdtempSync(join(tmpdir(), 'statelet-redact-'));
afterAll(() => rmSync(work, { recursive: true, force: true }));

const PLANTED = [
  'planted-command',
  'planted-argument',
  'planted-variable',
  'planted-header',
  'planted-annotation',
  'planted-config-map',
  'planted-last-words',
  'planted-probe-output',
  'planted-probe-command',
  'planted-login',
];

const POD = manifest({
  uid: 'web',
  name: 'web',
  spec: { restartPolicy: 'Always' },
  containers: [
    {
      name: 'app',
      image: 'app:1',
      command: ['sh', '-c', 'exec planted-command $(PLACE)'],
      args: ['--proxy=https://planted-login:x@example/', 'planted-argument'],
      env: [
        { name: 'PLACE', value: 'planted-variable' },
        { name: 'FROM', valueFrom: { configMapKeyRef: { name: 'settings', key: 'place' } } },
      ],
      livenessProbe: { exec: { command: ['cat', 'planted-probe-command'] }, periodSeconds: 1, failureThreshold: 3 },
      readinessProbe: { httpGet: { port: 80, httpHeaders: [{ name: 'X', value: 'planted-header' }] } },
    },
  ],
});

function plantedNode(): BootNode {
  const node = new BootNode();
  const { pods } = node.world;
  pods.runtime.images.set('app:1', image('app:1'));
  pods.runtime.programs.set('app', [{ runsMs: 4_000, exitCode: 1 }, {}]);
  pods.answers.set('cat planted-probe-command', { result: 'failure', output: 'planted-probe-output' });
  pods.objects = [
    {
      kind: 'ConfigMap',
      namespace: 'default',
      name: 'settings',
      version: '1',
      data: { place: { text: 'planted-config-map' } },
    },
  ] as never;
  const value = POD.value as { metadata: object };
  const metadata = { ...value.metadata, annotations: { 'example.com/note': 'planted-annotation' } };
  pods.setManifests([{ ...POD, value: { ...value, metadata } }]);
  return node.boot().run(30_000);
}

async function keep(directory: string, records: readonly KernelRecord[]): Promise<void> {
  const journal = openJournal({ directory, durability: 'none' });
  for (const kept of records) {
    journal.append(kept.k === 'header' ? { ...kept, incarnation: journal.incarnation } : kept);
    if (kept.k === 'end') journal.commit();
  }
  await journal.close();
}

const bytesIn = (folder: string): string =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => readFileSync(join(parentPath, name), 'latin1'))
    .join('');

const decisions = (folder: string): string[] =>
  [...readJournal(folder).records].flatMap((each) => (each.k === 'effect' ? [`${each.at} ${each.name}`] : []));

describe('a journal in which people and programs wrote', () => {
  const [before, after] = [join(work, 'before'), join(work, 'after')];
  beforeAll(async () => {
    const node = plantedNode();
    await keep(before, [...node.records]);
  });

  it('has the planted texts before', () => {
    const bytes = bytesIn(before);
    const there = PLANTED.filter((text) => bytes.includes(text));
    expect(there.length).toBeGreaterThanOrEqual(8);
  });

  it('has none of them after, replays, and decides the same', () => {
    const { code, stdout, stderr } = statelet(['redact', before, '--output', after]);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toContain('none of the private texts is in it');
    const bytes = bytesIn(after);
    expect(PLANTED.filter((text) => bytes.includes(text))).toEqual([]);
    expect(decisions(after)).toEqual(decisions(before));
    expect(statelet(['replay', after, '--strict']).code).toBe(0);
    expect(statelet(['verify', after]).code).toBe(0);
  });

  it('keeps references to variables, which machines expand', () => {
    expect(bytesIn(after)).toMatch(/redacted-[0-9a-f]{10}\$\(PLACE\)/);
  });

  it('gives other names each time, so that they cannot be guessed', () => {
    const again = join(work, 'again');
    expect(statelet(['redact', before, '--output', again]).code).toBe(0);
    const names = (folder: string): Set<string> => new Set(bytesIn(folder).match(/redacted-[0-9a-f]{10}/g));
    expect([...names(again)].filter((name) => names(after).has(name))).toEqual([]);
  });

  it('loses a text that was named, wherever it stands', () => {
    const named = join(work, 'named');
    expect(statelet(['redact', before, '--output', named, '--value', '6.8.0']).code).toBe(0);
    expect(bytesIn(before)).toContain('6.8.0');
    expect(bytesIn(named)).not.toContain('6.8.0');
  });

  it('says so when a text that was named is one that machines decide by', () => {
    const { code, stderr } = statelet(['redact', before, '--output', join(work, 'other'), '--value', 'Node-1']);
    expect(stderr).toMatch(/record \d+ decides something else\n$/);
    expect(code).toBe(1);
  });
});

it('refuses a folder that has something in it, and a journal that this build does not replay', async () => {
  const changed = join(work, 'changed');
  await record(changed, (kept) => (kept.n > 40 ? inOtherWords(kept) : kept));
  expect(statelet(['redact', changed, '--output', changed])).toMatchObject({ code: 2 });
  const { code, stderr } = statelet(['redact', changed, '--output', join(work, 'new')]);
  expect(stderr).toContain('this build does not replay it from record ');
  expect(code).toBe(1);
});

describe('a redactor', () => {
  const redactorOf = (input: unknown, ...given: string[]): Redactor => {
    const redactor = new Redactor(given);
    redactor.learn(input);
    return redactor;
  };

  it('leaves what also stands as a name of its own', () => {
    const input = { spec: { image: 'registry/app:1', args: ['registry/app:1', 'something else'] } };
    const redactor = redactorOf(input);
    const { spec } = redactor.redact(input);
    expect(spec.image).toBe('registry/app:1');
    expect(spec.args.join()).not.toMatch(/registry|something/);
  });

  it('finds a private text in the middle of others', () => {
    const redactor = redactorOf({ args: ['planted-argument'] });
    expect(redactor.redact({ text: 'it said planted-argument!' }).text).toMatch(/^it said redacted-[0-9a-f]{10}!$/);
  });

  it('takes the login of a URL, and leaves handles', () => {
    const redactor = redactorOf({});
    const handle = `§${'a'.repeat(22)}`;
    const args = [handle, `${handle}$(NAME)${handle}`, `${handle}${handle}`];
    expect(redactor.redact({ url: 'http://me:word@host/x', args })).toMatchObject({ args });
    expect(redactor.redact({ url: 'http://me:word@host/x' }).url).toMatch(/^http:\/\/redacted-[0-9a-f]{10}@host\/x$/);
  });

  it('is linear in a hostile text', () => {
    const cost = (length: number): number => {
      const redactor = redactorOf({ args: ['a'.repeat(length), `${'a'.repeat(length)}b`] });
      const began = performance.now();
      redactor.redact({ text: `${'a'.repeat(length - 1)}c` });
      return performance.now() - began;
    };
    cost(1_000);
    expect(cost(40_000)).toBeLessThan(2_000);
  });
});

it.each([
  [['event', 'spec', 'containers', 'command'], true],
  [['output', 'message'], true],
  [['state', 'terminated', 'message'], true],
  [['event', 'error', 'message'], false],
  [['metadata', 'annotations', 'example.com/x'], true],
  [['metadata', 'annotations', 'kubernetes.io/config.hash'], false],
  [['metadata', 'annotations', 'kubectl.kubernetes.io/last-applied-configuration'], true],
  [['env', 'value'], true],
  [['tolerations', 'value'], false],
] as const)('%j is private: %s', (keys, expected) => {
  expect(isPrivate(keys)).toBe(expected);
});
