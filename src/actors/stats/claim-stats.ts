/** How full the volumes behind a pod's claims are. They may lie anywhere, and on a file system that does not answer. */
import { boundedCall } from '../host/bounded-calls.ts';
import { type FileSystemUsage, fileSystemUsage } from './disk-usage.ts';
import { fileSystemStats } from './summary-parts.ts';
import type { VolumeStats } from './summary-types.ts';

/** By volume of the pod, the claim that it is for and where it lies. */
export type ClaimPlaces = Readonly<Record<string, { readonly claim: string; readonly path: string }>>;

/** `null`: it is gone, or does not answer. */
const claimUsage = (path: string): Promise<FileSystemUsage | null> =>
  boundedCall(path, () => fileSystemUsage(path)).catch(() => null);

export async function claimStats(namespace: string, places: ClaimPlaces, atMs: number): Promise<VolumeStats[]> {
  const measured = Object.entries(places).map(async ([name, { claim, path }]): Promise<VolumeStats[]> => {
    const usage = await claimUsage(path);
    return usage === null ? [] : [{ name, pvcRef: { name: claim, namespace }, ...fileSystemStats(usage, atMs) }];
  });
  return (await Promise.all(measured)).flat();
}
