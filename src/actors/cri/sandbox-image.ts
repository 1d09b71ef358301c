/**
 * The image of every sandbox. A runtime that does not pin it itself (containerd before 1.7.3) would lose it to image
 * garbage collection, and could start no pod without a registry.
 *
 * Read once per connection: the runtime reads it from its configuration at its start.
 */

import { memberOf } from '../../kernel/json.ts';
import type { Image } from '../../machines/model/api/cri.ts';
import type { CallOptions, RuntimeClient } from './client.ts';

/** The image name in the runtime's status; empty without one. */
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

  /** The same images, with the sandbox image pinned. */
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
