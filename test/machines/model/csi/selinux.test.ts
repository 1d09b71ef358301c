/** The label with which the volume of a claim is mounted, row by row. */
import { describe, expect, it } from 'vitest';
import type { Container, Pod, PodSpec } from '../../../../src/machines/model/api/pod.ts';
import { mountLabel, withLabel } from '../../../../src/machines/model/csi/selinux.ts';

const NODE = { fileLabel: 'system_u:object_r:container_file_t:s0', everyVolume: false };
const ONE_POD = ['ReadWriteOncePod'];
const LEVEL = { level: 's0:c1,c2' };
const LABEL = 'system_u:object_r:container_file_t:s0:c1,c2';

const using = (seLinuxOptions?: object): Container => ({
  name: 'c',
  volumeMounts: [{ name: 'v', mountPath: '/v' }],
  ...(seLinuxOptions === undefined ? {} : { securityContext: { seLinuxOptions } }),
});

interface Case {
  readonly spec?: Partial<PodSpec>;
  readonly accessModes?: string[];
  readonly node?: typeof NODE | null;
  readonly isBound?: boolean;
}

function labelFor({ spec = {}, accessModes = ONE_POD, node = NODE, isBound = true }: Case): string | undefined {
  const pod: Pod = { metadata: { name: 'p', namespace: 'n', uid: 'u' }, spec: { containers: [using()], ...spec } };
  const bound = isBound ? { name: 'pv', spec: { accessModes }, nodeMismatch: '', owner: '', size: undefined } : null;
  return mountLabel('v', bound as never, { pod, node: node === null ? {} : { seLinuxMounts: node } });
}

const shared = (more: object = {}) => ({ securityContext: { seLinuxOptions: LEVEL, ...more } });

describe('the label of a volume', () => {
  it.each<[string, Case, string | undefined]>([
    ['a pod without options', {}, ''],
    ['the options of the pod', { spec: shared() }, LABEL],
    ['the options of the container', { spec: { containers: [using(LEVEL)] } }, LABEL],
    [
      'the container before the pod',
      { spec: { ...shared(), containers: [using({ level: 's0:c9' })] } },
      'system_u:object_r:container_file_t:s0:c9',
    ],
    ['a user', { spec: { containers: [using({ ...LEVEL, user: 'me_u' })] } }, LABEL.replace('system_u', 'me_u')],
    ['the type and role of a process', { spec: { containers: [using({ ...LEVEL, type: 't', role: 'r' })] } }, LABEL],
    ['no level', { spec: { containers: [using({ type: 'spc_t' })] } }, ''],
    ['a container that does not use the volume', { spec: { containers: [using(LEVEL), { name: 'd' }] } }, LABEL],
    ['a container without options', { spec: { containers: [using(LEVEL), using()] } }, LABEL],
    ['an init container', { spec: { initContainers: [using(LEVEL)], containers: [] } }, LABEL],
    ['a pod that opted out', { spec: shared({ seLinuxChangePolicy: 'Recursive' }) }, ''],
    ['a pod that asked for it', { spec: shared({ seLinuxChangePolicy: 'MountOption' }) }, LABEL],
    ['a volume for several pods', { spec: shared(), accessModes: ['ReadWriteOnce'] }, undefined],
    ['a volume with a second access mode', { spec: shared(), accessModes: [...ONE_POD, 'ReadOnlyMany'] }, undefined],
    [
      'a volume for several pods, with the gate SELinuxMount',
      { spec: shared(), accessModes: ['ReadWriteMany'], node: { ...NODE, everyVolume: true } },
      LABEL,
    ],
    ['a volume without a claim', { spec: shared(), isBound: false }, undefined],
    ['a node without SELinux', { spec: shared(), node: null }, undefined],
  ])('of %s', (_, given, label) => expect(labelFor(given)).toBe(label));

  it('of containers with different ones is refused with upstream’s text', () => {
    const containers = [using(LEVEL), using({ level: 's0:c9' })];
    expect(() => labelFor({ spec: { containers } })).toThrow(
      `multiple SELinux labels found: ${LABEL},system_u:object_r:container_file_t:s0:c9`,
    );
  });
});

describe('the mount options', () => {
  it('quote the label for its commas', () => {
    expect(withLabel(['noatime'], LABEL)).toEqual(['noatime', `context="${LABEL}"`]);
    expect(withLabel(['noatime'], '')).toEqual(['noatime']);
  });
});
