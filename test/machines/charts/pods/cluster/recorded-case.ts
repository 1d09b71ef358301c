/**
 * Plays a recording of `test/golden/pods`: creates its objects in an API server, performs the steps of its user, and
 * collects the agent's requests to the API server. It compares nothing.
 */

import type { AdmissionSettings } from '../../../../../src/machines/model/settings/node-settings.ts';
import { knownKind } from '../../../../../src/simulation/api-server/kinds.ts';
import { KubeWorld, type Write } from '../../../../../src/simulation/world/kube-world.ts';
import { PodsWorld } from '../../../../../src/simulation/world/pods-world.ts';
import type { Container, Program } from '../../../../../src/simulation/world/runtime-model.ts';
import { VirtualTime } from '../../../../../src/simulation/world/virtual-time.ts';
import { image, PodsNode } from '../../../../support/pods-node.ts';
import { type Recorded, type Recording, node as recordedNode } from '../../../model/spec/recordings.ts';

const NODE = 'node1';
const LOADED = ['localhost/bb:1', 'localhost/pause:1'];
const PULLED = ['always:latest', 'always', 'ok:1', 'ok2:1', 'samepause:1', 'private/x:1'].map(
  (name) => `localhost:5000/${name}`,
);
/** The time for writes after the last step. */
const AFTERMATH_MS = 15_000;
const WAIT_MS = 200_000;

/** The node of the recordings, according to facts.md. */
const admission: AdmissionSettings = {
  allocatable: { cpu: '2000', memory: '25171656704', pods: '110', 'ephemeral-storage': '270553174016' },
  wholeNode: { cpu: '2000', memory: '25276514304', pods: '110', 'ephemeral-storage': '270553174016' },
  labels: { 'kubernetes.io/hostname': NODE, 'kubernetes.io/os': 'linux', 'kubernetes.io/arch': 'amd64' },
  taints: [],
  sysctls: { kernelVersion: '6.18.0', allowedUnsafe: [] },
  appArmor: false,
};

export interface Lived {
  readonly node: PodsNode;
  readonly kube: KubeWorld;
  readonly writes: readonly Write[];
  /** By pod, the newest status that the API server had. */
  readonly statuses: ReadonlyMap<string, Recorded>;
  /** By uid, `<uid:name>` or `<uid:name:2>`. */
  readonly uids: ReadonlyMap<string, string>;
  readonly crashes: readonly string[];
}

export function live(recording: Recording): Lived {
  const time = new VirtualTime();
  const world = new PodsWorld(time);
  const kube = new KubeWorld(time, NODE);
  world.kube = kube;
  for (const name of LOADED) world.runtime.images.set(name, image(name));
  for (const name of PULLED) world.registry.set(name, image(name));
  world.runtime.programOf = programOf;
  const node = new PodsNode({
    world,
    settings: { ...recordedNode, admission, apiServer: { changeDetection: 'Watch' } },
  });
  kube.createNamespace(recording.name);
  const kubernetes = { clusterIP: '10.96.0.1', ports: [{ name: 'https', port: 443, protocol: 'TCP' }] };
  kube.create({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'kubernetes', namespace: 'default' },
    spec: kubernetes,
  });
  node.boot().run(2_000);
  // In this model no actor watches the Node; these are the labels that it would report.
  const { labels } = admission;
  void node.kernel.dispatch('kubelet/allocation', { type: 'node.known', node: { metadata: { labels } } }, 'test');
  kube.requests.length = 0;
  const life = new Life(recording, node, kube, world);
  for (const step of recording.steps) life.take(step);
  node.run(AFTERMATH_MS);
  const writes = kube.requests.filter(({ verb }) => verb !== 'get' && verb !== 'list');
  return { node, kube, writes, statuses: life.statuses, uids: life.uids, crashes: node.crashes() };
}

class Life {
  readonly statuses = new Map<string, Recorded>();
  readonly uids = new Map<string, string>();
  private readonly recording: Recording;
  private readonly node: PodsNode;
  private readonly kube: KubeWorld;
  private readonly world: PodsWorld;
  private readonly named = new Map<string, number>();

  constructor(recording: Recording, node: PodsNode, kube: KubeWorld, world: PodsWorld) {
    this.recording = recording;
    this.node = node;
    this.kube = kube;
    this.world = world;
    kube.store.changes.on('event', ({ kind, type, object }) => {
      if (kind.resource !== 'pods') return;
      const { name, uid } = object.metadata;
      if (type === 'ADDED') this.named.set(name, (this.named.get(name) ?? 0) + 1);
      const nth = this.named.get(name) ?? 1;
      if (type === 'ADDED') this.uids.set(uid, nth === 1 ? `<uid:${name}>` : `<uid:${name}:${nth}>`);
      if (type !== 'DELETED') this.statuses.set(this.uids.get(uid)!, object.status);
    });
  }

  private pod(name: string): Recorded {
    return this.kube.store.get('v1', 'pods', name, this.recording.name);
  }

  take(step: Recorded): void {
    if (step.apply !== undefined) this.apply(step.apply);
    else if (step.create !== undefined) this.create(step.create);
    else if (step.wait !== undefined) this.wait(step);
    else if (step.sleep !== undefined) this.node.run(step.sleep * 1_000);
    else if (step.delete !== undefined) this.delete(step);
    else if (step.gone !== undefined) this.until(step, () => this.pod(step.gone) === undefined);
    else if (step.patch !== undefined) this.patch(step.patch, step);
    else if (step.patchStatus !== undefined) this.patch(`Pod/${step.patchStatus}`, step, 'status');
    else if (step.patchSub !== undefined)
      this.patch(`Pod/${step.patchSub.split('/')[0]}`, step, step.patchSub.split('/')[1]);
    else if (step.staticWrite !== undefined) this.writeStatic(step);
    else if (step.staticRemove !== undefined) this.world.setManifests([]);
    else if (step.killSandbox !== undefined) this.killSandbox(step.killSandbox);
    else if (step.removeContainer !== undefined) {
      this.world.runtime.removeContainer(this.world.runtime.running(step.removeContainer)!.id);
    } else if (step.waitVolume !== undefined) this.node.run(5_000);
  }

  /** Applies `all` objects, or those with these names. */
  private apply(which: Recorded): void {
    for (const object of this.recording.objects) {
      const { name } = object.metadata;
      if (which === 'all' || which.some((each: string) => each === name || each.endsWith(`/${name}`)))
        this.create(object);
    }
  }

  private create(object: Recorded): void {
    const account = object.spec?.serviceAccountName;
    const accounts = this.kube.store.list('v1', 'serviceaccounts', this.recording.name);
    const isDefault = object.kind === 'ServiceAccount' && object.metadata.name === 'default';
    if (isDefault) return;
    if (account && !accounts.some(({ metadata }) => metadata.name === account)) {
      this.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: account } });
    }
    const isPod = object.kind === 'Pod';
    const spec = isPod ? { spec: { ...object.spec, automountServiceAccountToken: false } } : {};
    const namespace = object.metadata.namespace ?? this.recording.name;
    this.kube.create({ ...object, ...spec, metadata: { ...object.metadata, namespace } });
  }

  /** Continues after the limit, as the recorder did. */
  private until(step: Recorded, holds: () => boolean): void {
    if (step.ok === false) this.node.run(5_000);
    else this.node.until(JSON.stringify(step).slice(0, 120), holds, WAIT_MS);
  }

  private wait(step: Recorded): void {
    const { wait } = step;
    const name = step.pod ?? this.recording.objects.find(({ kind }) => kind === 'Pod')?.metadata.name;
    this.until(step, () => {
      const p = this.pod(name);
      if (p === undefined) return false;
      if (/^[A-Z][A-Za-z]+$/.test(wait)) return p.status?.phase === wait || isTrue(p, wait);
      return expression(wait)(p);
    });
  }

  private delete({ delete: name, grace }: Recorded): void {
    const options = grace === undefined ? {} : { gracePeriodSeconds: grace };
    if (this.pod(name) === undefined) return;
    this.kube.registry.delete({ kind: knownKind('v1', 'pods'), namespace: this.recording.name, name }, options);
  }

  private patch(target: string, { body, type = 'application/merge-patch+json' }: Recorded, subresource?: string): void {
    const [kind, name] = target.split('/') as [string, string];
    const place = {
      kind: knownKind('v1', `${kind.toLowerCase()}s`),
      namespace: this.recording.name,
      name,
      subresource,
    };
    this.kube.registry.patch(place, type, body);
  }

  private statics = 0;

  private writeStatic({ staticWrite, object }: Recorded): void {
    this.statics += 1;
    const uid = `static-${this.statics}`;
    this.uids.set(uid, this.statics === 1 ? '<uid:static>' : `<uid:static:${this.statics}>`);
    this.world.setManifests([{ file: `\${STATIC}/${staticWrite}`, uid, value: object }]);
  }

  private killSandbox(name: string): void {
    const own = [...this.world.runtime.sandboxes.values()].filter(({ config }) => config.metadata?.name === name);
    this.world.runtime.stopSandbox(own.at(-1)!.id);
  }
}

const isTrue = (p: Recorded, type: string): boolean =>
  (p.status?.conditions ?? []).some((each: Recorded) => each.type === type && each.status === 'True');

/** The recorder's conditions, expressions over the pod `p`, are part of the recordings. */
function expression(text: string): (p: Recorded) => boolean {
  // oxlint-disable-next-line typescript/no-implied-eval
  const test = new Function('p', `try { return Boolean(${text}) } catch { return false }`);
  return (p) => test(p) as boolean;
}

/** The behaviour of a recorded container's shell, as far as its agent can see it. */
function programOf({ config }: Container): Program {
  const text = [...(config.command ?? []), ...(config.args ?? [])].join(' ');
  if (text.includes('|| { touch')) return { runsMs: 20, exitCode: config.metadata?.attempt === 0 ? 1 : 0 };
  if (text.includes('/nope')) {
    return { startError: 'failed to create containerd task: failed to create shim task: OCI runtime create failed' };
  }
  if (text.includes('trap') || text === '') {
    const stopsMs = /trap 'sleep (\d+)/.exec(text)?.[1];
    return { stopExitCode: 0, ...(stopsMs === undefined ? {} : { stopsMs: Number(stopsMs) * 1_000 }) };
  }
  const sleeps = Number(/sleep (\d+)/.exec(text)?.[1] ?? 0);
  if (sleeps >= 3_600) return { stopsMs: Number.POSITIVE_INFINITY };
  return { runsMs: sleeps * 1_000 + 20, exitCode: Number(/exit (\d+)/.exec(text)?.[1] ?? 0) };
}
