/**
 * Decides which kernel settings a pod may set. Pure. Upstream: pkg/kubelet/sysctl.
 *
 * A setting is safe if it belongs to a namespace of the pod, so that it affects no other pod.
 */
import { dottedSysctl } from '../spec/sandbox.ts';

interface Safe {
  readonly name: string;
  /** The first kernel that namespaces the setting. */
  readonly kernel?: readonly [major: number, minor: number];
}

const SAFE: readonly Safe[] = [
  { name: 'kernel.shm_rmid_forced' },
  { name: 'net.ipv4.ip_local_port_range' },
  { name: 'net.ipv4.tcp_syncookies' },
  { name: 'net.ipv4.ping_group_range' },
  { name: 'net.ipv4.ip_unprivileged_port_start' },
  { name: 'net.ipv4.ip_local_reserved_ports', kernel: [3, 16] },
  { name: 'net.ipv4.tcp_keepalive_time', kernel: [4, 5] },
  { name: 'net.ipv4.tcp_fin_timeout', kernel: [4, 6] },
  { name: 'net.ipv4.tcp_keepalive_intvl', kernel: [4, 5] },
  { name: 'net.ipv4.tcp_keepalive_probes', kernel: [4, 5] },
  { name: 'net.ipv4.tcp_rmem', kernel: [4, 15] },
  { name: 'net.ipv4.tcp_wmem', kernel: [4, 15] },
];

type Namespace = 'IPC' | 'Net';

/** Settings of the IPC namespace; the two shortest names stand for all names with this prefix. */
const IPC_NAMES = [
  'kernel.sem',
  'kernel.shm',
  'kernel.shmall',
  'kernel.shmmax',
  'kernel.shmmni',
  'kernel.shm_rmid_forced',
  'kernel.msg',
  'kernel.msgmax',
  'kernel.msgmnb',
  'kernel.msgmni',
];

/** The namespace of a setting, or of all settings with this prefix; `null` if it is unknown. */
function namespaceOf(name: string): Namespace | null {
  if (IPC_NAMES.includes(name) || name.startsWith('fs.mqueue.')) return 'IPC';
  return name.startsWith('net.') ? 'Net' : null;
}

/** A pattern of the configuration, up to its `*`; `isKnown`: it belongs to a namespace. */
export function sysctlPattern(pattern: string): { readonly name: string; readonly isKnown: boolean } {
  const [name = ''] = dottedSysctl(pattern).split('*', 1);
  return { name, isKnown: namespaceOf(name) !== null };
}

export interface SysctlSettings {
  readonly kernelVersion: string;
  /** Names and, with `*` at the end, prefixes that the configuration allows beyond the safe ones. */
  readonly allowedUnsafe: readonly string[];
}

/** Why one of the pod's settings is forbidden; `null` if all are allowed. */
export function forbiddenSysctl(
  names: readonly string[],
  pod: { readonly hostNetwork: boolean; readonly hostIPC: boolean },
  settings: SysctlSettings,
): string | null {
  for (const name of names.map(dottedSysctl)) {
    const quoted = JSON.stringify(name);
    const allowed = allowedBy(name, settings);
    if (allowed === null) return `forbidden sysctl: ${quoted} not allowlisted`;
    const namespace = namespaceOf(allowed);
    const isOfHost = (namespace === 'IPC' && pod.hostIPC) || (namespace === 'Net' && pod.hostNetwork);
    if (isOfHost) return `forbidden sysctl: ${quoted} not allowed with host ${namespace} enabled`;
  }
  return null;
}

/** The name or prefix that allows a setting. */
function allowedBy(name: string, { kernelVersion, allowedUnsafe }: SysctlSettings): string | null {
  const safe = SAFE.find((each) => each.name === name);
  if (safe && (safe.kernel === undefined || isAtLeast(kernelVersion, safe.kernel))) return name;
  const patterns = allowedUnsafe.map(dottedSysctl);
  if (patterns.includes(name)) return name;
  const prefixes = patterns.filter((each) => each.endsWith('*')).map((each) => each.slice(0, -1));
  return prefixes.find((prefix) => name.startsWith(prefix)) ?? null;
}

export function isAtLeast(version: string, [major, minor]: readonly [number, number]): boolean {
  const [, own = '0', next = '0'] = /^(\d+)\.(\d+)/.exec(version) ?? [];
  return Number(own) > major || (Number(own) === major && Number(next) >= minor);
}
