/** Rules between newer fields of a pod, with the texts of the Go kubelet 1.36.2 (recorded by a dry run). */
import { describe, expect, it } from 'vitest';
import { mergeManifests, staticPod } from '../../../../src/machines/model/pods/static-pod.ts';

const pod = (spec: object, container: object = {}) => ({
  file: '/m/a.yaml',
  uid: 'u1',
  value: JSON.parse(
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'a' },
      spec: { containers: [{ name: 'c', image: 'busybox:1', ...container }], ...spec },
    }),
  ),
});
const errorsOf = (spec: object, container?: object) => staticPod(pod(spec, container), 'node1').errors ?? [];
const rules = (count: number, values: readonly number[]) => ({
  restartPolicy: 'Never',
  restartPolicyRules: Array.from({ length: count }, () => ({
    action: 'Restart',
    exitCodes: { operator: 'In', values },
  })),
});
const fromFile = (volumeName: string) => ({
  env: [{ name: 'A', valueFrom: { fileKeyRef: { volumeName, path: 'e', key: 'k' } } }],
});

describe('a pod is refused', () => {
  it.each([
    ['hostnameOverride: Forbidden: may not be specified when setHostnameAsFQDN is true', { setHostnameAsFQDN: true }],
    ['hostnameOverride: Forbidden: may not be specified when hostNetwork is true', { hostNetwork: true }],
    ['hostnameOverride: Too long: may not be more than 64 bytes', { hostnameOverride: 'a'.repeat(65) }],
  ])('%s', (text, spec) => {
    expect(errorsOf({ hostnameOverride: 'x', ...spec })).toContain(`spec.${text}`);
  });

  it.each([
    ['limits[example.com/gpu]: Unsupported value: "example.com/gpu"', { limits: { cpu: '1', 'example.com/gpu': '1' } }],
    ['requests[ephemeral-storage]: Unsupported value: "ephemeral-storage"', { requests: { 'ephemeral-storage': '1' } }],
  ])('resources.%s', (text, resources) => {
    expect(errorsOf({ resources })).toEqual([
      `spec.resources.${text}: supported values: "cpu", "hugepages-", "memory"`,
    ]);
  });

  it('whose containers request or may have more than it has as a whole', () => {
    const own = { resources: { requests: { cpu: '20m' }, limits: { memory: '2Gi' } } };
    const errors = errorsOf({ resources: { requests: { cpu: '10m', memory: '3Gi' } } }, own);
    expect(errors).toEqual([
      'spec.resources.requests[cpu]: Invalid value: "10m": must be greater than or equal to aggregate container requests of 20m',
    ]);
    expect(errorsOf({ resources: { limits: { memory: '1Gi' }, requests: { memory: '3' } } }, own)).toContain(
      'spec.resources.containers[0][memory].limits: Invalid value: "2Gi": must be less than or equal to pod limits of 1Gi',
    );
  });

  it('with claims of the whole pod', () => {
    expect(errorsOf({ resources: { claims: [{ name: 'x' }] } })).toContain(
      'spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level',
    );
  });

  it('with a stop signal of no system, or one that Linux does not have', () => {
    const path = 'spec.containers[0].lifecycle.stopSignal';
    expect(errorsOf({}, { lifecycle: { stopSignal: 'SIGTERM' } })).toEqual([
      `${path}: Forbidden: may not be set for containers with empty \`spec.os.name\``,
    ]);
    expect(errorsOf({ os: { name: 'linux' } }, { lifecycle: { stopSignal: 'SIGFOO' } })).toEqual([
      expect.stringMatching(/: Unsupported value: "SIGFOO": supported values: "SIGABRT", .*"SIGRTMAX", "SIGRTMAX-1"/),
    ]);
    expect(errorsOf({ os: { name: 'linux' } }, { lifecycle: { stopSignal: 'SIGRTMIN+3' } })).toEqual([]);
  });

  it('with more rules or exit codes than there may be', () => {
    const path = 'spec.containers[0].restartPolicyRules';
    expect(errorsOf({}, rules(21, [1]))).toEqual([`${path}: Too many: 21: must have at most 20 items`]);
    expect(errorsOf({}, rules(1, Array(256).fill(1)))).toEqual([
      `${path}[0].exitCodes.values: Too many: 256: must have at most 255 items`,
    ]);
    expect(errorsOf({}, rules(20, Array(255).fill(1)))).toEqual([]);
  });

  it('whose variables come from a file that is in no emptyDir of its own', () => {
    const path = 'spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName';
    const volumes = [
      { name: 'v', emptyDir: {} },
      { name: 'h', hostPath: { path: '/x' } },
    ];
    expect(errorsOf({ volumes }, fromFile('none'))).toEqual([`${path}: Not found: "none"`]);
    expect(errorsOf({ volumes }, fromFile('h'))).toEqual([
      `${path}: Invalid value: "h": referenced volume must be of type emptyDir`,
    ]);
    expect(errorsOf({ volumes }, fromFile('v'))).toEqual([]);
  });

  it('with devices in a user namespace', () => {
    const spec = { hostUsers: false, volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'x' } }] };
    expect(errorsOf(spec, { volumeDevices: [{ name: 'v', devicePath: '/d' }] })).toContain(
      'spec.containers[0].volumeDevices: Forbidden: when `hostUsers` is false',
    );
  });
});

it('a negative grace period is one second', () => {
  const result = staticPod(pod({ terminationGracePeriodSeconds: -1 }), 'node1');
  expect(result.errors === undefined && result.pod.spec.terminationGracePeriodSeconds).toBe(1);
});

it('an earlier node accepts what it accepted, and refuses a negative grace period', () => {
  const before = { behavior: 0 };
  const manifests = [pod({ hostnameOverride: 'x', hostNetwork: true })];
  expect(mergeManifests(manifests, 'node1', false, 'none').pods).toHaveLength(0);
  expect(mergeManifests(manifests, 'node1', false, 'none', before).pods).toHaveLength(1);
  expect(mergeManifests([pod({ terminationGracePeriodSeconds: -1 })], 'node1', false, 'none', before).errors).toEqual([
    expect.objectContaining({ message: expect.stringContaining('must be greater than or equal to 0') }),
  ]);
});
