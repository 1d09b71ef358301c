/** The files of resource managers on a real disk. */
import { mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { hostPorts } from '../../../src/actors/host/index.ts';
import { perform, temporaryFolder } from '../../support/host-ports.ts';

const ports = hostPorts({ system: null });

it('a checkpoint replaces the one before it as a whole, for its owner only', async () => {
  const folder = await temporaryFolder();
  const path = join(folder, 'below/cpu_manager_state');
  await perform(ports['host.writeCheckpoint'], { path, content: 'long content' });
  await perform(ports['host.writeCheckpoint'], { path, content: 'short' });
  expect(readFileSync(path, 'utf8')).toBe('short');
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(readdirSync(join(folder, 'below'))).toEqual(['cpu_manager_state']);
});

it('a write that fails leaves nothing', async () => {
  const folder = await temporaryFolder();
  const path = join(folder, 'cpu_manager_state');
  mkdirSync(path);
  await expect(perform(ports['host.writeCheckpoint'], { path, content: 'x' })).rejects.toThrow('EISDIR');
  expect(readdirSync(folder)).toEqual(['cpu_manager_state']);
});

it('what is there is read, what is not there is said', async () => {
  const folder = await temporaryFolder();
  const paths = ['a', 'b'].map((name) => join(folder, name));
  await perform(ports['host.writeCheckpoint'], { path: paths[1]!, content: '{}' });
  expect(await perform(ports['host.readCheckpoints'], { paths })).toEqual({ contents: [null, '{}'] });
  await expect(perform(ports['host.readCheckpoints'], { paths: [folder] })).rejects.toThrow('not a regular file');
});
