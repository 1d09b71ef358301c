import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { shutdownTimes } from '../../../../../src/actors/server/metrics/node/node-start.ts';
import type { NodeView } from '../../../../../src/actors/server/node-view.ts';
import { temporaryFolder } from '../../../../support/host-ports.ts';

interface Node {
  readonly stateFile: string;
  readonly isGraceful?: boolean;
  readonly featureGates?: Readonly<Record<string, boolean>>;
}

async function times({ stateFile, isGraceful = true, featureGates = {} }: Node) {
  const view = {
    contexts: () => (isGraceful ? [{ settings: { stateFile } }] : []),
    configuration: () => ({ featureGates }),
  } as unknown as NodeView;
  return (await shutdownTimes(view)).map(({ samples }) => samples[0]?.value);
}

it('the last graceful shutdown is known from the file that the shutdown manager keeps, also after a restart', async () => {
  const stateFile = join(await temporaryFolder(), 'graceful_node_shutdown_state');
  expect(await times({ stateFile }), 'none yet').toEqual([0, 0]);
  writeFileSync(stateFile, '{"startTime":"2026-11-28T03:28:33.104096821Z","endTime":"0001-01-01T00:00:00Z"}');
  expect(await times({ stateFile }), 'under way').toEqual([1_795_836_513.104, 0]);
  writeFileSync(stateFile, '{"startTime":"2026-11-28T03:28:33Z","endTime":"2026-11-28T03:28:48.095Z"}');
  expect(await times({ stateFile }), 'over').toEqual([1_795_836_513, 1_795_836_528.095]);
  expect(await times({ stateFile, isGraceful: false }), 'not graceful').toEqual([0, 0]);
  const featureGates = { GracefulNodeShutdownBasedOnPodPriority: false };
  expect(await times({ stateFile, featureGates }), 'not counted').toEqual([0, 0]);
  for (const broken of ['', '{', 'null', '{"startTime":7,"endTime":"soon"}']) {
    writeFileSync(stateFile, broken);
    expect(await times({ stateFile }), broken).toEqual([0, 0]);
  }
});
