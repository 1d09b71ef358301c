/** What a daemon and what runs for it hold of the machine: counted before and after, so that a leak shows. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { RuntimeClient } from '../src/actors/cri/client.ts';
import type { Containerd } from '../test/support/containerd.ts';
import type { ClusterNode } from './cluster-node.ts';
import { CALL } from './control.ts';
import { family } from './process-cost.ts';

const CGROUPS = '/sys/fs/cgroup';
const LINKS = '/sys/class/net';

/** Each by its name in the table; none may grow with the pods that came and went. */
export type HeldResources = Readonly<Record<string, number>>;

interface Where {
  readonly cluster: ClusterNode;
  readonly containerd: Containerd;
  readonly client: RuntimeClient;
}

/** Nothing when it is not there; a folder may go while it is read. */
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

/** Ports of the bridge that the containerd's own network has: one a running pod. */
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
