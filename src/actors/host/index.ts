/** All ports of this machine, one file per subject. Nothing is read or opened before it is requested. */
import { randomBytes } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { Vault } from '../../kernel/journal/secrets.ts';
import { OperationError } from '../../kernel/json.ts';
import type { Port, Ports } from '../../kernel/operation.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import type { hostOperations } from '../../machines/model/operations/host.ts';
import { mounter } from '../volume/mounter.ts';
import { addressPorts } from './addresses.ts';
import { configurationPorts } from './configuration/configuration-watch.ts';
import { directoriesPort, fileSystem, makeSymlink, readable, readTextFile } from './files.ts';
import { keepIptables } from './kernel/iptables.ts';
import { watchOom } from './kernel/kmsg.ts';
import { runCommand, type SystemCalls, systemCalls } from './kernel/syscall.ts';
import { lockPorts } from './lock.ts';
import { machinePorts } from './machine.ts';
import { manifestUrlPort } from './manifests/manifest-url.ts';
import { manifestPort } from './manifests/manifests.ts';
import { notifyPort, watchdogPorts } from './notify.ts';
import { preparePod, removePod, terminationMessage } from './pod-files.ts';
import { loadSoftState, readCheckpoints, rememberingPorts, saveSoftState, writeCheckpoint } from './soft-state.ts';

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
    ...addressPorts(root),
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

/** Ports: the OOM score and the limit of open files of this process, and the kernel settings below /proc/sys. */
function limitPorts(root: string, system: SystemCalls | null) {
  const setOomScoreAdj: Port<(typeof hostOperations)['host.setOomScoreAdj']> = async ({ input }) => {
    const path = `${root}/proc/self/oom_score_adj`;
    try {
      await writeFile(path, String(input.value));
    } catch (error) {
      const why = messageOf(error);
      throw new OperationError(`failed to write ${input.value} to ${path}: ${why}`, { code: codeOf(error) ?? '' });
    }
    return null;
  };
  const setOpenFilesLimit: Port<(typeof hostOperations)['host.setOpenFilesLimit']> = async ({ input: { limit } }) => {
    if (!Number.isSafeInteger(limit) || limit <= 0) throw new OperationError(`not a limit of open files: ${limit}`);
    if (system) system.setOpenFilesLimit(limit);
    else await runCommand('prlimit', [`--pid=${process.pid}`, `--nofile=${limit}:${limit}`]);
    return null;
  };
  return { 'host.setOomScoreAdj': setOomScoreAdj, 'host.setOpenFilesLimit': setOpenFilesLimit };
}

/** `host.tuneKernel`: settings below /proc/sys are compared and, where `modify` says so, changed. */
function sysctlPorts(root: string) {
  const tuneKernel: Port<(typeof hostOperations)['host.tuneKernel']> = async ({ input: { expected, modify } }) => {
    const errors: string[] = [];
    for (const [name, value] of Object.entries(expected)) {
      const error = await tune(`${root}/proc/sys/${name}`, name, value, modify).catch(
        (thrown: Error) => thrown.message,
      );
      if (error !== null) errors.push(error);
    }
    return { errors };
  };
  return { 'host.tuneKernel': tuneKernel };
}

async function tune(path: string, name: string, value: number, modify: boolean): Promise<string | null> {
  const actual = Number((await readFile(path, 'utf8')).trim());
  if (actual === value) return null;
  if (!modify) return `invalid kernel flag: ${name}, expected value: ${value}, actual value: ${actual}`;
  await writeFile(path, String(value));
  return null;
}
