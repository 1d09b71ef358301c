/** The reports beside the phases of a start on the page. */
import { expect, it } from 'vitest';
import type { HeaderRecord } from '../../../src/kernel/records.ts';
import { startView } from '../../../src/visualizer/worker/reports.ts';
import { ARGV, BootNode, fail } from '../../machines/startup/boot-node.ts';

function reportOn(answers: NonNullable<ConstructorParameters<typeof BootNode>[0]>['answers']) {
  const { records } = new BootNode({ argv: ARGV, ...(answers ? { answers } : {}) }).boot().run(1_000);
  const header = records[0] as HeaderRecord;
  return startView({ header, checkpoint: undefined, checkpointAfter: () => undefined, records });
}

it('of a start that failed, the chain leads to the failure', () => {
  const [chain] = reportOn({ 'runtime.connect': fail('connection refused') }).chains;
  expect(chain).toMatchObject({ goal: 'the start failed', whole: true });
  expect(chain?.links.at(-1)).toMatchObject({ kind: 'operation', what: expect.stringContaining('connection refused') });
});

it('of a start that succeeded, it leads to healthz', () => {
  expect(reportOn(undefined).chains.map(({ goal }) => goal)).toEqual(['healthz answers']);
});
