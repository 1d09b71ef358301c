/** Volumes that are mounted with an SELinux label: one label for a device at a time. */
import { describe, expect, it } from 'vitest';
import type { CSIVolume } from '../../../../src/machines/model/csi/messages.ts';
import type { NodeStageRequest } from '../../../../src/machines/model/operations/csi.ts';
import { fail } from '../../../support/answering-world.ts';
import { csiNode, type Options, volumeOf } from './support.ts';

const [RED, BLUE] = ['u:object_r:t:s0:c1', 'u:object_r:t:s0:c2'];
const MOUNTS = { attachRequired: false, seLinuxMount: true };
const labelled = (seLinuxLabel: string, more: Partial<CSIVolume> = {}): CSIVolume =>
  volumeOf({ seLinuxLabel, ...more });

let node: ReturnType<typeof csiNode>;
const boot = (options: Options = {}) => {
  node = csiNode({ spec: MOUNTS, ...options });
};

const flagsOf = (request: NodeStageRequest | null | undefined) => {
  const capability = request?.volume_capability;
  return capability && 'mount' in capability ? capability.mount.mount_flags : undefined;
};
const lastMounted = () => node.toPods().findLast(({ type }) => type === 'csi.mounted');
const context = (label: string) => `context="${label}"`;

describe('a volume of a driver that mounts with labels', () => {
  it('is staged and published with the label, which its record and its pod have', () => {
    boot();
    node.want('u1', labelled(RED, { mountOptions: ['noatime'] }));
    const [staged, published] = [node.disk.staged[0]!, node.disk.published[0]!];
    expect(flagsOf(staged.request)).toEqual(['noatime', context(RED)]);
    expect(flagsOf(published.request)).toEqual(['noatime', context(RED)]);
    expect([staged.data, published.data]).toMatchObject([{ seLinuxMountContext: RED }, { seLinuxMountContext: RED }]);
    expect(lastMounted()).toEqual({ type: 'csi.mounted', uid: 'u1', names: ['data'], labelled: ['data'] });
  });

  it.each<[string, object | null, Partial<CSIVolume>]>([
    ['of a driver that does not', { attachRequired: false }, { seLinuxLabel: RED }],
    ['of a pod without one', MOUNTS, { seLinuxLabel: '' }],
    ['of a kind that has none', MOUNTS, {}],
  ])('has none if it is %s', (_, spec, more) => {
    boot({ spec });
    node.want('u1', volumeOf(more));
    expect(flagsOf(node.disk.staged[0]!.request)).toEqual([]);
    expect(node.disk.staged[0]!.data).not.toHaveProperty('seLinuxMountContext');
    expect(lastMounted()).not.toHaveProperty('labelled');
  });

  it('waits for the CSIDriver objects, and has the label then', () => {
    boot({ list: fail('the server is gone') });
    node.want('u1', labelled(RED));
    expect(node.disk.calls).toEqual([]);
    node.knobs.list = undefined;
    node.advance(10_000);
    expect(flagsOf(node.disk.staged[0]!.request)).toEqual([context(RED)]);
  });
});

describe('a pod with another label than the one that has the volume', () => {
  const taking = { accessModes: ['ReadWriteOncePod'] };

  it('gets the volume, staged again, after the other is gone', () => {
    boot();
    node.want('u1', labelled(RED, taking));
    node.want('u2', labelled(BLUE, taking));
    node.release('u1');
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1', 'unpublish h1', 'unstage h1', 'stage h1', 'publish h1']);
    expect(flagsOf(node.disk.staged.at(-1)!.request)).toEqual([context(BLUE)]);
    expect(lastMounted()).toMatchObject({ uid: 'u2', labelled: ['data'] });
  });

  it('is refused with upstream’s text while the other has it, and gets it then', () => {
    boot();
    node.want('u1', labelled(RED));
    node.want('u2', labelled(BLUE));
    expect(node.events()).toEqual([
      'Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process ' +
        `volumes=[data]: conflicting SELinux labels of volume pv1: "${RED}" and "${BLUE}"`,
    ]);
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1']);
    node.release('u1');
    expect(node.disk.calls.slice(2)).toEqual(['unpublish h1', 'unstage h1', 'stage h1', 'publish h1']);
    expect(flagsOf(node.disk.published.at(-1)!.request)).toEqual([context(BLUE)]);
  });

  it('shares it if the labels are the same', () => {
    boot();
    node.want('u1', labelled(RED));
    node.want('u2', labelled(RED));
    node.release('u1');
    expect(node.disk.calls).toEqual(['stage h1', 'publish h1', 'publish h1', 'unpublish h1']);
  });
});

describe('after a restart of the agent', () => {
  it('a volume that was mounted without a label stays as it is for its pod', () => {
    boot();
    node.want('u1', volumeOf());
    const { disk } = node;
    disk.calls.length = 0;
    boot({ disk });
    node.want('u1', labelled(RED));
    expect(disk.calls).toEqual(['stage h1', 'publish h1']);
    expect(flagsOf(disk.published.at(-1)!.request)).toEqual([]);
    expect(lastMounted()).not.toHaveProperty('labelled');
  });

  it('another pod has the volume staged again with its label', () => {
    boot();
    node.want('u1', labelled(RED));
    const { disk } = node;
    disk.calls.length = 0;
    boot({ disk });
    node.want('u2', labelled(BLUE));
    node.release('u1');
    expect(disk.calls).toEqual(['unpublish h1', 'unstage h1', 'stage h1', 'publish h1']);
    expect(flagsOf(disk.staged.at(-1)!.request)).toEqual([context(BLUE)]);
  });

  it('the same pod goes on with the label of the record', () => {
    boot();
    node.want('u1', labelled(RED));
    const { disk } = node;
    boot({ disk, spec: { ...MOUNTS, podInfoOnMount: false } });
    node.want('u1', labelled(RED));
    expect(disk.calls.slice(2)).toEqual(['stage h1', 'publish h1']);
    expect(flagsOf(disk.published.at(-1)!.request)).toEqual([context(RED)]);
  });

  it('a device stays staged until the CSIDriver objects are known', () => {
    boot();
    node.want('u1', labelled(RED));
    const { disk } = node;
    disk.calls.length = 0;
    boot({ disk, list: fail('the server is gone') });
    node.want('u1', labelled(RED));
    node.advance(1_000);
    expect(disk.calls).toEqual([]);
    node.knobs.list = undefined;
    node.advance(20_000);
    expect(disk.calls).toEqual(['stage h1', 'publish h1']);
  });
});
