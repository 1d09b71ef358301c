/** `csiVolumes` with its actors, in a world with one driver, a table of answers of the API server, and a disk. */
import type { EffectResult } from '../../../../src/kernel/effects.ts';
import type { JsonEvent } from '../../../../src/kernel/json.ts';
import type { KernelRecord } from '../../../../src/kernel/records.ts';
import { csiVolumesMachine } from '../../../../src/machines/charts/csi/csi-volumes.ts';
import type { CSIPod, CSIVolume } from '../../../../src/machines/model/csi/messages.ts';
import type { Sharing } from '../../../../src/machines/model/operations/volume.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';
import type { Fields } from '../../../../src/simulation/api-server/kinds.ts';
import { strategicMerge } from '../../../../src/simulation/api-server/strategic-merge.ts';
import { CsiWorld } from '../../../../src/simulation/world/driver-worlds.ts';
import { type Answers, fail, ok, runUnder } from '../../../support/answering-world.ts';

export const DRIVER = 'csi.example.test';
export const ROOT = '/var/lib/kubelet';
const HANDLE = (name: string) => ({ $secret: `§${name.padEnd(22, 'x')}`, len: 3 });

export const podOf = (uid: string): CSIPod => ({
  kind: 'Pod',
  namespace: 'default',
  name: `pod-${uid}`,
  uid,
  serviceAccount: 'robot',
});

export const volumeOf = (more: Partial<CSIVolume> = {}): CSIVolume => ({
  name: 'data',
  spec: 'pv1',
  driver: DRIVER,
  handle: 'h1',
  isEphemeral: false,
  isBlock: false,
  readOnly: false,
  fsType: '',
  attributes: {},
  accessModes: ['ReadWriteOnce'],
  mountOptions: [],
  stageSecret: null,
  publishSecret: null,
  expandSecret: null,
  size: null,
  fsGroup: null,
  fsGroupOnlyTop: false,
  ...more,
});

const DISK_CALLS = ['disk.mountDevice', 'disk.setUp', 'disk.tearDown', 'disk.detach'];

export interface Options {
  readonly disk?: CsiWorld;
  /** The spec of the CSIDriver; `null`: there is none. */
  readonly spec?: object | null;
  readonly isListening?: boolean;
  readonly healthPeriodMs?: number;
  readonly behavior?: number;
  /** The answer to listing the CSIDrivers; absent: they are listed. */
  readonly list?: EffectResult;
  readonly attachesItself?: true;
}

const isReported = (record: KernelRecord, to: string): record is KernelRecord & { k: 'message'; event: JsonEvent } =>
  record.k === 'message' && record.to === to && !record.event.type.startsWith('xstate.');

type Fault = (name: string, input: never) => EffectResult | 'hang' | undefined;

interface Knobs {
  fault: Fault;
  attachment: object | null;
  claim: Fields | null;
  list: EffectResult | undefined;
  sharings: readonly Sharing[];
}

export function csiNode({
  disk = new CsiWorld(new Set()),
  spec = { attachRequired: false },
  isListening = true,
  healthPeriodMs,
  behavior = NEWEST_BEHAVIOR,
  list,
  attachesItself,
}: Options = {}) {
  const knobs: Knobs = { fault: () => undefined, attachment: null, claim: null, list, sharings: [] };
  const drivers = spec === null ? [] : [{ metadata: { name: DRIVER }, spec }];
  const asked: { name: string; input: never }[] = [];
  const faulty = (name: string, answer: (input: never) => EffectResult | 'stream') => (input: never) => {
    asked.push({ name, input });
    const fault = knobs.fault(name, input);
    return fault === 'hang' ? 'stream' : (fault ?? answer(input));
  };
  const entries = Object.entries({
    ...Object.fromEntries(
      Object.entries(disk.handlers).map(([name, handler]) => [name, (input: never) => ok(handler(input))]),
    ),
    'disk.attach': () => ok({ device: '/dev/sdx' }),
    ...Object.fromEntries(DISK_CALLS.map((name) => [name, () => ok(null)])),
    'kube.list': () => knobs.list ?? ok({ items: drivers, resourceVersion: '1', continue: '' }),
    'kube.watch': () => 'stream' as const,
    'csi.followHealth': () => 'stream' as const,
    'volume.sharings': () => ok(knobs.sharings),
    'kube.get': ({ resource, name }: { resource: string; name: string }) => {
      if (resource === 'secrets') return ok({ metadata: { name }, data: { key: { text: HANDLE(name) } } });
      if (resource === 'persistentvolumeclaims' && knobs.claim) return ok(knobs.claim);
      return knobs.attachment ? ok(knobs.attachment) : fail(`${resource} "${name}" not found`, 'NotFound');
    },
    'kube.patch': ({ body }: { body: Fields }) => {
      knobs.claim = strategicMerge(knobs.claim!, body, 'PersistentVolumeClaim');
      return ok(knobs.claim);
    },
    'kube.create': ({ body }: { body: { spec: { audiences: string[] | null; expirationSeconds: number } } }) => {
      const { audiences, expirationSeconds } = body.spec;
      const expirationTimestamp = new Date(world.time.now() + expirationSeconds * 1_000).toISOString();
      return ok({ status: { token: HANDLE(`token-${audiences?.[0] ?? ''}`), expirationTimestamp } });
    },
  } as Record<string, (input: never) => EffectResult | 'stream'>);
  const answers: Answers = Object.fromEntries(entries.map(([name, answer]) => [name, faulty(name, answer)]));
  const input = {
    rootDir: ROOT,
    nodeName: 'node1',
    behavior,
    ...(healthPeriodMs === undefined ? {} : { healthPeriodMs }),
    ...(attachesItself ? { attachesItself } : {}),
  };
  const siblings = ['pods', 'nodeStatus', 'pluginManager', 'eventRecorder'];
  const world = runUnder(csiVolumesMachine, input, answers, siblings);
  const settle = () => world.time.advanceTo(world.time.now());
  const send = (event: { type: string; [key: string]: unknown }) => {
    world.send(event);
    settle();
  };
  const listen = () => send({ type: 'csi.driverListening', name: DRIVER, endpoint: '/csi.sock' });
  if (isListening) listen();
  const messages = (to: string) =>
    world.records().flatMap((record) => (isReported(record, `parent/${to}`) ? [record.event as never] : []));
  return {
    ...world,
    disk,
    knobs,
    send,
    listen,
    want: (uid: string, ...volumes: CSIVolume[]) => send({ type: 'csi.wanted', pod: podOf(uid), volumes }),
    release: (uid: string) => send({ type: 'csi.released', uid }),
    advance: (ms: number) => world.time.advanceTo(world.time.now() + ms),
    /** Names of operations on disks, in order. */
    diskCalls: () => asked.flatMap(({ name }) => (name.startsWith('disk.') ? [name.slice('disk.'.length)] : [])),
    askedFor: (name: string) => asked.filter((each) => each.name === name).map(({ input }) => input),
    toPods: () => messages('pods') as { type: string; uid?: string; names?: string[] }[],
    inUse: () =>
      (messages('nodeStatus') as { reports?: { volumesInUse: string[] } }[]).flatMap(({ reports }) =>
        reports ? [reports.volumesInUse] : [],
      ),
    events: () => (messages('eventRecorder') as { reason: string; message: string }[]).map(({ message }) => message),
  };
}
