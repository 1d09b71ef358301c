/** Resource drivers and the checkpoint of claims: the operations `dra.*` in memory. */
import { OperationError } from '../../kernel/json.ts';
import type { InputOf, OutputOf } from '../../kernel/xstate.ts';
import type { ClaimDevice, DraItem, DraPlugin, draOperations } from '../../machines/model/operations/dra.ts';
import type { hostOperations } from '../../machines/model/operations/host.ts';

type Operations = Pick<typeof draOperations, 'dra.prepare' | 'dra.unprepare'> &
  Pick<typeof hostOperations, 'host.readCheckpoints' | 'host.writeCheckpoint'>;
type Handlers = {
  readonly [Name in keyof Operations]: (input: InputOf<Operations[Name]>) => OutputOf<Operations[Name]>;
};

export class DraWorld {
  /** The calls to drivers, in order: `prepare gpu.example.test/default/claim`. */
  readonly calls: string[] = [];
  /** The content of each checkpoint, by path. */
  readonly checkpoints = new Map<string, string>();
  /** By name of a claim, the error of its driver. */
  readonly refusals = new Map<string, string>();
  private readonly followers = new Map<string, Set<(item: DraItem) => void>>();

  readonly handlers: Handlers = {
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
