import { describe, expect, it } from 'vitest';
import {
  type Candidate,
  nodePod,
  rankedForEviction,
  reclaimable,
} from '../../../../src/machines/model/eviction/ranking.ts';
import {
  configuredThresholds,
  thresholdText,
  withContainerFs,
} from '../../../../src/machines/model/eviction/thresholds.ts';
import type { DiskLayout, EvictionSignal } from '../../../../src/machines/model/operations/stats.ts';
import { container, pod } from '../../charts/pods/support.ts';

const SHARED: DiskLayout = { dedicatedImageFs: false, splitContainerFs: false };
const OWN: DiskLayout = { dedicatedImageFs: true, splitContainerFs: false };
const SPLIT: DiskLayout = { dedicatedImageFs: true, splitContainerFs: true };

describe('thresholds', () => {
  const settings = {
    evictionHard: { 'memory.available': '100Mi', 'nodefs.available': '10%', 'imagefs.available': '15%' },
    evictionSoft: { 'nodefs.inodesFree': '5%' },
    evictionSoftGracePeriod: { 'nodefs.inodesFree': '1m30s' },
    evictionMinimumReclaim: { 'memory.available': '1Mi' },
    enforceNodeAllocatable: ['pods'],
  };

  it('the limit of all pods together has thresholds like those of the node', () => {
    const signals = configuredThresholds(settings).map(({ signal, graceMs }) => [signal, graceMs]);
    expect(signals).toEqual([
      ['imagefs.available', 0],
      ['memory.available', 0],
      ['nodefs.available', 0],
      ['nodefs.inodesFree', 90_000],
      ['allocatableMemory.available', 0],
    ]);
    const free = configuredThresholds({ ...settings, enforceNodeAllocatable: [] });
    expect(free.map(({ signal }) => signal)).not.toContain('allocatableMemory.available');
  });

  it('containerfs follows the file system that holds the writable layers', () => {
    const thresholds = configuredThresholds(settings);
    const derived = (layout: DiskLayout) =>
      withContainerFs(thresholds, layout)
        .filter(({ signal }) => signal.startsWith('containerfs.'))
        .map(({ signal, value }) => [signal, value]);
    const ofNodeFs = [
      ['containerfs.available', { share: 0.1 }],
      ['containerfs.inodesFree', { share: 0.05 }],
    ];
    expect(derived(SHARED)).toEqual(ofNodeFs);
    expect(derived(SPLIT)).toEqual(ofNodeFs);
    expect(derived(OWN)).toEqual([['containerfs.available', { share: 0.15 }]]);
  });

  it('a share is computed as upstream computes it, in a float of 32 bits', () => {
    const threshold = { signal: 'nodefs.available' as const, value: { share: 0.1 }, graceMs: 0, minReclaim: null };
    expect(thresholdText(threshold, { available: '0', capacity: '269490393088' })).toBe('26949039710');
    expect(thresholdText(threshold, { available: '0', capacity: '1073741824000' })).toBe('107374184000');
  });
});

describe('ranking', () => {
  const use = (uid: string, memory: string) => ({
    uid,
    workingSetBytes: memory,
    processes: memory,
    containers: [],
    volumes: {},
  });
  const candidate = (uid: string, memory: string | null, priority = 0, request?: string): Candidate => {
    const resources = request === undefined ? {} : { resources: { requests: { memory: request } } };
    return {
      uid,
      pod: nodePod(pod({ priority, containers: [container(resources)] }, { uid })),
      use: memory === null ? null : use(uid, memory),
    };
  };
  const order = (signal: EvictionSignal, ...all: Candidate[]) =>
    rankedForEviction(all, signal, SHARED).map(({ uid }) => uid);

  it('memory: pods without measurements, pods above their request, low priority, large excess', () => {
    expect(
      order(
        'memory.available',
        candidate('within', '100', -5, '200'),
        candidate('small', '300', 0, '200'),
        candidate('large', '900', 0, '200'),
        candidate('important', '9000', 1, '200'),
        candidate('unknown', null, 9),
      ),
    ).toEqual(['unknown', 'large', 'small', 'important', 'within']);
  });

  it('processes: low priority, then many processes', () => {
    expect(order('pid.available', candidate('few', '1'), candidate('many', '9'), candidate('low', '2', -1))).toEqual([
      'low',
      'many',
      'few',
    ]);
  });

  it('the file systems of images and containers decide what can be reclaimed', () => {
    const cleared = (signal: EvictionSignal, layout: DiskLayout) => reclaimable(signal, layout);
    expect(cleared('memory.available', SHARED)).toEqual({ containers: false, images: false });
    expect(cleared('nodefs.available', SHARED)).toEqual({ containers: true, images: true });
    expect(cleared('nodefs.available', OWN)).toEqual({ containers: false, images: false });
    expect(cleared('imagefs.inodesFree', OWN)).toEqual({ containers: true, images: true });
    expect(cleared('nodefs.inodesFree', SPLIT)).toEqual({ containers: true, images: false });
    expect(cleared('imagefs.available', SPLIT)).toEqual({ containers: false, images: true });
  });
});

describe('facts of a pod', () => {
  it('limits of local storage are those of its volumes, its containers, and their sum', () => {
    const facts = nodePod(
      pod({
        containers: [
          container({ name: 'a', resources: { limits: { 'ephemeral-storage': '1Gi' } } }),
          container({ name: 'b', resources: { limits: { 'ephemeral-storage': '512Mi' } } }),
        ],
        volumes: [
          { name: 'limited', emptyDir: { sizeLimit: '1Mi' } },
          { name: 'free', emptyDir: {} },
          { name: 'zero', emptyDir: { sizeLimit: '0' } },
          { name: 'memory', emptyDir: { medium: 'Memory' } },
          { name: 'settings', configMap: { name: 'x' } },
          { name: 'key', secret: { secretName: 'x' } },
          { name: 'host', hostPath: { path: '/x' } },
        ],
      }),
    );
    expect(facts.storage).toEqual({
      emptyDirs: { limited: '1Mi' },
      pod: '1536Mi',
      containers: { a: '1Gi', b: '512Mi' },
    });
    expect(facts.localVolumes).toEqual(['limited', 'free', 'zero', 'settings', 'host']);
    expect(nodePod(pod()).storage).toBeNull();
    const init = container({ name: 'i', resources: { limits: { 'ephemeral-storage': '10Mi' } } });
    expect(nodePod(pod({ initContainers: [init] })).storage).toEqual({ emptyDirs: {}, pod: '10Mi', containers: {} });
  });

  it('static pods and pods of the system are critical', () => {
    expect(nodePod(pod()).isCritical).toBe(false);
    expect(nodePod(pod({ priority: 2_000_000_000 })).isCritical).toBe(true);
    expect(nodePod(pod({}, { annotations: { 'kubernetes.io/config.source': 'file' } })).isCritical).toBe(true);
  });
});
