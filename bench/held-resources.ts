/** The resources of the machine that a daemon and its helpers hold, counted before and after a run to find leaks. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { RuntimeClient } from '../src/actors/cri/client.ts';
import type { Containerd } from '../test/support/containerd.ts';
import type { ClusterNode } from './cluster-node.ts';
import { CALL } from './control.ts';
import { family } from './process-cost.ts';

const CGROUPS = '/sys/fs/cgroup';
const LINKS = '/sys/class/net';

/** By its name in the table, the count of each resource; none may grow with pods that have ended. */
export type HeldResources = Readonly<Record<string, number>>;

interface Where {
  readonly cluster: ClusterNode;
  readonly containerd: Containerd;
  readonly client: RuntimeClient;
}

/** Empty if there is no such file; a folder may disappear while it is read. */
const unlessGone = <T>(read: () => readonly T[]): readonly T[] => {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
};

const entriesBelow = (folder: string): readonly string[] =>
  unlessGone(() =>
    readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? [path, ...entriesBelow(path)] : [path];
    }),
  );

const foldersBelow = (folder: string): readonly string[] =>
  unlessGone(() =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => join(folder, name))
      .flatMap((path) => [path, ...foldersBelow(path)]),
  );

const descriptors = (pid: number): readonly string[] =>
  readdirSync(`/proc/${pid}/fd`).flatMap((fd) => unlessGone(() => [readlinkSync(`/proc/${pid}/fd/${fd}`)]));

function mountsBelow(folders: readonly string[]): number {
  const points = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  return points.filter((line) => folders.some((folder) => line.split(' ')[4]?.startsWith(`${folder}/`))).length;
}

const cgroupsBelow = (root: string): number =>
  readdirSync(CGROUPS).flatMap((hierarchy) => foldersBelow(join(CGROUPS, hierarchy, root))).length;

/** Ports of the bridge in the private network of containerd: one for each running pod. */
function veths({ directory }: Containerd): number {
  const network = JSON.parse(readFileSync(join(directory, 'cni/10-statelet.conflist'), 'utf8')) as {
    readonly plugins: readonly { readonly bridge?: string }[];
  };
  const ports = join(LINKS, network.plugins[0]?.bridge ?? '', 'brif');
  return unlessGone(() => readdirSync(ports)).length;
}

export async function heldResources({ cluster, containerd, client }: Where): Promise<HeldResources> {
  const { node, server } = cluster;
  const open = descriptors(node.pid);
  const { items } = await client.call('ListPodSandbox', {}, CALL);
  const { containers } = await client.call('ListContainers', {}, CALL);
  return {
    'open files': open.length,
    'of these sockets': open.filter((target) => target.startsWith('socket:')).length,
    processes: family(node.pid).length,
    'watches at the API server': server.load.watches,
    sandboxes: items.length,
    containers: containers.length,
    mounts: mountsBelow([containerd.directory, node.directory]),
    cgroups: cgroupsBelow(node.cgroupRoot),
    veths: veths(containerd),
    'below root-dir, without the journal': entriesBelow(node.rootDir).filter((each) => !each.startsWith(node.journal))
      .length,
    'below the folder of logs': entriesBelow(node.logs).length,
  };
}
