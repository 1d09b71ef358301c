/**
 * A separate containerd for a test, with its own root, state, socket, bridge and cgroup; `close()` leaves nothing of
 * it.
 *
 * The machine's containerd, if it runs, is not touched. The images of test/support/image.ts are imported.
 * `STATELET_CONTAINERD` names a folder with the programs of another version (containerd, its shim, ctr); only
 * recordings with texts of the system's containerd ignore it.
 */
import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { accessSync, constants, openSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, rmdir, symlink, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pLimit from 'p-limit';
import { BUSYBOX, BUSYBOX_IMAGE, buildTestImages, PAUSE_IMAGE } from './image.ts';
import { patient } from './patience.ts';
import { freeSubnet } from './ports.ts';

const run = promisify(execFile);

const CNI_BIN = '/usr/lib/cni';
const CNI_PLUGINS = ['bridge', 'host-local', 'loopback'];
const CNI_RESULTS = '/var/lib/cni/results';
const CGROUP_ROOT = '/sys/fs/cgroup';
/** A cold start of containerd takes about a second; a loaded machine has taken half a minute. */
const READY_TIMEOUT_MS = patient(120_000);
/** How long containerd may take to end after SIGTERM. */
const STOP_TIMEOUT_MS = patient(10_000);
/** The time limit for the end of a process after SIGKILL. */
const KILL_TIMEOUT_MS = patient(60_000);
const POLL_MS = 25;
/** Each one starts a process; one after the other, a hundred would take minutes on a busy machine. */
const KILLS_AT_ONCE = 4;

export interface Containerd {
  /** `unix:///…` */
  readonly endpoint: string;
  /** The root of all files of this containerd; removed by `close`. */
  readonly directory: string;
  /** The image exists, and has every applet of busybox. */
  readonly image: string;
  /** For `cgroup_parent` of sandboxes; removed by `close`. */
  readonly cgroupParent: string;
  readonly pid: number;
  /** The file with containerd's log. */
  readonly logFile: string;
  ctr(...args: readonly string[]): Promise<string>;
  /** SIGKILL and, after this time, a new process with the same socket and state, as after a crash. */
  restart(awayMs?: number): Promise<void>;
  /** As after a loss of power: every process ends at once, and the content of memory is lost. */
  reset(): Promise<void>;
  close(): Promise<void>;
}

/** The containerd that `STATELET_CONTAINERD` names, or always the system's. */
type Programs = 'chosen' | 'system';

/** Folders of programs, for the tests and for containerd, which looks for its shim. */
const PATHS: Readonly<Record<Programs, string>> = {
  chosen: pathOf(process.env['STATELET_CONTAINERD'], process.env['PATH'], '/usr/sbin', '/sbin'),
  system: pathOf(process.env['PATH'], '/usr/sbin', '/sbin'),
};

function pathOf(...folders: readonly (string | undefined)[]): string {
  return folders.filter(Boolean).join(delimiter);
}

function placeOf(command: string, programs: Programs = 'chosen'): string | undefined {
  const directories = PATHS[programs].split(delimiter);
  return directories.map((directory) => join(directory, command)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Why no containerd can be started here; `null` if it can. */
export function containerdAvailable(): string | null {
  if (process.platform !== 'linux') return `containerd needs Linux, this is ${process.platform}`;
  if (process.getuid?.() !== 0) return 'containerd needs root';
  for (const command of ['containerd', 'ctr', 'runc', 'ip', 'tar', 'umount']) {
    if (!placeOf(command)) return `${command} is not installed`;
  }
  if (!isExecutable(BUSYBOX)) return `${BUSYBOX} is not installed (Debian: busybox-static)`;
  for (const plugin of CNI_PLUGINS) {
    if (!isExecutable(join(CNI_BIN, plugin))) return `the CNI plug-in ${plugin} is not in ${CNI_BIN}`;
  }
  return null;
}

/** Major version of the containerd that is started here. */
export function containerdMajor(): number {
  const version = execFileSync(placeOf('containerd')!, ['--version'], { encoding: 'utf8' });
  return Number(/ v?(\d+)\.\d+\.\d+/.exec(version)![1]);
}

interface Layout {
  readonly directory: string;
  readonly id: string;
  readonly bridge: string;
  readonly subnet: string;
  readonly socket: string;
  readonly logFile: string;
  readonly programs: Programs;
}

const CRI = 'plugins."io.containerd.grpc.v1.cri"';

const configuration = ({ directory, socket }: Layout) => `version = 2
root = "${directory}/root"
state = "${directory}/state"
[grpc]
  address = "${socket}"
[ttrpc]
  address = "${socket}.ttrpc"
[${CRI}]
  sandbox_image = "${PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  enable_cdi = true
  cdi_spec_dirs = ["${directory}/cdi"]
[${CRI}.cni]
  bin_dir = "${directory}/cni-bin"
  conf_dir = "${directory}/cni"
[${CRI}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[${CRI}.containerd.runtimes.runc.options]
  Root = "${directory}/runc"
  BinaryName = "${directory}/bin/runc"
`;

const network = ({ directory, id, bridge, subnet }: Layout) => ({
  cniVersion: '0.4.0',
  name: `statelet-${id}`,
  plugins: [
    {
      type: 'bridge',
      bridge,
      isGateway: true,
      ipam: {
        type: 'host-local',
        dataDir: `${directory}/ipam`,
        ranges: [[{ subnet }]],
        routes: [{ dst: '0.0.0.0/0' }],
      },
    },
  ],
});

async function prepare(programs: Programs): Promise<Layout> {
  const id = randomBytes(4).toString('hex');
  // Not below tmpdir(), because the path of a socket has at most 107 characters.
  const directory = await mkdtemp(`/tmp/statelet-${id}-`);
  const layout = {
    directory,
    id,
    bridge: `stl-${id}`,
    subnet: await freeSubnet(),
    socket: join(directory, 'containerd.sock'),
    logFile: join(directory, 'containerd.log'),
    programs,
  };
  await mkdir(join(directory, 'cni'));
  // Folders of their own, so that a test can replace their programs.
  await mkdir(join(directory, 'cni-bin'));
  for (const name of CNI_PLUGINS) await symlink(join(CNI_BIN, name), join(directory, 'cni-bin', name));
  await mkdir(join(directory, 'bin'));
  await symlink(placeOf('runc')!, join(directory, 'bin/runc'));
  await writeFile(join(directory, 'config.toml'), configuration(layout));
  await writeFile(join(directory, 'cni/10-statelet.conflist'), JSON.stringify(network(layout)));
  return layout;
}

/** Waits for something that no other event ends. */
async function until(what: string, timeoutMs: number, isTrue: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (!(await isTrue())) {
    if (performance.now() > deadline) throw new Error(`timed out after ${timeoutMs} ms: ${what}`);
    await sleep(POLL_MS);
  }
}

const succeeds = (promise: Promise<unknown>) =>
  promise.then(
    () => true,
    () => false,
  );

class OwnContainerd implements Containerd {
  readonly #layout: Layout;
  #process: ChildProcess;

  constructor(layout: Layout) {
    this.#layout = layout;
    this.#process = this.#spawn();
  }

  get endpoint() {
    return `unix://${this.#layout.socket}`;
  }
  get directory() {
    return this.#layout.directory;
  }
  get cgroupParent() {
    return `/statelet-${this.#layout.id}`;
  }
  get logFile() {
    return this.#layout.logFile;
  }
  get image() {
    return BUSYBOX_IMAGE;
  }
  get pid() {
    return this.#process.pid ?? 0;
  }

  async ctr(...args: readonly string[]): Promise<string> {
    const { programs, socket } = this.#layout;
    const { stdout } = await run(placeOf('ctr', programs)!, ['-a', socket, '-n', 'k8s.io', ...args]);
    return stdout;
  }

  /** Waits until containerd serves with its CRI part, and has the images. */
  async ready(): Promise<void> {
    await until('containerd answers', READY_TIMEOUT_MS, async () => {
      if (this.#hasEnded()) throw new Error(`containerd ended: ${await readFile(this.logFile, 'utf8')}`);
      return succeeds(this.ctr('version'));
    });
  }

  async importImages(): Promise<void> {
    const archive = join(this.directory, 'images.tar');
    await buildTestImages(archive);
    await this.ctr('images', 'import', archive);
    await rm(archive);
  }

  async restart(awayMs = 0): Promise<void> {
    await this.#kill();
    await sleep(awayMs);
    this.#process = this.#spawn();
    await this.ready();
  }

  async reset(): Promise<void> {
    const alive = await this.#alive();
    await this.#kill();
    await killShims(this.#layout.socket);
    await killAll(alive.map(({ pid }) => pid));
    await unmountBelow(this.directory);
    await rm(join(this.directory, 'state'), { recursive: true, force: true });
    await succeeds(run('ip', ['link', 'delete', this.#layout.bridge]));
    this.#process = this.#spawn();
    await this.ready();
  }

  /** Ends the containers first, so that their shims and mounts can be removed; then containerd, then the leftovers. */
  async close(): Promise<void> {
    const limit = pLimit(KILLS_AT_ONCE);
    const kill = (id: string) => succeeds(this.ctr('tasks', 'kill', '--all', '--signal', 'SIGKILL', id));
    await Promise.all((await this.#alive().catch(() => [])).map(({ id }) => limit(() => kill(id))));
    this.#process.kill('SIGTERM');
    const ended = await succeeds(until('containerd ends', STOP_TIMEOUT_MS, async () => this.#hasEnded()));
    if (!ended) await this.#kill();
    await killShims(this.#layout.socket);
    await unmountBelow(this.directory);
    await succeeds(run('ip', ['link', 'delete', this.#layout.bridge]));
    await removeCgroups(this.cgroupParent);
    await removeNetworkResults(this.directory);
    await rm(this.directory, { recursive: true, force: true });
  }

  #spawn(): ChildProcess {
    const { directory, logFile, programs } = this.#layout;
    const log = openSync(logFile, 'a');
    const env = { ...process.env, PATH: PATHS[programs] };
    const config = join(directory, 'config.toml');
    return spawn(placeOf('containerd', programs)!, ['--config', config], { env, stdio: ['ignore', log, log] });
  }

  /** Containers and sandboxes that have a process. */
  async #alive(): Promise<readonly { readonly id: string; readonly pid: string }[]> {
    return (await this.ctr('tasks', 'list')).split('\n').flatMap((line) => {
      const [id = '', pid = '', state] = line.split(/\s+/);
      return Number(pid) > 0 && state !== 'STOPPED' ? [{ id, pid }] : [];
    });
  }

  async #kill(): Promise<void> {
    this.#process.kill('SIGKILL');
    await until('containerd is gone', KILL_TIMEOUT_MS, async () => this.#hasEnded());
  }

  #hasEnded(): boolean {
    return this.#process.exitCode !== null || this.#process.signalCode !== null;
  }
}

/**
 * Ends the shims, which are sessions of their own: each has the socket of the containerd that started it in its
 * arguments.
 */
async function killShims(socket: string): Promise<void> {
  const shims: string[] = [];
  for (const entry of await readdir('/proc')) {
    const args = (await commandOf(entry)).split('\0');
    if (args[0]?.includes('containerd-shim') && args.includes(socket)) shims.push(entry);
  }
  await killAll(shims);
}

/** Waits until the processes are gone, because their open files would keep folders and mounts from being removed. */
async function killAll(pids: readonly string[]): Promise<void> {
  for (const pid of pids) {
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {
      // The process has ended by itself.
    }
  }
  const areGone = async () => (await Promise.all(pids.map(commandOf))).every((command) => command === '');
  await until('what was killed is gone', KILL_TIMEOUT_MS, areGone);
}

/** The arguments, each followed by NUL; empty if there is no such process, or only its exit code is left. */
const commandOf = (pid: string): Promise<string> =>
  /^\d+$/.test(pid) ? readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '') : Promise.resolve('');

async function unmountBelow(directory: string): Promise<void> {
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').map((line) => line.split(' ')[4] ?? '');
  for (const mount of mounts.filter((path) => path.startsWith(`${directory}/`)).toReversed()) {
    await succeeds(run('umount', ['--lazy', mount]));
  }
}

/** Removes the group in each hierarchy, deepest first, because only an empty one can be removed. */
async function removeCgroups(parent: string): Promise<void> {
  const hierarchies = await readdir(CGROUP_ROOT);
  for (const base of [CGROUP_ROOT, ...hierarchies.map((name) => join(CGROUP_ROOT, name))]) {
    await removeCgroup(join(base, parent));
  }
}

async function removeCgroup(path: string): Promise<void> {
  const children = await readdir(path, { withFileTypes: true }).catch(() => []);
  for (const child of children) if (child.isDirectory()) await removeCgroup(join(path, child.name));
  await succeeds(rmdir(path));
}

/**
 * Removes the results that the CNI library stores for our network namespaces; they contain the name of our directory.
 */
async function removeNetworkResults(directory: string): Promise<void> {
  for (const name of await readdir(CNI_RESULTS).catch(() => [])) {
    const file = join(CNI_RESULTS, name);
    const result = await readFile(file, 'utf8').catch(() => '');
    if (result.includes(`${directory}/`)) await rm(file, { force: true });
  }
}

/** Starts a containerd; requires that `containerdAvailable()` returned null. */
export async function startContainerd(programs: Programs = 'chosen'): Promise<Containerd> {
  const containerd = new OwnContainerd(await prepare(programs));
  try {
    await containerd.ready();
    await containerd.importImages();
    return containerd;
  } catch (error) {
    await containerd.close();
    throw error;
  }
}
