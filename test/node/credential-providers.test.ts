/** A node that cannot register its credential provider plugins ends with the text of the recorded kubelet. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readCases } from '../machines/configuration/corpus.ts';
import { TestNode } from '../support/daemon.ts';

const FAILURE = 'Failed to register CRI auth plugins';
const recorded = readCases().filter(({ expect: { stderr } }) => stderr.some((line) => line.includes(FAILURE)));

it('is recorded in five ways', () => expect(recorded).toHaveLength(5));

it.each(recorded.map((each) => [each.name, each] as const))('%s', async (_, { argv, files, expect: { stderr } }) => {
  const node = new TestNode();
  const filled = (text: string) => text.replaceAll('${DIR}', node.directory);
  try {
    for (const [path, content] of Object.entries(files)) writeFileSync(join(node.directory, path), filled(content));
    const flags = argv.filter((flag) => flag.startsWith('--image-credential')).map(filled);
    await expect(node.start(flags)).rejects.toThrow('the daemon ended with 1');
    expect(stderr).toHaveLength(1);
    const lines = node.log.split('\n').filter((line) => /^[EF]\d{4} /.test(line) && line.includes('err='));
    expect(lines.at(-1)?.replace(/^[^\]]+\] /, '')).toBe(filled(stderr[0] ?? ''));
  } finally {
    await node.close();
  }
});
