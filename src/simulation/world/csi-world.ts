/** CSI drivers and the folders of their volumes: the operations `csi.*` in memory. */
import type { InputOf, OutputOf } from '../../kernel/xstate.ts';
import type { csiOperations, FoundDevice, FoundVolume } from '../../machines/model/operations/csi.ts';
import type { Unshared } from '../../machines/model/operations/volume.ts';

type Operations = typeof csiOperations;
type Handlers = {
  readonly [Name in Exclude<keyof Operations, 'csi.followHealth'>]: (
    input: InputOf<Operations[Name]>,
  ) => OutputOf<Operations[Name]>;
};

export class CsiWorld {
  capabilities: readonly string[] = ['STAGE_UNSTAGE_VOLUME'];
  /** By folder of the volume's record. */
  readonly volumes = new Map<string, FoundVolume>();
  readonly devices = new Map<string, FoundDevice>();
  /** The calls to drivers, in order. */
  readonly calls: string[] = [];
  readonly published: InputOf<Operations['csi.publish']>[] = [];
  readonly staged: InputOf<Operations['csi.stage']>[] = [];
  readonly expanded: InputOf<Operations['csi.expand']>['request'][] = [];
  /** The part that each publication reports as unshared; `null` for none. */
  unshared: Unshared | null = null;
  private readonly folders: Set<string>;

  constructor(folders: Set<string>) {
    this.folders = folders;
  }

  readonly handlers: Handlers = {
    'csi.capabilities': () => ({ capabilities: this.capabilities }),
    'csi.stage': (input) => {
      const { directory, data, request } = input;
      this.staged.push(input);
      if (request) this.calls.push(`stage ${request.volume_id}`);
      this.devices.set(directory, {
        directory,
        driver: data['driverName'] ?? '',
        handle: data['volumeHandle'] ?? '',
        block: data['specVolID'] ?? null,
      });
      return null;
    },
    'csi.unstage': ({ directory, handle, isStaged }) => {
      if (this.devices.delete(directory) && isStaged) this.calls.push(`unstage ${handle}`);
      return null;
    },
    'csi.publish': (input) => {
      const { directory, data, request, block } = input;
      this.published.push(input);
      const folder = block?.link ?? directory;
      this.calls.push(`publish ${request.volume_id}`);
      const [, uid = '', spec = ''] = /pods\/([^/]+)\/volume[^/]+\/[^/]+\/([^/]+)$/.exec(folder) ?? [];
      const { driverName: driver = '', volumeHandle: handle = '' } = data;
      const isEphemeral = data['volumeLifecycleMode'] === 'Ephemeral';
      this.volumes.set(folder, { uid, spec, driver, handle, isEphemeral, isBlock: block !== null });
      this.folders.add(request.target_path);
      return this.unshared;
    },
    'csi.unpublish': ({ directory, handle, block }) => {
      if (this.volumes.delete(block?.link ?? directory)) this.calls.push(`unpublish ${handle}`);
      this.folders.delete(`${directory}/mount`);
      return null;
    },
    'csi.expand': ({ request }) => {
      this.expanded.push(request);
      this.calls.push(`expand ${request.volume_id}`);
      return null;
    },
    'csi.inventory': () => ({ volumes: [...this.volumes.values()], devices: [...this.devices.values()], errors: [] }),
  };
}
