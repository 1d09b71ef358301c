/** Fields of pods that feature gates hide from this node. */
import { expect, it } from 'vitest';
import { withoutIgnored } from '../../../../../src/machines/charts/pods/config/pod-source.ts';
import { container, pod } from '../support.ts';

const restart = { action: 'Restart', exitCodes: { operator: 'In', values: [3] } } as const;
const restartAll = { action: 'RestartAllContainers', exitCodes: { operator: 'In', values: [4] } } as const;
const wanted = pod({
  hostnameOverride: 'elsewhere',
  initContainers: [
    container({ name: 'first', restartPolicy: 'OnFailure' }),
    container({ name: 'sidecar', restartPolicy: 'Always', restartPolicyRules: [restartAll] }),
  ],
  containers: [
    container({
      restartPolicy: 'Never',
      restartPolicyRules: [restart, restartAll],
      env: [
        { name: 'A', value: '1' },
        { name: 'B', valueFrom: { fileKeyRef: { volumeName: 'v', path: 'p', key: 'B' } } },
      ],
    }),
  ],
});

it('leaves a pod alone of which everything is seen', () => {
  expect(withoutIgnored(wanted)).toBe(wanted);
});

it('hides the name, and the variables of files but for their names', () => {
  const { spec } = withoutIgnored(wanted, ['hostnameOverride', 'fileKeyRef']);
  expect(spec).not.toHaveProperty('hostnameOverride');
  expect(spec.containers[0]?.env).toEqual([
    { name: 'A', value: '1' },
    { name: 'B', value: '' },
  ]);
  expect(spec.containers[0]).toMatchObject({ restartPolicy: 'Never' });
});

it('hides policies of single containers, but a sidecar stays one', () => {
  const { initContainers = [], containers } = withoutIgnored(wanted, ['restartRules', 'restartAll']).spec;
  expect(initContainers.map(({ restartPolicy }) => restartPolicy)).toEqual([undefined, 'Always']);
  expect(containers[0]).not.toHaveProperty('restartPolicy');
  expect([...initContainers, ...containers].flatMap(({ restartPolicyRules = [] }) => restartPolicyRules)).toEqual([]);
});

it('hides only the rules that concern all containers, and keeps those for which a pod is refused', () => {
  expect(withoutIgnored(wanted, ['restartAll']).spec.containers[0]?.restartPolicyRules).toEqual([restart]);
  expect(withoutIgnored(wanted, ['restartRules']).spec.containers[0]?.restartPolicyRules).toEqual([restartAll]);
});
