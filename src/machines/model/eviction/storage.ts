/** The messages for a pod that exceeds its local storage. Texts are upstream's, byte for byte. */
import type { StorageExceeded, StorageLimits } from '../operations/stats.ts';

export function storageMessage({ kind, name }: StorageExceeded, limits: StorageLimits): string {
  if (kind === 'emptyDir') return `Usage of EmptyDir volume "${name}" exceeds the limit "${limits.emptyDirs[name]}". `;
  if (kind === 'pod') return `Pod ephemeral local storage usage exceeds the total limit of containers ${limits.pod}. `;
  return `Container ${name} exceeded its local ephemeral storage limit "${limits.containers[name]}". `;
}
