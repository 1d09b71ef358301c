/** The node's images as its status lists them. Upstream: nodestatus.Images. */
import type { Image } from '../../../model/api/cri.ts';
import type { NodeImage } from './facts.ts';

/** Upstream's bound of names for one image in the status; the rest is left out. */
const NAMES_MAX = 5;

/** The largest `max` images (`nodeStatusMaxImages`; -1: all of them), without those that have no name. */
export function nodeImages(images: readonly Image[], max: number): NodeImage[] {
  const named = images
    .map(({ repo_tags, repo_digests, size }) => ({
      names: [...repo_digests, ...repo_tags].slice(0, NAMES_MAX),
      sizeBytes: Number(size),
    }))
    .sort((a, b) => b.sizeBytes - a.sizeBytes || (a.names[0] ?? '').localeCompare(b.names[0] ?? ''));
  return (max < 0 ? named : named.slice(0, max)).filter(({ names }) => names.length > 0);
}
