/** The drivers of the simulated node: of CSI and of DRA. */
import { OperationError } from '../../kernel/json.ts';
import type { InputOf, OutputOf } from '../../kernel/xstate.ts';
import type { csiOperations, FoundDevice, FoundVolume } from '../../machines/model/operations/csi.ts';
import type { diskOperations } from '../../machines/model/operations/disk.ts';
import type { ClaimDevice, DraItem, DraPlugin, draOperations } from '../../machines/model/operations/dra.ts';
import type { hostOperations } from '../../machines/model/operations/host.ts';
import type { Unshared } from '../../machines/model/operations/volume.ts';

/** CSI drivers and the folders of their volumes: the operations `csi.*` in memory. */
type CsiOperations = typeof csiOperations;
type CsiHandlers = {
  readonly [Name in Exclude<keyof CsiOperations, 'csi.followHealth'>]: (
    input: InputOf<CsiOperations[Name]>,
  ) => OutputOf<CsiOperations[Name]>;
};

export class CsiWorld {
  capabilities: readonly string[] = ['STAGE_UNSTAGE_VOLUME'];
  /** By folder of the volume's record. */
  readonly volumes = new Map<string, FoundVolume>();
  readonly devices = new Map<string, FoundDevice>();
  /** The calls to drivers, in order. */
  readonly calls: string[] = [];
  readonly published: InputOf<CsiOperations['csi.publish']>[] = [];
  readonly staged: InputOf<CsiOperations['csi.stage']>[] = [];
  readonly expanded: InputOf<CsiOperations['csi.expand']>['request'][] = [];
  /** The part that each publication reports as unshared; `null` for none. */
  unshared: Unshared | null = null;
  private readonly folders: Set<string>;

  constructor(folders: Set<string>) {
    this.folders = folders;
  }

  readonly handlers: CsiHandlers = {
    'csi.capabilities': () => ({ capabilities: this.capabilities }),
    'csi.stage': (input) => {
      const { directory, data, request } = input;
      this.staged.push(input);
      if (request) this.calls.push(`stage ${request.volume_id}`);
      const { seLinuxMountContext: label } = data;
      this.devices.set(directory, {
        directory,
        driver: data['driverName'] ?? '',
        handle: data['volumeHandle'] ?? '',
        block: data['specVolID'] ?? null,
        ...(label === undefined ? {} : { label }),
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

/** Disks of storage networks: the operations `disk.*`. `calls`: their names, in order. */
export class DiskWorld {
  readonly calls: string[] = [];
  private readonly folders: Set<string>;

  constructor(folders: Set<string>) {
    this.folders = folders;
  }

  readonly handlers: DiskHandlers = {
    'disk.attach': () => this.noted('attach', { device: '/dev/sdx' }),
    'disk.mountDevice': () => this.noted('mountDevice', null),
    'disk.setUp': ({ mount }) => {
      this.folders.add(mount.path);
      return this.noted('setUp', null);
    },
    'disk.tearDown': ({ mount }) => {
      this.folders.delete(mount.path);
      return this.noted('tearDown', null);
    },
    'disk.detach': () => this.noted('detach', null),
  };

  private noted<Answer>(name: string, answer: Answer): Answer {
    this.calls.push(name);
    return answer;
  }
}

type DiskOperations = typeof diskOperations;
type DiskHandlers = {
  readonly [Name in keyof DiskOperations]: (input: InputOf<DiskOperations[Name]>) => OutputOf<DiskOperations[Name]>;
};

/** Resource drivers and the checkpoint of claims: the operations `dra.*` in memory. */
type DraOperations = Pick<typeof draOperations, 'dra.prepare' | 'dra.unprepare'> &
  Pick<typeof hostOperations, 'host.readCheckpoints' | 'host.writeCheckpoint'>;
type DraHandlers = {
  readonly [Name in keyof DraOperations]: (input: InputOf<DraOperations[Name]>) => OutputOf<DraOperations[Name]>;
};

export class DraWorld {
  /** The calls to drivers, in order: `prepare gpu.example.test/default/claim`. */
  readonly calls: string[] = [];
  /** The content of each checkpoint, by path. */
  readonly checkpoints = new Map<string, string>();
  /** By name of a claim, the error of its driver. */
  readonly refusals = new Map<string, string>();
  private readonly followers = new Map<string, Set<(item: DraItem) => void>>();

  readonly handlers: DraHandlers = {
    'dra.prepare': ({ calls }) => ({
      prepared: calls.map(({ driver, claims }) => ({
        driver,
        claims: Object.fromEntries(
          claims.map((claim) => {
            this.note('prepare', driver, claim);
            return [claim.uid, [deviceFor(driver, claim.name)]];
          }),
        ),
      })),
    }),
    'dra.unprepare': ({ calls }) => {
      for (const { driver, claims } of calls) for (const claim of claims) this.note('unprepare', driver, claim);
      return null;
    },
    'host.readCheckpoints': ({ paths }) => ({ contents: paths.map((path) => this.checkpoints.get(path) ?? null) }),
    'host.writeCheckpoint': ({ path, content }) => {
      this.checkpoints.set(path, content);
      return null;
    },
  };

  /** Follows a driver; it serves until the call ends. */
  follow({ driver }: DraPlugin, emit: (item: DraItem) => void): () => void {
    const all = this.followers.get(driver) ?? new Set();
    this.followers.set(driver, all.add(emit));
    emit({ type: 'dra.connected', isConnected: true });
    return () => void all.delete(emit);
  }

  emit(driver: string, item: DraItem): void {
    for (const emit of this.followers.get(driver) ?? []) emit(item);
  }

  private note(verb: string, driver: string, claim: { readonly namespace: string; readonly name: string }): void {
    const refusal = this.refusals.get(claim.name);
    this.calls.push(`${verb} ${driver}/${claim.namespace}/${claim.name}`);
    const call = verb === 'prepare' ? 'NodePrepareResources' : 'NodeUnprepareResources';
    if (refusal !== undefined) throw new OperationError(`${call} failed for ResourceClaim ${claim.name}: ${refusal}`);
  }
}

const deviceFor = (driver: string, claim: string): ClaimDevice => ({
  pool: 'node',
  device: `${claim}-device`,
  share: null,
  requests: ['gpu'],
  cdi: [`${driver}/gpu=${claim}`],
});
