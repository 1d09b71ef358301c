/**
 * Which kernel settings a pod may have changed for itself. Pure. Upstream: pkg/kubelet/sysctl.
 *
 * A setting is safe when it belongs to a namespace of the pod and touches nobody else; its kernel must have it as such.
 */
interface Safe {
  readonly name: string;
  /** The first kernel in which it is namespaced. */
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

type Namespace = 'ipc' | 'net';

/** Prefixes of everything that the kernel keeps by namespace. */
const NAMESPACES: readonly (readonly [prefix: string, namespace: Namespace])[] = [
  ['kernel.shm', 'ipc'],
  ['kernel.msg', 'ipc'],
  ['kernel.sem', 'ipc'],
  ['fs.mqueue.', 'ipc'],
  ['net.', 'net'],
];

export interface SysctlSettings {
  readonly kernelVersion: string;
  /** Names and, with `*` at the end, prefixes that this node's owner allows beyond the safe ones. */
  readonly allowedUnsafe: readonly string[];
}

/** Why one of them is forbidden; `null`: all are allowed. */
export function forbiddenSysctl(
  names: readonly string[],
  pod: { readonly hostNetwork: boolean; readonly hostIPC: boolean },
  settings: SysctlSettings,
): string | null {
  for (const name of names.map(dotted)) {
    const quoted = JSON.stringify(name);
    if (!isAllowed(name, settings)) return `forbidden sysctl: ${quoted} not allowlisted`;
    const namespace = NAMESPACES.find(([prefix]) => name.startsWith(prefix))?.[1];
    const isOfHost = (namespace === 'ipc' && pod.hostIPC) || (namespace === 'net' && pod.hostNetwork);
    if (isOfHost) return `forbidden sysctl: ${quoted} not allowed with host ${namespace} enabled`;
  }
  return null;
}

function isAllowed(name: string, { kernelVersion, allowedUnsafe }: SysctlSettings): boolean {
  const safe = SAFE.find((each) => each.name === name);
  if (safe && (safe.kernel === undefined || isAtLeast(kernelVersion, safe.kernel))) return true;
  return allowedUnsafe
    .map(dotted)
    .some((each) => (each.endsWith('*') ? name.startsWith(each.slice(0, -1)) : each === name));
}

function isAtLeast(version: string, [major, minor]: readonly [number, number]): boolean {
  const [, own = '0', next = '0'] = /^(\d+)\.(\d+)/.exec(version) ?? [];
  return Number(own) > major || (Number(own) === major && Number(next) >= minor);
}

/** Where the first separator is a slash, slashes and dots change their places. */
function dotted(name: string): string {
  if (/[./]/.exec(name)?.[0] !== '/') return name;
  return name.replace(/[./]/g, (separator) => (separator === '/' ? '.' : '/'));
}
