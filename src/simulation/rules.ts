/**
 * The rules that a run must satisfy. Safety is checked at each start of a container and each write to the API server.
 * Convergence is checked when nothing has failed for a while: the node has its wanted state, and no leftovers.
 */
import type { Manifest } from '../machines/model/operations/host.ts';
import { isTerminalPhase } from '../machines/model/status/phase.ts';
import type { StoreEvent } from './api-server/store.ts';
import { NODE_NAME, type SimulatedNode } from './simulated-node.ts';
import type { Container } from './world/runtime-model.ts';

// oxlint-disable-next-line typescript/no-explicit-any -- pods as the API server has them
type Any = any;

const QUIET_MS = 120_000;
const QUIET_CALLS_MAX = 20;
/** Writes that repeat for ever: the lease, the Node's status, and counted events. */
const BEATS = /leases|nodes\/|events/;
/** Turns of timers that only start another observation. */
const QUIET_TURNS_MAX = 200;

/** The pods that the node should have. */
export interface Wanted {
  readonly node: SimulatedNode;
  /** The pods of the API server. */
  readonly pods: readonly Any[];
  readonly manifests: readonly Manifest[];
}

type Report = (problem: string) => void;

/** The differences between the node and its wanted state; empty if the node has converged. */
export function differences({ node, pods, manifests }: Wanted): string[] {
  const problems: string[] = [];
  const report: Report = (problem) => void problems.push(problem);
  if (!isStarted(node)) return ['the agent does not synchronize pods'];
  const desiredUids = new Set<string>();
  for (const pod of pods) {
    desiredUids.add(pod.metadata.uid);
    checkPod(node, pod.metadata.uid, pod, report);
  }
  for (const { uid, value } of manifests) {
    desiredUids.add(uid);
    const name = (value as Any).metadata.name;
    const mirror = node.kube.pod(`${name}-${NODE_NAME}`);
    if (!mirror) report(`${uid} has no mirror`);
    else checkPod(node, uid, mirror, report);
  }
  checkNode(node, report);
  checkLeftovers(node, desiredUids, report);
  checkAllocation(node, desiredUids, report);
  return problems;
}

/** Whether the node has synchronized its pods. */
export function isStarted(node: SimulatedNode): boolean {
  const value = JSON.stringify(node.snapshot('kubelet')?.value ?? null);
  return value.includes('"synchronizing":"up"');
}

function checkNode({ kube }: SimulatedNode, report: Report): void {
  const node: Any = kube.store.get('v1', 'nodes', NODE_NAME);
  const ready = node?.status?.conditions?.find(({ type }: Any) => type === 'Ready');
  if (ready?.status !== 'True') report(`the Node is not Ready: ${ready?.message ?? 'it has no such condition'}`);
}

/**
 * The pod's sandbox died before its initialization and its policy is never to restart: it stays so, as with upstream.
 */
const isLost = (node: SimulatedNode, uid: string, { spec, status }: Any): boolean =>
  spec.restartPolicy === 'Never' &&
  status.phase === 'Pending' &&
  JSON.stringify(node.podState(uid)) === JSON.stringify({ terminated: 'kept' });

function checkPod(node: SimulatedNode, uid: string, pod: Any, report: Report): void {
  const reportPod = (text: string) => report(`${uid} ${text}; ${JSON.stringify(node.podState(uid))}`);
  const { phase, containerStatuses = [], initContainerStatuses = [] } = pod.status ?? {};
  const nodeStatus = node.status(uid);
  if (pod.metadata.deletionTimestamp) return reportPod(`is still being deleted, ${phase}`);
  if (phase !== nodeStatus?.phase) reportPod(`is ${phase} there and ${nodeStatus?.phase} here`);
  const shown = (list: Any) =>
    JSON.stringify(
      (list ?? [])
        .map((each: Any) => [
          each.name,
          each.containerID ?? '',
          each.ready,
          each.restartCount,
          Object.keys(each.state ?? {}),
        ])
        .toSorted(),
    );
  if (shown(nodeStatus?.containerStatuses) !== shown(containerStatuses))
    reportPod('has other containers there than here');
  if (shown(nodeStatus?.initContainerStatuses) !== shown(initContainerStatuses))
    reportPod('has other init containers there');
  const running = [...node.world.runtime.containers.values()].filter(
    ({ sandbox, state }) => sandbox.config.metadata?.uid === uid && state === 'CONTAINER_RUNNING',
  );
  if (isTerminalPhase(phase)) {
    if (running.length > 0) reportPod(`is ${phase} and runs`);
    if (pod.spec.restartPolicy === 'Always' && !pod.status.reason) reportPod(`is ${phase} though it restarts always`);
    return;
  }
  if (isLost(node, uid, pod)) return;
  if (phase !== 'Running')
    return reportPod(
      `is ${phase}: ${JSON.stringify([...initContainerStatuses, ...containerStatuses].map((each: Any) => [each.name, each.state]))} ${pod.status.reason}`,
    );
  const ids = new Set(running.map(({ id }) => id));
  for (const each of [...initContainerStatuses, ...containerStatuses]) {
    const id = each.state?.running && each.containerID?.replace(/^.*:\/\//, '');
    if (each.state?.running && !ids.delete(id)) reportPod(`${each.name} is said to run as ${each.containerID}`);
    const isEnded = each.state?.terminated !== undefined;
    if (!each.ready && !isEnded) reportPod(`${each.name} is not ready: ${JSON.stringify(each)}`);
    if (isEnded && pod.spec.restartPolicy === 'Always' && containerStatuses.includes(each))
      reportPod(`${each.name} stays ended`);
  }
  for (const id of ids) reportPod(`runs ${id}, which is not said`);
}

function checkLeftovers(node: SimulatedNode, wanted: ReadonlySet<string>, report: Report): void {
  const { world } = node;
  for (const uid of world.runtime.uids) if (!wanted.has(uid)) report(`${uid} is still in the runtime`);
  for (const path of [...world.folders, ...world.files.keys()]) {
    const uid = /\/kubelet\/pods\/([^/]+)/.exec(path)?.[1];
    if (uid !== undefined && !wanted.has(uid)) report(`${path} is left`);
  }
  for (const path of world.groups.keys()) {
    const uid = /\/pod([^/]+)$/.exec(path)?.[1];
    if (uid !== undefined && !wanted.has(uid)) report(`cgroup ${path} is left`);
  }
  const open = node.kernel?.outbox.list().filter((effect) => effect.class !== 'stream') ?? [];
  for (const { name, at } of open) if (!isBeat(name, at)) report(`${at} still waits for ${name}`);
  for (const address of node.kernel?.addresses ?? []) {
    const uid = /^kubelet\/(?:pods|status)\/pod-([^/]+)$/.exec(address)?.[1];
    if (uid !== undefined && !wanted.has(uid)) report(`${address} is left`);
  }
  for (const uid of world.remembered.keys()) if (!wanted.has(uid)) report(`${uid} is remembered`);
  const mirrors = node.kube.store.list('v1', 'pods').filter(({ metadata }) => /^[stu]-node$/.test(metadata.name));
  const statics = [...wanted].filter((uid) => uid.startsWith('static')).length;
  if (mirrors.length !== statics) report(`${mirrors.length} mirrors for ${statics} static pods`);
  for (const [table, entries] of Object.entries(world.softState)) {
    for (const key of Object.keys(entries))
      if (!key.split('/', 1).some((uid) => wanted.has(uid))) report(`soft state ${table} of ${key} is left`);
  }
}

/** Operations that a node repeats for ever: the lease, and its own status. */
const isBeat = (name: string, at: string): boolean =>
  name.startsWith('kube.') && /^kubelet\/(lease|nodeStatus|eventRecorder)\b/.test(at);

function checkAllocation(node: SimulatedNode, wanted: ReadonlySet<string>, report: Report): void {
  const { context } = node.snapshot('kubelet/allocation')!;
  for (const table of ['grants', 'over', 'rejections', 'waiting', 'unjudged', 'resizes', 'arranging']) {
    for (const uid of Object.keys(context[table])) if (!wanted.has(uid)) report(`${table} of ${uid} is left`);
  }
  for (const uid of wanted) {
    const isOver = JSON.stringify(node.podState(uid)) === JSON.stringify({ terminated: 'kept' });
    if (isOver === uid in context.grants)
      report(`${uid} is ${node.status(uid)?.phase}, grant ${uid in context.grants}`);
  }
}

/** Lets virtual time pass, and returns the activity that an idle node should not have. */
export function activity(node: SimulatedNode): string[] {
  const turn = node.kernel?.turn ?? 0;
  const calls = node.world.calls.length;
  const writes = node.kube.requests.length;
  node.run(QUIET_MS);
  const made = node.world.calls.slice(calls).filter(({ name }) => !name.startsWith('kube.'));
  const written = node.kube.requests
    .slice(writes)
    .filter(({ verb, path }) => !/^(get|list)$/.test(verb) && !BEATS.test(path));
  const turns = (node.kernel?.turn ?? 0) - turn;
  return [
    ...(made.length > QUIET_CALLS_MAX
      ? [`${made.length} calls in quiet: ${[...new Set(made.map(({ name }) => name))].join()}`]
      : []),
    ...(written.length > 0 ? [`in quiet: ${written.map(({ verb, path }) => `${verb} ${path}`).join()}`] : []),
    ...(turns > QUIET_TURNS_MAX ? [`${turns} turns in quiet`] : []),
  ];
}

// oxlint-disable-next-line typescript/no-explicit-any -- pods as the API server has them

export const uidOf = ({ sandbox }: Container): string => sandbox.config.metadata?.uid ?? '';
const nameOf = ({ config }: Container): string => config.metadata?.name ?? '';
const HASH = 'io.kubernetes.container.hash';

export class Rules {
  /** By uid, the spec of every pod that ever existed. */
  readonly specs = new Map<string, Any>();
  private readonly node: SimulatedNode;
  private readonly report: (problem: string) => void;
  private readonly restarts = new Map<string, number>();
  private readonly ended = new Map<string, string>();
  private readonly ran = new Set<string>();
  private readonly completed = new Set<string>();

  /** `report` receives each broken rule. */
  constructor(node: SimulatedNode, report: (problem: string) => void) {
    this.node = node;
    this.report = report;
    const { runtime } = node.world;
    const start = runtime.startContainer.bind(runtime);
    const exit = runtime.exit.bind(runtime);
    runtime.startContainer = (id) => {
      start(id);
      const container = runtime.containers.get(id);
      if (container?.state === 'CONTAINER_RUNNING') this.containerStarted(container);
    };
    runtime.exit = (container, code) => {
      if (container.state !== 'CONTAINER_EXITED' && code === 0)
        this.completed.add(`${container.sandbox.id}/${nameOf(container)}`);
      exit(container, code);
    };
    node.kube.store.changes.on('event', (event) => this.written(event));
  }

  private containerStarted(container: Container): void {
    const { runtime } = this.node.world;
    const uid = uidOf(container);
    const name = nameOf(container);
    const others = [...runtime.containers.values()].filter(
      (each) => each !== container && each.state === 'CONTAINER_RUNNING' && uidOf(each) === uid,
    );
    if (others.some((each) => nameOf(each) === name)) this.report(`${uid}/${name} runs twice`);
    const spec = this.specs.get(uid);
    if (!spec) return this.report(`${uid}/${name} was started, and there is no such pod`);
    this.inOrder(container, spec, others);
    const key = `${container.sandbox.id}/${name}/${container.config.annotations?.[HASH]}`;
    const all = [...(spec.initContainers ?? []), ...spec.containers];
    const isNever = spec.restartPolicy === 'Never' && !all.find((each: Any) => each.name === name)?.restartPolicy;
    if (isNever && this.ran.has(key)) this.report(`${uid}/${name} ran again although it never restarts`);
    this.ran.add(key);
    if (this.ended.has(uid)) this.report(`${uid}/${name} was started although the pod had ${this.ended.get(uid)}`);
  }

  private inOrder({ sandbox, config }: Container, { initContainers = [] }: Any, others: Container[]): void {
    const name = config.metadata?.name ?? '';
    const at = initContainers.findIndex((each: Any) => each.name === name);
    const before = at < 0 ? initContainers : initContainers.slice(0, at);
    for (const each of before) {
      const isSidecar = each.restartPolicy === 'Always';
      const runs = others.some((other) => nameOf(other) === each.name);
      if (isSidecar) continue;
      if (runs) this.report(`${name} of ${sandbox.config.metadata?.uid} began while ${each.name} ran`);
      if (!this.completed.has(`${sandbox.id}/${each.name}`)) {
        this.report(`${name} of ${sandbox.config.metadata?.uid} began before ${each.name} had ended well`);
      }
    }
  }

  private written({ type, kind, object }: StoreEvent): void {
    if (kind.resource !== 'pods') return;
    const pod: Any = object;
    const { uid, name, annotations } = pod.metadata;
    if (annotations?.['kubernetes.io/config.mirror'] !== undefined) return;
    this.specs.set(uid, pod.spec);
    if (type === 'DELETED') return;
    const { phase, initContainerStatuses = [], containerStatuses = [] } = pod.status ?? {};
    const before = this.ended.get(uid);
    if (before !== undefined && phase !== before) this.report(`${name} ${uid} was ${before} and became ${phase}`);
    if (isTerminalPhase(phase)) this.ended.set(uid, phase);
    for (const each of [...initContainerStatuses, ...containerStatuses]) {
      const key = `${uid}/${each.name}`;
      const count = this.restarts.get(key) ?? 0;
      if (each.restartCount < count) this.report(`${name} ${key}: restartCount ${count} became ${each.restartCount}`);
      this.restarts.set(key, each.restartCount);
    }
    if (isTerminalPhase(phase)) this.nothingRuns(uid, name);
  }

  private nothingRuns(uid: string, name: string): void {
    for (const each of this.node.world.runtime.containers.values()) {
      if (uidOf(each) === uid && each.state === 'CONTAINER_RUNNING') {
        this.report(`${name} ${uid} is said to be over, and ${nameOf(each)} runs`);
      }
    }
  }
}
