/** How much is on disk of who pulled which image. Nothing where no record is kept. */
import { recordCounts } from '../../../image/pull-records.ts';
import { type Family, gaugeOf, one } from '../family.ts';

/** `rootDir` is `--root-dir`; `null` before it is known. */
export async function pullRecordCounts(rootDir: string | null): Promise<Family[]> {
  if (rootDir === null) return [];
  const { pulling, pulled } = await recordCounts(rootDir);
  const name = 'kubelet_imagemanager_ondisk_';
  return [
    gaugeOf(`${name}pullintents`, '[ALPHA] Number of ImagePullIntents stored on disk.', [one(pulling)]),
    gaugeOf(`${name}pulledrecords`, '[ALPHA] Number of ImagePulledRecords stored on disk.', [one(pulled)]),
  ];
}
