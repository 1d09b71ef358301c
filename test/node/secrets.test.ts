/** Canaries: credentials that the daemon is given must be in nothing that it writes. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { TestNode } from '../support/daemon.ts';

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

const filesBelow = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile());
