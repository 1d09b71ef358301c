/** The operations `cri.*` of images on a real runtime. */
import { OperationError } from '../../kernel/json.ts';
import type { Ports } from '../../kernel/operation.ts';
import type { Image } from '../../machines/model/api/cri.ts';
import type { criOperations, WatchImagesItem } from '../../machines/model/operations/cri.ts';
import { watchChanges } from '../pause.ts';
import { Adapter, isNotFound } from './adapter.ts';
import { canonical } from './relist.ts';
import { authOf, withoutLogin } from './secrets.ts';

/**
 * A user name on Linux has at most 32 characters. An image's longer name would be in each list of images, and in each
 * event.
 */
const USERNAME_MAX_CHARS = 1_024;

const imageOf = (image: Image): Image => canonical({ ...image, username: image.username.slice(0, USERNAME_MAX_CHARS) });

/**
 * Lists images for {@link watchChanges}. A failed list changes nothing: the runtime's state is reported elsewhere, and
 * the next list makes up for it.
 */
async function imagesNow(adapter: Adapter, signal: AbortSignal): Promise<WatchImagesItem | null> {
  const listed = await adapter.client.call('ListImages', {}, adapter.limits({ signal })).catch(() => null);
  if (listed === null) return null;
  const images = listed.images.map((image) => imageOf(image)).sort((a, b) => (a.id < b.id ? -1 : 1));
  return { type: 'images.changed', images };
}

export function imagePorts(adapter: Adapter) {
  const { client } = adapter;
  return {
    'cri.imageStatus': async (call) => {
      const request = { image: { image: call.input.image } };
      const { image } = await client.call('ImageStatus', request, adapter.limits(call));
      return { image: image ? imageOf(image) : null };
    },
    'cri.pullImage': async (call) => {
      const { image, annotations, sandboxConfig, auth } = call.input;
      const login = auth && authOf(adapter.vault.open(auth));
      const request = {
        image: { image, annotations },
        ...(login ? { auth: login } : {}),
        ...(sandboxConfig ? { sandbox_config: sandboxConfig } : {}),
      };
      // A pull takes as long as the network; leaving the state cancels it.
      const pull = client.call('PullImage', request, adapter.limits(call, null));
      const { image_ref: imageRef } = await (login ? withoutLogin(pull, login) : pull);
      return { imageRef };
    },
    'cri.listImages': async (call) => {
      const { images } = await client.call('ListImages', {}, adapter.limits(call));
      const known = images.map((image) => imageOf(image));
      return { images: await adapter.sandboxImage.pinnedIn(known, adapter.limits(call)) };
    },
    'cri.watchImages': (call) => {
      const { input, signal } = call;
      const ask = () => imagesNow(adapter, signal);
      return watchChanges({ ask, periodMs: input.periodMs, signal, emit: call.emit.bind(call) });
    },
    'cri.removeImage': async (call) => {
      const removal = client.call('RemoveImage', { image: { image: call.input.image } }, adapter.limits(call));
      await removal.catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
      });
      return null;
    },
    'cri.imageFsInfo': async (call) => {
      const { image_filesystems: found } = await client.call('ImageFsInfo', {}, adapter.limits(call));
      const first = found[0];
      if (!first) throw new OperationError('the runtime reported no image filesystem', { code: 'NOT_FOUND' });
      return {
        mountpoint: first.fs_id?.mountpoint ?? '',
        usedBytes: first.used_bytes?.value ?? '0',
        inodesUsed: first.inodes_used?.value ?? '0',
      };
    },
  } satisfies Partial<Ports<typeof criOperations>>;
}
