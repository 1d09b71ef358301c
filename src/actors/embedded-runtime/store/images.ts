/**
 * The images of a runtime without a registry: every image is a name of the host's root filesystem.
 *
 * Owns the list of pulled references (`images.json`). Invariants: the built-in image always exists and cannot be
 * removed; only names below `statelet.local/` can be pulled, and busybox, whose tools are replaced by the host's so
 * that the same example runs on a real runtime; all others fail with advice.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { status } from '@grpc/grpc-js';
import type { Image } from '../../../machines/model/api/cri.ts';
import { CriError, invalid, notFound } from '../errors.ts';
import { readJson, writeJson } from './records.ts';

export const BUILT_IN_IMAGE = 'statelet.local/host:latest';
/** The program that runs without command and arguments. */
export const ENTRYPOINT: readonly string[] = ['/bin/sh'];

const PULLABLE = /^(statelet\.local\/|(docker\.io\/library\/)?busybox(:|$))/;
/** Stored references; all of them name one filesystem. */
const MAX_IMAGES = 1000;
/** The longest name, in bytes, that the distribution specification allows. */
const MAX_REFERENCE_LENGTH = 255;
const REFERENCE = /^[a-z0-9]+(?:[._:/-]+[a-zA-Z0-9]+)*(?::[\w][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?$/;

export class Images {
  readonly #file: string;
  readonly #references: Set<string>;

  constructor(root: string) {
    this.#file = join(root, 'images.json');
    this.#references = new Set([BUILT_IN_IMAGE, ...(readJson(this.#file, isListOfStrings) ?? [])]);
  }

  list(filter: string): readonly Image[] {
    if (filter !== '') return [this.find(filter)].filter((image) => image !== undefined);
    return [...this.#references].map(describe);
  }

  /** By reference, by id, or by repository and digest. */
  find(reference: string): Image | undefined {
    const normalized = normalize(reference);
    const images = [...this.#references].map(describe);
    return images.find(({ id, repo_tags, repo_digests }) =>
      [id, id.replace('sha256:', ''), ...repo_tags, ...repo_digests].some(
        (name) => name === normalized || name === reference,
      ),
    );
  }

  /** Returns the id of the image. */
  pull(reference: string): string {
    if (reference.length > MAX_REFERENCE_LENGTH || !REFERENCE.test(reference)) {
      throw invalid(`failed to parse image reference "${reference}": invalid reference format`);
    }
    const known = this.find(reference);
    if (known) return known.id;
    if (!PULLABLE.test(reference) || reference.includes('@')) {
      throw notFound(
        `failed to pull image "${reference}": not found: the embedded runtime has no registry access and runs host ` +
          `processes only; use the image "${BUILT_IN_IMAGE}", or run a CRI runtime such as containerd`,
      );
    }
    if (this.#references.size >= MAX_IMAGES) {
      throw new CriError(status.RESOURCE_EXHAUSTED, `failed to pull image "${reference}": ${MAX_IMAGES} images exist`);
    }
    const added = normalize(reference);
    this.#references.add(added);
    this.#save();
    return describe(added).id;
  }

  /** Removing a missing image succeeds. */
  remove(reference: string): void {
    const found = this.find(reference)?.repo_tags[0];
    if (found === undefined) return;
    if (found === BUILT_IN_IMAGE) {
      throw new CriError(status.FAILED_PRECONDITION, `image "${found}" is the host's own filesystem: it stays`);
    }
    this.#references.delete(found);
    this.#save();
  }

  #save(): void {
    writeJson(this.#file, [...this.#references]);
  }
}

function isListOfStrings(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((one) => typeof one === 'string');
}

function describe(reference: string): Image {
  const digest = `sha256:${createHash('sha256').update(reference).digest('hex')}`;
  const repository = reference.slice(0, reference.lastIndexOf(':'));
  return {
    id: digest,
    repo_tags: [reference],
    repo_digests: [`${repository}@${digest}`],
    // Nothing was downloaded, but zero means "unknown" to some clients.
    size: '1',
    uid: { value: String(process.getuid?.() ?? 0) },
    username: '',
    spec: { image: reference },
    pinned: reference === BUILT_IN_IMAGE,
  };
}

/** `name` becomes `name:latest`. */
function normalize(reference: string): string {
  const last = reference.slice(reference.lastIndexOf('/') + 1);
  return last.includes(':') || last.includes('@') ? reference : `${reference}:latest`;
}
