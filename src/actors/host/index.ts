/** All ports of this machine, one file per subject. Nothing is read or opened before it is requested. */
import { randomBytes } from 'node:crypto';
import { Vault } from '../../kernel/journal/index.ts';
import type { Ports } from '../../kernel/operation.ts';
import type { hostOperations } from '../../machines/model/operations/host.ts';
import { mounter } from '../volume/mounter.ts';
import { addressPort } from './addresses.ts';
import { configurationPorts } from './configuration/configuration-watch.ts';
import { directoriesPort, fileSystem, makeSymlink, readable, readTextFile } from './files.ts';
import { keepIptables } from './kernel/iptables.ts';
import { watchOom } from './kernel/kmsg.ts';
import { limitPorts, sysctlPorts } from './kernel/settings.ts';
import { type SystemCalls, systemCalls } from './kernel/syscall.ts';
import { lockPorts } from './lock.ts';
import { machinePorts } from './machine.ts';
import { manifestUrlPort } from './manifests/manifest-url.ts';
import { manifestPort } from './manifests/manifests.ts';
import { notifyPort, watchdogPorts } from './notify.ts';
import { preparePod, removePod } from './pods/pod-files.ts';
import { terminationMessage } from './pods/termination-message.ts';
import { rememberingPorts } from './state/remembered-pods.ts';
import { loadSoftState, readCheckpoints, saveSoftState, writeCheckpoint } from './state/soft-state.ts';

export interface HostOptions {
  /** Prefix of `/proc`, `/sys` and `/etc`, for a machine that is described by files. */
  readonly root?: string;
  readonly environment?: NodeJS.ProcessEnv;
  /** `null`: system programs are used instead of FFI. */
  readonly system?: SystemCalls | null;
  /** Keeps the values of Secrets that are read here, for the ports that pass them on. */
  readonly vault?: Vault;
}

type HostPorts = Ports<Omit<typeof hostOperations, 'server.healthz' | 'host.setLogVerbosity'>>;

export function hostPorts(options: HostOptions = {}): HostPorts {
  const { root = '', environment = process.env, vault = new Vault(randomBytes(32)) } = options;
  const system = options.system === undefined ? systemCalls() : options.system;
  const notify = notifyPort(environment, system);
  const mounts = mounter({ system });
  return {
    ...machinePorts(root, root === '' ? mounts : null),
    ...limitPorts(root, system),
    ...lockPorts(system),
    ...sysctlPorts(root),
    'host.addresses': addressPort(root),
    'host.readFile': readTextFile,
    'host.readable': readable,
    ...configurationPorts(vault),
    'host.makeDirectories': directoriesPort(mounts),
    'host.notify': notify,
    ...watchdogPorts(environment, notify),
    'host.keepIptables': keepIptables,
    'host.watchManifests': manifestPort(vault),
    'host.watchManifestUrl': manifestUrlPort(vault),
    'host.preparePod': preparePod,
    'host.removePod': removePod,
    'host.watchOom': watchOom(root),
    'host.terminationMessage': terminationMessage,
    'host.fileSystem': fileSystem,
    'host.symlink': makeSymlink,
    'host.loadSoftState': loadSoftState,
    'host.saveSoftState': saveSoftState,
    'host.readCheckpoints': readCheckpoints,
    'host.writeCheckpoint': writeCheckpoint,
    ...rememberingPorts(vault),
  };
}
