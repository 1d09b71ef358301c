/**
 * The operations `volume.*` on this machine.
 *
 * Invariant: operations of one pod are serialized, so that nothing is set up during its removal; different pods never
 * wait for each other.
 */
import { randomBytes } from 'node:crypto';
import { Vault } from '../../kernel/journal/secrets.ts';
import type { Ports } from '../../kernel/operation.ts';
import type { volumeOperations } from '../../machines/model/operations/volume.ts';
import { serializer } from '../serializer.ts';
import { type Mounter, mounter } from './mounter.ts';
import type { NetworkPrograms } from './network-volume.ts';
import { Projects } from './projects.ts';
import { setUpVolumes } from './set-up.ts';
import { bindSubPaths } from './sub-path.ts';
import { podFolders, tearDownVolumes } from './tear-down.ts';
import { sharingsBelow } from './tree.ts';
import { readVariables } from './variables.ts';

export interface VolumeOptions {
  /** Opens what other ports sealed; without one, nothing is sealed. */
  readonly vault?: Vault;
  readonly mounter?: Mounter;
  readonly projects?: Projects;
  readonly network?: NetworkPrograms;
}

const KEY_BYTES = 32;

export function volumePorts(options: VolumeOptions = {}): Ports<typeof volumeOperations> {
  const vault = options.vault ?? new Vault(randomBytes(KEY_BYTES));
  const { mounter: mounts = mounter(), projects = new Projects() } = options;
  const { network } = options;
  const given = new Map<string, Set<string>>();
  const tools = { mounter: mounts, projects, vault, given, ...(network ? { network } : {}) };
  const inTurn = serializer();
  return {
    'volume.setUp': ({ input, signal }) => inTurn(input.podDirectory, () => setUpVolumes(input, tools, signal)),
    'volume.bindSubPaths': ({ input, signal }) =>
      inTurn(input.podDirectory, () => bindSubPaths(input, tools.mounter, signal)),
    'volume.readVariables': ({ input, signal }) => readVariables(input, tools.vault, signal),
    'volume.sharings': async ({ input }) => sharingsBelow(input.directory),
    'volume.podFolders': async ({ input }) => ({ uids: await podFolders(input.root) }),
    'volume.tearDown': ({ input }) =>
      inTurn(input.podDirectory, () => {
        tools.given.delete(input.podDirectory);
        return tearDownVolumes(input, tools);
      }),
  };
}
