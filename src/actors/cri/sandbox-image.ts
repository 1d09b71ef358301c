/**
 * The image that every sandbox is made of. A runtime that does not pin it by itself (containerd before 1.7.3) would
 * lose it to the collector of images, and without a registry never start a pod again.
 *
 * Requested once a connection: the runtime reads it from its configuration at its start.
 */

import { memberOf } from '../../kernel/json.ts';
import type { Image } from '../../machines/model/api/cri.ts';
import type { CallOptions, RuntimeClient } from './client.ts';

/** The name of the image in the runtime's own status; empty without one. */
export function sandboxImageIn(info: Readonly<Record<string, string>>): string {
  try {
    const image = memberOf(JSON.parse(info['config'] ?? '{}'), 'sandboxImage');
    return typeof image === 'string' ? image : '';
  } catch {
    return '';
  }
}

export class SandboxImage {
  readonly #client: RuntimeClient;
  #name: Promise<string> | undefined;

  constructor(client: RuntimeClient) {
    this.#client = client;
  }

  /** The same images, with that of sandboxes pinned. */
  async pinnedIn(images: readonly Image[], options: CallOptions): Promise<readonly Image[]> {
    this.#name ??= this.#client.call('Status', { verbose: true }, options).then(({ info }) => sandboxImageIn(info));
    const name = await this.#name.catch(() => {
      this.#name = undefined;
      return '';
    });
    if (name === '') return images;
    return images.map((image) => (image.repo_tags.includes(name) ? { ...image, pinned: true } : image));
  }
}
