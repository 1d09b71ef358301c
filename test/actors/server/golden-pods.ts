/** The pods of the HTTP corpus as the node knew them, and their logs as the runtime wrote them. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { NodePod } from '../../../src/actors/server/node-pods.ts';
import type { ContainerStatus } from '../../../src/machines/model/api/cri.ts';
import type { Pod, PodStatus } from '../../../src/machines/model/api/pod.ts';

type State = 'running' | 'exited' | 'waiting';

export interface GoldenContainer {
  readonly name: string;
  readonly state?: State;
  readonly kind?: 'init' | 'regular';
  readonly reason?: string;
  /** Lines of the log; those that begin with `e` or `oops` went to stderr. */
  readonly log?: readonly string[];
  /** The log of the previous instance; `null`: the instance existed, and the runtime has forgotten it. */
  readonly previous?: readonly string[] | null;
}

export interface GoldenPod {
  readonly name: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly containers: readonly GoldenContainer[];
}

const SLEEPER: GoldenContainer = { name: 'main', log: [] };

/** The pods of the corpus that have one of its two logs: `lines` and `web/httpd`. */
export const corpusPods = (lines: readonly string[], httpd: readonly string[]): GoldenPod[] => [
  { name: 'lines', containers: [{ name: 'main', log: lines }] },
  {
    name: 'web',
    containers: [
      { name: 'setup', kind: 'init', state: 'exited', log: ['init says hello'] },
      { name: 'httpd', log: httpd },
      { name: 'ticker', log: ['tick 0', 'err 0'] },
    ],
  },
  { name: 'hostnet', containers: [{ name: 'main', log: ['hostnet up'] }] },
  {
    name: 'crash',
    containers: [{ name: 'main', state: 'exited', log: ['crash begins', 'ecrash stderr'], previous: null }],
  },
  { name: 'waiting', containers: [{ name: 'main', state: 'waiting', reason: 'ErrImageNeverPull' }] },
  { name: 'done', containers: [{ name: 'main', state: 'exited', log: ['done one', 'done two'] }] },
  {
    name: 'initwait',
    containers: [
      { name: 'first', kind: 'init', state: 'exited', log: ['first ran'] },
      { name: 'blocker', kind: 'init', log: ['blocking'] },
      { name: 'main', state: 'waiting', reason: 'PodInitializing' },
    ],
  },
  { name: 'shell', containers: [SLEEPER, { name: 'tty', log: [] }] },
  { name: 'shell2', containers: [SLEEPER, { name: 'tty', log: [] }] },
  { name: 'target', containers: [SLEEPER] },
  { name: 'again', containers: [{ name: 'main', log: ['second run'], previous: ['first run', 'efirst err'] }] },
  { name: 'long', containers: [{ name: 'main', state: 'exited' }] },
  {
    name: 'static-node1',
    annotations: { 'kubernetes.io/config.source': 'file' },
    containers: [{ name: 'main', log: ['static up'] }],
  },
];

const idOf = (pod: string, container: string, attempt = 1): string => `${pod}-${container}-${attempt}`;
const CHUNK = 16_384;
/** An hour ago, so that requests for the lines of the last day find them. */
const TIME = new Date(Date.now() - 3_600_000).toISOString().replace('Z', '456789Z');

/** Writes the logs below `directory` and returns the node's view of the pods. */
export function goldenPods(directory: string, pods: readonly GoldenPod[]): NodePod[] {
  return pods.map(({ name, annotations = {}, containers }) => {
    const uid = `uid-of-${name}`;
    const folder = join(directory, `default_${name}_${uid}`);
    const runtimeContainers = containers.flatMap((container) => instancesOf(name, container, folder));
    const kinds = (kind: 'init' | 'regular') => containers.filter((one) => (one.kind ?? 'regular') === kind);
    const spec = (all: readonly GoldenContainer[]) => all.map((one) => ({ name: one.name, image: 'busybox' }));
    const status = (all: readonly GoldenContainer[]) => all.map((one) => statusOf(name, one));
    const pod: Pod = {
      metadata: { name, namespace: 'default', uid, annotations },
      spec: { initContainers: spec(kinds('init')), containers: spec(kinds('regular')), nodeName: 'node1' },
    };
    return {
      uid,
      name,
      namespace: 'default',
      pod,
      mounted: [],
      status: {
        phase: 'Running',
        initContainerStatuses: status(kinds('init')),
        containerStatuses: status(kinds('regular')),
      } as unknown as PodStatus,
      runtime: {
        uid,
        name,
        namespace: 'default',
        sandboxes: name === 'done' ? [] : [{ state: 'SANDBOX_READY', id: `sandbox-${name}` } as never],
        containers: runtimeContainers,
        observedAtMs: 0,
      },
    };
  });
}

function instancesOf(pod: string, { name, state = 'running', log, previous }: GoldenContainer, folder: string) {
  if (state === 'waiting') return [];
  mkdirSync(join(folder, name), { recursive: true });
  const instance = (attempt: number, lines: readonly string[], isRunning: boolean): ContainerStatus => {
    const path = join(folder, name, `${attempt}.log`);
    writeFileSync(path, pod === 'long' ? longLog() : lines.map(criLine).join(''));
    return {
      id: idOf(pod, name, attempt),
      metadata: { name, attempt },
      state: isRunning ? 'CONTAINER_RUNNING' : 'CONTAINER_EXITED',
      log_path: path,
      image_ref: 'sha256:abc',
      image_id: 'sha256:abc',
    } as unknown as ContainerStatus;
  };
  const before = previous ? [instance(0, previous, false)] : [];
  return [instance(1, log ?? [], state === 'running'), ...before];
}

const criLine = (line: string): string =>
  `${TIME} ${/^(e|oops|err )/.test(line) ? 'stderr' : 'stdout'} F ${line.replace(/^e(?=crash|first)/, '')}\n`;

/**
 * The log of 40,000 bytes, an empty line, bytes that are no text, and an end without a line break, as containerd writes
 * it.
 */
function longLog(): Buffer {
  const line = (content: Buffer | string, tag = 'F') =>
    Buffer.concat([Buffer.from(`${TIME} stdout ${tag} `), Buffer.from(content as string), Buffer.from('\n')]);
  const x = 'x'.repeat(40_000);
  return Buffer.concat([
    line(x.slice(0, CHUNK), 'P'),
    line(x.slice(CHUNK, 2 * CHUNK), 'P'),
    line(`${x.slice(2 * CHUNK)}END`),
    line(''),
    line(Buffer.from('tab\there \x01\xff utf8 \xc3\xa9', 'latin1')),
    line('cr'),
    line('no newline', 'P'),
  ]);
}

function statusOf(pod: string, { name, state = 'running', reason, previous }: GoldenContainer): object {
  const containerID = `containerd://${idOf(pod, name)}`;
  const states = {
    running: { running: {} },
    exited: { terminated: { containerID } },
    waiting: { waiting: { reason } },
  };
  const lastState = previous === undefined ? {} : { terminated: { containerID: `containerd://${idOf(pod, name, 0)}` } };
  return { name, state: states[state], lastState, ...(state === 'waiting' ? {} : { containerID }) };
}
