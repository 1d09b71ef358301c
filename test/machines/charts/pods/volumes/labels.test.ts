/** The mounts for containers whose volumes a driver mounted with an SELinux label. */
import { expect, it } from 'vitest';
import { volumesMachine } from '../../../../../src/machines/charts/pods/volumes/volumes.ts';
import { runUnder } from '../../../../support/answering-world.ts';
import { volumeOf } from '../../csi/support.ts';

it('the runtime labels no files of a volume that has the label of its mount, under any of its names', () => {
  const [labelled, other] = [{ hostPath: '/driver' }, { hostPath: '/agent', relabel: true }];
  const mounted = { data: { ...labelled, relabel: true }, again: { ...labelled, relabel: true }, tmp: other };
  const plan = { mounted, setUps: [], csi: [volumeOf({ name: 'data' })], failures: [] };
  const ref = { kind: 'Pod', namespace: 'default', name: 'p', uid: 'u1' };
  const input = { ref, root: '/r', podDirectory: '/r/pods/u1', serviceAccount: 'default', plan };
  const mountsAfter = (more: object) => {
    const world = runUnder(volumesMachine, input, {}, ['csiVolumes', 'eventRecorder']);
    world.send({ type: 'csi.mounted', uid: 'u1', names: ['data'], ...more });
    return world.sent().find(({ type }) => type === 'volumes.mounted');
  };
  expect(mountsAfter({ labelled: ['data'] })).toMatchObject({
    mounted: { data: labelled, again: labelled, tmp: other },
  });
  expect(mountsAfter({ labelled: ['data'] })).not.toMatchObject({ mounted: { data: { relabel: true } } });
  expect(mountsAfter({})).toMatchObject({ mounted });
});
