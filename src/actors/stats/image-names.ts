/**
 * The names of the images of running containers and sandboxes, for the label `image` of cAdvisor's metrics.
 *
 * A name is the first reference of the image, as in cAdvisor with containerd: its first tag, else its first digest.
 * Owns: the names of what runs, so that the runtime is asked once for each container and sandbox. Invariant: a failure
 * loses only the name, and is followed by another attempt at the next request.
 */
import pLimit from 'p-limit';
import type { Image } from '../../machines/model/api/cri.ts';
import type { Inventory, RunningContainer, RuntimeCall } from './inventory.ts';

/** Metrics that take longer are useless to the client. */
const TIMEOUT_MS = 5_000;
/** Sandboxes that the runtime is asked about at once. */
const SANDBOXES_AT_ONCE = 8;
/** The longest description of a sandbox that is read: usual ones have 10 KB. */
const DESCRIPTION_MAX_CHARS = 1_048_576;

export class ImageNames {
  readonly #call: RuntimeCall;
  readonly #limited = pLimit(SANDBOXES_AT_ONCE);
  #names: ReadonlyMap<string, string> = new Map();

  constructor(call: RuntimeCall) {
    this.#call = call;
  }

  /** By id of a container or sandbox; without those whose images have no name. */
  async of({ pods }: Inventory): Promise<ReadonlyMap<string, string>> {
    const containers = pods.flatMap((pod) => pod.containers);
    const sandboxes = pods.map(({ sandboxId }) => sandboxId);
    const ids = new Set([...containers.map(({ id }) => id), ...sandboxes]);
    const known = [...this.#names].filter(([id]) => ids.has(id));
    const found = await Promise.all([
      this.#ofContainers(containers.filter(({ id }) => !this.#names.has(id))),
      ...sandboxes.filter((id) => !this.#names.has(id)).map((id) => this.#limited(() => this.#ofSandbox(id))),
    ]);
    this.#names = new Map([...known, ...found.flat()]);
    return this.#names;
  }

  async #ofContainers(containers: readonly RunningContainer[]): Promise<[string, string][]> {
    if (containers.length === 0) return [];
    const { images } = await this.#call('ListImages', {}, { timeoutMs: TIMEOUT_MS }).catch(() => ({ images: [] }));
    const names = new Map(images.map((image) => [image.id, nameOf(image)]));
    return containers.flatMap(({ id, imageIds }) => {
      const name = imageIds.map((each) => names.get(each)).find((each) => each !== undefined);
      return name === undefined ? [] : [[id, name]];
    });
  }

  async #ofSandbox(id: string): Promise<[string, string][]> {
    const asked = { pod_sandbox_id: id, verbose: true };
    const answer = await this.#call('PodSandboxStatus', asked, { timeoutMs: TIMEOUT_MS }).catch(() => null);
    return answer === null ? [] : [[id, imageIn(answer.info['info'] ?? '')]];
  }
}

const nameOf = ({ id, repo_tags, repo_digests }: Image): string => repo_tags[0] ?? repo_digests[0] ?? id;

/** The image in a runtime's description of a sandbox: the JSON of containerd and CRI-O. Empty if it has none. */
function imageIn(description: string): string {
  if (description.length > DESCRIPTION_MAX_CHARS) return '';
  try {
    const { image } = JSON.parse(description) as { image?: unknown };
    return typeof image === 'string' ? image : '';
  } catch {
    return '';
  }
}
