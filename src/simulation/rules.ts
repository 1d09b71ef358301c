/** The invariants of a simulation, checked at each start of a container and each write to the API server. */
import { isTerminalPhase } from '../machines/model/status/phase.ts';
import type { StoreEvent } from './api-server/store.ts';
import type { SimulatedNode } from './simulated-node.ts';
import type { Container } from './world/runtime-model.ts';

// oxlint-disable-next-line typescript/no-explicit-any -- pods as the API server has them
type Any = any;

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
