/** Where the verbs look for the daemon of this machine, and their error if there is none. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { askedFor, nameOf, socketPath } from '../../../src/bin/local/node-client.ts';
import { temporaryFolder } from '../../support/host-ports.ts';

async function listening(path: string): Promise<void> {
  const server = createServer().listen(path);
  onTestFinished(() => void server.close());
  await once(server, 'listening');
}

it('a daemon is found in the folder that is named, by either of its options', async () => {
  const [root, data] = [await temporaryFolder(), await temporaryFolder()];
  await listening(join(root, 'statelet.sock'));
  await listening(join(data, 'statelet.sock'));
  expect(await socketPath({ rootDir: root, dataDir: data })).toBe(join(root, 'statelet.sock'));
  expect(await socketPath({ dataDir: data })).toBe(join(data, 'statelet.sock'));
});

it('if no daemon answers, the error has each place and the options that name one', async () => {
  const dataDir = await temporaryFolder();
  const why = `no node answers on this machine:\n  ${dataDir}/statelet.sock: there is none\n`;
  await expect(socketPath({ dataDir })).rejects.toThrow(why);
  await expect(socketPath({ dataDir })).rejects.toThrow('with --root-dir or --data-dir');
});

it('a pod may have its kind before its name', () => {
  expect([nameOf('hello'), nameOf('pod/hello'), nameOf('po/hello')]).toEqual(['hello', 'hello', 'hello']);
  expect([askedFor('pods', undefined), askedFor('pod', 'a'), askedFor('pod/b', undefined)]).toEqual([
    undefined,
    'a',
    'b',
  ]);
  for (const kind of ['node', 'deploy/x']) expect(() => askedFor(kind, undefined)).toThrow('a node knows pods only');
});
