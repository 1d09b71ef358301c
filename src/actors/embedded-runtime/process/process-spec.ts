/**
 * The process of a container, and the settings that a plain host process cannot honour.
 *
 * Determines command, environment, directory and user. Invariant: nothing is dropped silently; every requested but
 * unsupported field is listed in `ignored`.
 */
import { readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import type { ContainerConfig, LinuxContainerConfig } from '../../../machines/model/api/cri.ts';
import { invalid } from '../errors.ts';
import { ENTRYPOINT } from '../store/images.ts';
import type { ProcessSpec, TerminalSpec } from '../store/records.ts';
import { MARKER } from './proc.ts';

/** containerd's default for an image that names none. */
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

interface User {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}

export interface ProcessPlan {
  readonly process: ProcessSpec;
  readonly terminal?: TerminalSpec;
  readonly ignored: readonly string[];
}

export function planProcess(containerId: string, config: ContainerConfig, sandboxHostname: string): ProcessPlan {
  const command = config.command?.length ? config.command : ENTRYPOINT;
  const requested = requestedUser(config.linux);
  const canChangeUser = process.getuid?.() === 0;
  const user = requested && canChangeUser ? requested : undefined;
  const ignored = ignoredFields(config);
  if (requested && !canChangeUser && requested.uid !== process.getuid?.())
    ignored.push('runAsUser (the runtime is not root)');
  const env: Record<string, string> = {
    PATH: DEFAULT_PATH,
    HOSTNAME: sandboxHostname || hostname(),
    HOME: (user ?? findUser((one) => one.uid === process.getuid?.()))?.home ?? '/',
  };
  for (const { key = '', value = '' } of config.envs ?? []) env[key] = Buffer.from(value, 'base64').toString();
  env[MARKER] = containerId;
  checkNul([...command, ...(config.args ?? []), config.working_dir ?? '', ...Object.keys(env), ...Object.values(env)]);
  return {
    process: {
      command: [...command, ...(config.args ?? [])],
      env,
      cwd: config.working_dir || '/',
      ...(user ? { uid: user.uid, gid: user.gid } : {}),
    },
    ...terminalOf(config),
    ignored,
  };
}

function terminalOf({
  stdin = false,
  stdin_once: stdinOnce = false,
  tty = false,
}: ContainerConfig): Partial<ProcessPlan> {
  return stdin || tty ? { terminal: { stdin, stdinOnce: stdinOnce && !tty, tty } } : {};
}

/** A zero byte ends a string for the kernel: the rest would be lost. */
function checkNul(strings: readonly string[]): void {
  const bad = strings.find((one) => one.includes('\0'));
  if (bad !== undefined) throw invalid(`${JSON.stringify(bad)} holds a zero byte: not possible in a process`);
}

function requestedUser(linux: LinuxContainerConfig | undefined): User | undefined {
  const { run_as_user, run_as_username, run_as_group } = linux?.security_context ?? {};
  const uid = run_as_user?.value === undefined ? undefined : Number(run_as_user.value);
  if (uid === undefined && !run_as_username) return undefined;
  const known = findUser((one) => (uid === undefined ? one.name === run_as_username : one.uid === uid));
  if (uid === undefined && !known)
    throw invalid(`unable to find user ${run_as_username}: no matching entries in passwd`);
  const user = known ?? { name: '', uid: uid ?? 0, gid: 0, home: '/' };
  return run_as_group ? { ...user, gid: Number(run_as_group.value) } : user;
}

function findUser(wanted: (user: User) => boolean): User | undefined {
  return passwd().find(wanted);
}

function passwd(): readonly User[] {
  let text: string;
  try {
    text = readFileSync('/etc/passwd', 'utf8');
  } catch {
    return [];
  }
  return text.split('\n').map((line) => {
    const [name = '', , uid, gid, , home] = line.split(':');
    return { name, uid: Number(uid), gid: Number(gid), home: home || '/' };
  });
}

function ignoredFields(config: ContainerConfig): string[] {
  const context = config.linux?.security_context;
  const resources = Object.entries(config.linux?.resources ?? {}).filter(([, value]) => isSet(value));
  const unsupported: Readonly<Record<string, unknown>> = {
    mounts: config.mounts?.map((mount) => mount.container_path),
    devices: [...(config.devices ?? []), ...(config.CDI_devices ?? [])],
    resources,
    capabilities: context?.capabilities,
    readOnlyRootFilesystem: context?.readonly_rootfs,
    supplementalGroups: context?.supplemental_groups,
    seLinuxOptions: context?.selinux_options,
    noNewPrivileges: context?.no_new_privs,
    seccomp: context?.seccomp,
    apparmor: context?.apparmor,
  };
  return Object.keys(unsupported).filter((name) => isSet(unsupported[name]));
}

/** Zero and absent are equal in proto3. */
function isSet(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (typeof value === 'object' && value !== null) return Object.values(value).some(isSet);
  return Boolean(value) && value !== '0';
}
