/** From a manifest to a pod: defaults, errors with their texts, and which of two conflicting pods is used. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import type { Json } from '../../../../src/kernel/json.ts';
import { mergeManifests, staticPod } from '../../../../src/machines/model/pods/static-pod.ts';
import { NEWEST_BEHAVIOR } from '../../../../src/machines/model/settings/behaviors.ts';

const CONTAINER = { name: 'c', image: 'busybox:1' };

const manifest = (value: Json, file = '/m/a.yaml', uid = 'u1') => ({ file, uid, value });
const podOf = (spec: object = {}, metadata: object = {}): Json =>
  JSON.parse(
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'a', ...metadata },
      spec: { containers: [CONTAINER], ...spec },
    }),
  );
const build = (value: Json) => {
  const result = staticPod(manifest(value), 'node1');
  if (result.errors !== undefined) throw new Error(result.errors.join('\n'));
  return result.pod;
};
const errorsOf = (value: Json) => staticPod(manifest(value), 'node1').errors ?? [];
const inContainer = (fields: object) => podOf({ containers: [{ ...CONTAINER, ...fields }] });

it('may name what the API server has where a gate says so, but for trust bundles', () => {
  const naming = (source: object) =>
    manifest(
      podOf({
        ...('serviceAccountToken' in source ? { serviceAccountName: 's' } : {}),
        volumes: [
          { name: 's', secret: { secretName: 's' } },
          { name: 'p', projected: { sources: [source] } },
        ],
      }),
    );
  const token = naming({ serviceAccountToken: { path: 'p' } });
  expect(staticPod(token, 'node1', true).errors).toHaveLength(3);
  expect(staticPod(token, 'node1', true, 'any').errors).toBeUndefined();
  expect(staticPod(naming({ clusterTrustBundle: { name: 'b', path: 'p' } }), 'node1', true, 'any').errors).toEqual([
    expect.stringContaining('static pods may not reference clustertrustbundles'),
  ]);
});

it('may not need a pull secret of the API server, and has one beside it where there is none', () => {
  const pulling = manifest(podOf({ imagePullSecrets: [{ name: 'login' }] }));
  expect(staticPod(pulling, 'node1', true).errors).toEqual([
    'spec.imagePullSecrets[0]: Forbidden: static pods may not reference secrets',
  ]);
  expect(staticPod(pulling, 'node1', true, 'any').errors).toBeUndefined();
  expect(staticPod(pulling, 'node1').errors).toBeUndefined();
});

it('a claim template with empty metadata is judged like one without', () => {
  const templated = (metadata: object) => {
    const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } };
    return podOf({ volumes: [{ name: 'v', ephemeral: { volumeClaimTemplate: { metadata, spec } } }] });
  };
  const errors = errorsOf(templated({}));
  expect(errors).toEqual([expect.stringContaining('static pods may not reference')]);
  expect(errorsOf(templated({ labels: null, annotations: null, name: null }))).toEqual(errors);
});

it('has its node already, so nothing may hold it back from one', () => {
  expect(errorsOf(podOf({ schedulingGates: [{ name: 'x.y/z' }] }))).toEqual([
    'spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared',
  ]);
});

it('a minimal manifest gets the identity of a static pod and the defaults of the API', () => {
  expect(build(podOf())).toEqual({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: 'a-node1',
      namespace: 'default',
      uid: 'u1',
      annotations: { 'kubernetes.io/config.hash': 'u1', 'kubernetes.io/config.source': 'file' },
    },
    spec: {
      containers: [
        {
          ...CONTAINER,
          resources: {},
          terminationMessagePath: '/dev/termination-log',
          terminationMessagePolicy: 'File',
          imagePullPolicy: 'IfNotPresent',
        },
      ],
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      dnsPolicy: 'ClusterFirst',
      nodeName: 'node1',
      securityContext: {},
      schedulerName: 'default-scheduler',
      tolerations: [{ operator: 'Exists', effect: 'NoExecute' }],
      enableServiceLinks: true,
    },
    status: { phase: 'Pending' },
  });
});

it('a manifest is decoded once, whatever the node has besides', () => {
  const one = manifest(podOf());
  const podIn = (result: ReturnType<typeof staticPod>) => ('pod' in result ? result.pod : undefined);
  const pod = podIn(staticPod(one, 'node1'));
  expect(pod).toBeDefined();
  expect(podIn(staticPod(one, 'node1', true))).toBe(pod);
  expect(podIn(staticPod(one, 'node2'))).not.toBe(pod);
});

const CASES = new URL('../../../golden/pods/cases/', import.meta.url);

it('the spec of a recorded static pod is the one the real kubelet sent for its mirror', () => {
  const read = (file: string) => readFileSync(new URL(`static-pod/${file}`, CASES), 'utf8');
  const [written] = JSON.parse(read('steps.json'));
  const calls = read('api.ndjson').trim().split('\n');
  const mirror = calls
    .map((line) => JSON.parse(line))
    .find(({ method, path }) => method === 'POST' && path.endsWith('/pods'));
  const result = staticPod(manifest(written.object), 'node1');
  expect(result).toMatchObject({ pod: { metadata: { name: mirror.body.metadata.name }, status: mirror.body.status } });
  expect(result).toHaveProperty('pod.spec', mirror.body.spec);
});

it('every pod that an API server accepted in the recordings is accepted, but for what it needs of the API', () => {
  const pods = readdirSync(CASES).flatMap((name) => {
    const file = new URL(`${name}/objects.yaml`, CASES);
    const documents = existsSync(file) ? parseAllDocuments(readFileSync(file, 'utf8'), { version: '1.1' }) : [];
    return documents.map((document) => document.toJS()).filter((object) => object?.kind === 'Pod');
  });
  expect(pods.length).toBeGreaterThan(50);
  const refused = pods.flatMap((pod) =>
    errorsOf(pod)
      .filter((error) => !error.includes('static pods may not reference'))
      .map((error) => [pod.metadata.name, error]),
  );
  expect(refused).toEqual([]);
});

it.each([
  ['nginx', 'Always'],
  ['nginx:latest', 'Always'],
  ['nginx:1.27', 'IfNotPresent'],
  ['localhost:5000/nginx', 'Always'],
  [`nginx@sha256:${'0'.repeat(64)}`, 'IfNotPresent'],
])('image %s is pulled %s', (image, imagePullPolicy) => {
  expect(build(podOf({ containers: [{ name: 'c', image }] })).spec.containers[0]).toMatchObject({ imagePullPolicy });
});

it('25 what is zero of a probe gets its default, and a time beyond the period and the largest threshold stay', () => {
  const zero = { periodSeconds: 0, timeoutSeconds: 0, successThreshold: 0, failureThreshold: 0 };
  const huge = { periodSeconds: 1, timeoutSeconds: 3_600, failureThreshold: 2_147_483_647 };
  const exec = { command: ['x'] };
  const { spec } = build(inContainer({ livenessProbe: { exec, ...zero }, readinessProbe: { exec, ...huge } }));
  expect(spec.containers[0]).toMatchObject({
    livenessProbe: { periodSeconds: 10, timeoutSeconds: 1, successThreshold: 1, failureThreshold: 3 },
    readinessProbe: huge,
  });
});

it('probes, ports, references and volumes get their defaults', () => {
  const { spec } = build(
    podOf({
      hostNetwork: true,
      containers: [
        {
          ...CONTAINER,
          ports: [{ containerPort: 80 }],
          env: [{ name: 'N', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
          livenessProbe: { httpGet: { port: 80 } },
          lifecycle: { preStop: { httpGet: { port: 'web' } } },
        },
      ],
      volumes: [
        { name: 'none' },
        { name: 'host', hostPath: { path: '/x' } },
        { name: 'down', downwardAPI: { items: [{ path: 'n', fieldRef: { fieldPath: 'metadata.name' } }] } },
      ],
    }),
  );
  expect(spec.containers[0]).toMatchObject({
    ports: [{ containerPort: 80, hostPort: 80, protocol: 'TCP' }],
    env: [{ name: 'N', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } } }],
    livenessProbe: {
      httpGet: { path: '/', port: 80, scheme: 'HTTP' },
      timeoutSeconds: 1,
      periodSeconds: 10,
      successThreshold: 1,
      failureThreshold: 3,
    },
    lifecycle: { preStop: { httpGet: { path: '/', port: 'web', scheme: 'HTTP' } } },
  });
  expect(spec.volumes).toEqual([
    { name: 'none', emptyDir: {} },
    { name: 'host', hostPath: { path: '/x', type: '' } },
    {
      name: 'down',
      downwardAPI: {
        defaultMode: 420,
        items: [{ path: 'n', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.name' } }],
      },
    },
  ]);
});

it('requests come from limits, and amounts below a thousandth are rounded up', () => {
  const { spec } = build(
    inContainer({ resources: { limits: { cpu: 0.5, memory: '1024Mi' }, requests: { cpu: '0.1m' } } }),
  );
  expect(spec.containers[0]?.resources).toEqual({
    limits: { cpu: '500m', memory: '1Gi' },
    requests: { cpu: '1m', memory: '1Gi' },
  });
});

it.each([
  ['file', NEWEST_BEHAVIOR, [{ operator: 'Exists', effect: 'NoExecute' }]],
  ['http', NEWEST_BEHAVIOR, undefined],
  ['http', 0, [{ operator: 'Exists', effect: 'NoExecute' }]],
] as const)('a pod from %s of behavior %d has the tolerations %j', (source, behavior, expected) => {
  const read = manifest(podOf());
  // Another source has read it before: the decoded pod is not shared.
  staticPod(read, 'node1');
  const result = staticPod(read, 'node1', false, 'none', { behavior, source });
  expect('pod' in result && result.pod.spec.tolerations).toEqual(expected);
});

it('a toleration that already tolerates the same is replaced, not doubled', () => {
  const own = { key: 'k', operator: 'Exists' };
  const { spec } = build(
    podOf({ tolerations: [{ operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 5 }, own] }),
  );
  expect(spec.tolerations).toEqual([{ operator: 'Exists', effect: 'NoExecute' }, own]);
});

it('unknown fields and null are dropped, as by the Go decoder', () => {
  const { spec } = build(podOf({ replicas: 3, volumes: null, containers: [{ ...CONTAINER, imgae: 'x', args: null }] }));
  expect(spec).not.toHaveProperty('replicas');
  expect(spec).not.toHaveProperty('volumes');
  expect(spec.containers[0]).not.toHaveProperty('imgae');
});

it.each<[string, Json, string]>([
  ['no map', ['a'], 'the document is not a map of fields'],
  ['text', 'hello', 'the document is not a map of fields'],
  ['no kind', { apiVersion: 'v1' }, "Object 'Kind' is missing"],
  ['no version', { kind: 'Pod' }, "Object 'apiVersion' is missing"],
  ['6 a wrong kind', { apiVersion: 'v1', kind: 'Service' }, 'kind "Service" of apiVersion "v1" is not a Pod of v1'],
  ['6 a list', { apiVersion: 'v1', kind: 'List', items: [] }, 'kind "List"'],
  ['no name', { apiVersion: 'v1', kind: 'Pod', spec: {} }, 'name is needed for the pod'],
  ['no containers', podOf({ containers: [] }), 'spec.containers: Required value'],
  ['no spec', { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' } }, 'spec.containers: Required value'],
  ['a number as text', podOf({}, { name: 5 }), 'metadata.name: must be text, not a number; write it in quotes'],
  [
    '17 text as a number',
    inContainer({ ports: [{ containerPort: '80' }] }),
    'spec.containers[0].ports[0].containerPort: must be an integer, not text',
  ],
  ['a list as a map', podOf({ containers: { name: 'c' } }), 'spec.containers: must be a list, not a map'],
  ['null in a list', podOf({ containers: [null] }), 'spec.containers[0].name: Required value'],
  [
    '18 int64 over 2^53',
    podOf({ securityContext: { fsGroup: '9007199254740993' } }),
    'spec.securityContext.fsGroup: must be an integer between -9007199254740991 and 9007199254740991',
  ],
  [
    'int32 overflow',
    inContainer({ livenessProbe: { periodSeconds: 2147483648 } }),
    'periodSeconds: must be an integer between -2147483648 and 2147483647',
  ],
  [
    '17 a huge quantity',
    inContainer({ resources: { limits: { cpu: '1e400' } } }),
    'spec.containers[0].resources.limits[cpu]: quantities must match the regular expression',
  ],
  [
    '17 a negative quantity',
    inContainer({ resources: { limits: { memory: '-1Gi' } } }),
    'spec.containers[0].resources.limits[memory]: Invalid value: "-1Gi": must be greater than or equal to 0',
  ],
  [
    '8 a name with a slash',
    podOf({}, { name: 'a/b' }),
    'metadata.name: Invalid value: "a/b-node1": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters',
  ],
  ['8 a name upwards', podOf({}, { name: '..' }), 'metadata.name: Invalid value: "..-node1"'],
  ['8 a name with NUL', podOf({}, { name: 'a\0b' }), String.raw`metadata.name: Invalid value: "a\x00b-node1"`],
  ['8 a long name', podOf({}, { name: 'a'.repeat(300) }), 'must be no more than 253 characters'],
  [
    '8 a namespace upwards',
    podOf({}, { namespace: '../x' }),
    'metadata.namespace: Invalid value: "../x": a lowercase RFC 1123 label',
  ],
  [
    '20 a label key of objects',
    JSON.parse(
      '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"__proto__":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}}',
    ),
    'metadata.labels: Invalid value: "__proto__": name part must consist of alphanumeric characters',
  ],
  [
    'a container name',
    inContainer({ name: 'C_1' }),
    'spec.containers[0].name: Invalid value: "C_1": a lowercase RFC 1123 label must consist of',
  ],
  ['no container name', podOf({ containers: [{ image: 'i' }] }), 'spec.containers[0].name: Required value'],
  ['no image', podOf({ containers: [{ name: 'c' }] }), 'spec.containers[0].image: Required value'],
  [
    'an image with a space',
    inContainer({ image: 'i ' }),
    'spec.containers[0].image: Invalid value: "i ": must not have leading or trailing whitespace',
  ],
  [
    '23 two containers of one name',
    podOf({ containers: [CONTAINER, CONTAINER] }),
    'spec.containers[1].name: Duplicate value: "c"',
  ],
  [
    '23 an init container of one name',
    podOf({ initContainers: [CONTAINER] }),
    'spec.initContainers[0].name: Duplicate value: "c"',
  ],
  [
    '24 port 0',
    inContainer({ ports: [{ containerPort: 0 }] }),
    'spec.containers[0].ports[0].containerPort: Required value',
  ],
  [
    '24 port 65536',
    inContainer({ ports: [{ containerPort: 65536 }] }),
    'containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive',
  ],
  [
    '24 clashing host ports',
    inContainer({
      ports: [
        { containerPort: 1, hostPort: 9 },
        { containerPort: 2, hostPort: 9 },
      ],
    }),
    'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//9"',
  ],
  [
    'a host port beside the container port',
    podOf({ hostNetwork: true, containers: [{ ...CONTAINER, ports: [{ containerPort: 1, hostPort: 9 }] }] }),
    'must match `containerPort` when `hostNetwork` is true',
  ],
  [
    'a port name',
    inContainer({ ports: [{ containerPort: 1, name: 'Web_1' }] }),
    'must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
  ],
  [
    'a protocol',
    inContainer({ ports: [{ containerPort: 1, protocol: 'ICMP' }] }),
    'ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
  ],
  [
    'an environment name',
    inContainer({ env: [{ name: 'A=B' }] }),
    'spec.containers[0].env[0].name: Invalid value: "A=B": a valid environment variable name must consist only of printable ASCII characters other than \'=\'',
  ],
  [
    'a file of variables outside its volume',
    inContainer({
      env: [{ name: 'A', valueFrom: { fileKeyRef: { volumeName: 'v', path: '../x', key: 'A' } } }],
    }),
    'spec.containers[0].env[0].valueFrom.fileKeyRef.path: Invalid value: "../x": must not contain \'..\'',
  ],
  [
    'a field reference',
    inContainer({ env: [{ name: 'A', valueFrom: { fieldRef: { fieldPath: 'spec.x' } } }] }),
    'valueFrom.fieldRef.fieldPath: Invalid value: "spec.x": error converting fieldPath: field label not supported: spec.x',
  ],
  [
    'value and source',
    inContainer({ env: [{ name: 'A', value: 'x', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }] }),
    'may not be specified when `value` is not empty',
  ],
  [
    'a mount of nothing',
    inContainer({ volumeMounts: [{ name: 'v', mountPath: '/x' }] }),
    'spec.containers[0].volumeMounts[0].name: Not found: "v"',
  ],
  [
    '23 two mounts of one path',
    podOf({
      volumes: [{ name: 'v' }],
      containers: [
        {
          ...CONTAINER,
          volumeMounts: [
            { name: 'v', mountPath: '/x' },
            { name: 'v', mountPath: '/x' },
          ],
        },
      ],
    }),
    'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/x": must be unique',
  ],
  [
    '21 subPath upwards',
    podOf({
      volumes: [{ name: 'v' }],
      containers: [{ ...CONTAINER, volumeMounts: [{ name: 'v', mountPath: '/x', subPath: 'a/../..' }] }],
    }),
    'volumeMounts.subPath: Invalid value: "a/../..": must not contain \'..\'',
  ],
  [
    '21 an absolute subPath',
    podOf({
      volumes: [{ name: 'v' }],
      containers: [{ ...CONTAINER, volumeMounts: [{ name: 'v', mountPath: '/x', subPath: '/etc' }] }],
    }),
    'subPath: Invalid value: "/etc": must be a relative path',
  ],
  [
    'shared propagation without privilege',
    podOf({
      volumes: [{ name: 'v' }],
      containers: [{ ...CONTAINER, volumeMounts: [{ name: 'v', mountPath: '/x', mountPropagation: 'Bidirectional' }] }],
    }),
    'Forbidden: Bidirectional mount propagation is available only to privileged containers',
  ],
  [
    'a hostPath upwards',
    podOf({ volumes: [{ name: 'v', hostPath: { path: '/a/../etc' } }] }),
    'spec.volumes[0].hostPath.path: Invalid value: "/a/../etc": must not contain \'..\'',
  ],
  [
    'a hostPath type',
    podOf({ volumes: [{ name: 'v', hostPath: { path: '/a', type: 'Folder' } }] }),
    'hostPath.type: Unsupported value: "Folder"',
  ],
  [
    'two kinds of volume',
    podOf({ volumes: [{ name: 'v', hostPath: { path: '/a' }, emptyDir: {} }] }),
    'spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type',
  ],
  [
    'two volumes of one name',
    podOf({ volumes: [{ name: 'v' }, { name: 'v' }] }),
    'spec.volumes[1].name: Duplicate value: "v"',
  ],
  [
    '32 gitRepo',
    podOf({ volumes: [{ name: 'v', gitRepo: { repository: 'x' } }] }),
    'spec.volumes[0].gitRepo: Forbidden: gitRepo volumes let a pod run commands on the node',
  ],
  [
    'a probe without handler',
    inContainer({ livenessProbe: {} }),
    'spec.containers[0].livenessProbe: Required value: must specify a handler type',
  ],
  [
    'two handlers',
    inContainer({ livenessProbe: { exec: { command: ['x'] }, tcpSocket: { port: 1 } } }),
    'livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type',
  ],
  [
    'a probe that needs two successes',
    inContainer({ livenessProbe: { exec: { command: ['x'] }, successThreshold: 2 } }),
    'livenessProbe.successThreshold: Invalid value: 2: must be 1',
  ],
  [
    '25 a negative probe time',
    inContainer({ readinessProbe: { exec: { command: ['x'] }, timeoutSeconds: -1 } }),
    'readinessProbe.timeoutSeconds: Invalid value: -1: must be greater than or equal to 0',
  ],
  [
    'an empty command',
    inContainer({ livenessProbe: { exec: { command: [] } } }),
    'livenessProbe.exec.command: Required value',
  ],
  [
    '28 a sleep beyond the grace',
    inContainer({ lifecycle: { preStop: { sleep: { seconds: 31 } } } }),
    'lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)',
  ],
  [
    'a probe of an init container',
    podOf({ initContainers: [{ name: 'i', image: 'i', livenessProbe: { exec: { command: ['x'] } } }] }),
    'spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always',
  ],
  [
    'a request over its limit',
    inContainer({ resources: { limits: { cpu: '1' }, requests: { cpu: '2' } } }),
    'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
  ],
  [
    'an unknown resource',
    inContainer({ resources: { limits: { gpu: '1' } } }),
    'resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers',
  ],
  ['an uneven extended resource', inContainer({ resources: { limits: { 'a.b/gpu': '500m' } } }), 'must be an integer'],
  [
    'a restart policy',
    podOf({ restartPolicy: 'Sometimes' }),
    'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"',
  ],
  [
    'a dns policy',
    podOf({ dnsPolicy: 'None' }),
    'spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None',
  ],
  [
    'a deadline of 0',
    podOf({ activeDeadlineSeconds: 0 }),
    'spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive',
  ],
  [
    'a user beyond the range',
    podOf({ securityContext: { runAsUser: 2147483648 } }),
    'spec.securityContext.runAsUser: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive',
  ],
  [
    '31 an empty seccomp profile',
    inContainer({ securityContext: { seccompProfile: { type: 'Localhost', localhostProfile: '' } } }),
    'securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost',
  ],
  [
    '31 a seccomp profile upwards',
    inContainer({ securityContext: { seccompProfile: { type: 'Localhost', localhostProfile: '../x' } } }),
    "must not contain '..'",
  ],
  [
    'privileged without escalation',
    inContainer({ securityContext: { privileged: true, allowPrivilegeEscalation: false } }),
    'cannot set `allowPrivilegeEscalation` to false and `privileged` to true',
  ],
  [
    'a sysctl of the node',
    podOf({ hostNetwork: true, securityContext: { sysctls: [{ name: 'net.core.somaxconn', value: '1' }] } }),
    "may not be specified when 'hostNetwork' is true",
  ],
  [
    'a host alias',
    podOf({ hostAliases: [{ ip: 'x' }] }),
    'spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address',
  ],
  ['a toleration', podOf({ tolerations: [{ operator: 'Equal' }] }), 'operator must be Exists when `key` is empty'],
  [
    'a debug container',
    podOf({ ephemeralContainers: [CONTAINER] }),
    'spec.ephemeralContainers: Forbidden: cannot be set on create',
  ],
  [
    'a service account',
    podOf({ serviceAccount: 'x' }),
    'spec.serviceAccountName: Forbidden: static pods may not reference serviceaccounts',
  ],
  [
    'a token',
    podOf({ volumes: [{ name: 'v', projected: { sources: [{ serviceAccountToken: { path: 't' } }] } }] }),
    'spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: static pods may not reference serviceaccounts (via projected volumes)',
  ],
  [
    'a claim',
    podOf({ volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'x' } }] }),
    'static pods may not reference persistentvolumeclaims',
  ],
  [
    'a device claim',
    podOf({ resourceClaims: [{ name: 'x', resourceClaimName: 'y' }] }),
    'spec.resourceClaims[0]: Forbidden: static pods may not reference resourceclaims',
  ],
])('refuses %s', (_title, value, message) => {
  expect(errorsOf(value)).toEqual(expect.arrayContaining([expect.stringContaining(message)]));
});

it.each([
  [
    'a secret in the environment',
    inContainer({ env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 'x', key: 'k' } } }] }),
  ],
  ['a config map in the environment', inContainer({ envFrom: [{ configMapRef: { name: 'x' } }] })],
  ['a config map volume', podOf({ volumes: [{ name: 'v', configMap: { name: 'x' } }] })],
  ['a secret volume', podOf({ volumes: [{ name: 'v', secret: { secretName: 'x' } }] })],
  [
    'both in one volume',
    podOf({
      volumes: [{ name: 'v', projected: { sources: [{ secret: { name: 'x' } }, { configMap: { name: 'y' } }] } }],
    }),
  ],
])('takes %s: the object may lie beside the pod', (_title, value) => {
  expect(errorsOf(value)).toEqual([]);
});

it('29 a negative grace is one second, as of the kubelet', () => {
  expect(build(podOf({ terminationGracePeriodSeconds: -1 })).spec.terminationGracePeriodSeconds).toBe(1);
});

it('a manifest with several faults names each of them once', () => {
  const value = podOf({ restartPolicy: 'x', containers: [{ name: 'c' }] }, { name: 'A' });
  expect(errorsOf(value).map((error) => error.split(':')[0])).toEqual([
    'metadata.name',
    'spec.containers[0].image',
    'spec.restartPolicy',
  ]);
});

it('no message repeats the value of an environment variable', () => {
  expect(errorsOf(inContainer({ env: [{ name: 'PASSWORD', value: 4711 }] }))).toEqual([
    'spec.containers[0].env[0].value: must be text, not a number; write it in quotes',
  ]);
});

it('19 references to unknown variables are left to the container', () => {
  const env = [
    { name: 'A', value: '$(B)$$(C)$(' },
    { name: 'B', value: '$(A)' },
  ];
  expect(build(inContainer({ env })).spec.containers[0]?.env).toEqual(env);
});

it('20 keys that name parts of every object are ordinary keys', () => {
  const annotations = { constructor: 'a', toString: 'b', 'x/__proto__x': 'c' };
  const env = [
    { name: '__proto__', value: 'd' },
    { name: 'constructor', value: 'e' },
  ];
  const pod = build(
    podOf(
      { containers: [{ ...CONTAINER, env }], volumes: [{ name: 'constructor' }] },
      { labels: { constructor: 'x' }, annotations: { constructor: 'a', toString: 'b' } },
    ),
  );
  expect(pod.metadata.labels).toEqual({ constructor: 'x' });
  expect(Object.hasOwn(pod.metadata.annotations ?? {}, 'toString')).toBe(true);
  expect(annotations).toMatchObject({ constructor: pod.metadata.annotations?.['constructor'] });
  expect(pod.spec.containers[0]?.env).toEqual(env);
});

it('9 of two files with one pod name the first keeps it, and the message names both', () => {
  const first = manifest(podOf(), '/m/a.yaml', 'u1');
  const second = manifest(podOf(), '/m/b.yaml', 'u2');
  const other = manifest(podOf({}, { namespace: 'other' }), '/m/c.yaml', 'u3');
  const { pods, errors } = mergeManifests([first, second, other], 'node1');
  expect(pods.map(({ metadata }) => metadata.uid)).toEqual(['u1', 'u3']);
  expect(errors).toEqual([
    {
      file: '/m/b.yaml',
      message:
        `Can't process manifest file "/m/b.yaml": pod "a-node1" in namespace "default" ` +
        'is already defined by "/m/a.yaml"; rename or remove one of the two',
    },
  ]);
});

it('10 of two files with one uid the first keeps it', () => {
  const { pods, errors } = mergeManifests(
    [manifest(podOf(), '/m/a.yaml', 'same'), manifest(podOf({}, { name: 'b' }), '/m/b.yaml', 'same')],
    'node1',
  );
  expect(pods).toHaveLength(1);
  expect(errors[0]?.message).toContain('uid "same" is already defined by "/m/a.yaml"');
});

it('a uid that would leave its folder, or is what every object has, is refused', () => {
  for (const uid of ['../x', '..', 'a/b', 'a\0', '', 'x'.repeat(200), 'constructor', 'toString']) {
    expect(staticPod(manifest(podOf(), '/m/a.yaml', uid), 'node1').errors?.[0]).toMatch(
      /^metadata\.uid: Invalid value/,
    );
  }
});

it('a bad file costs only its own pod', () => {
  const { pods, errors } = mergeManifests(
    [manifest('x', '/m/a.yaml'), manifest(podOf(), '/m/b.yaml'), manifest(podOf({ containers: [] }), '/m/c.yaml')],
    'node1',
  );
  expect(pods).toHaveLength(1);
  expect(errors.map(({ file }) => file)).toEqual(['/m/a.yaml', '/m/c.yaml']);
  expect(errors[1]?.message).toBe(
    `Can't process manifest file "/m/c.yaml": invalid pod: spec.containers: Required value`,
  );
});

it('is refused, and nothing throws, where resources have names that every object has', () => {
  const amounts = { constructor: '1', toString: '2', valueOf: '3' };
  const container = { ...CONTAINER, resources: { limits: amounts, requests: amounts } };
  const resources = { limits: { memory: '1Gi', ...amounts }, requests: { memory: '-1', ...amounts } };
  expect(errorsOf(podOf({ containers: [container], initContainers: [container], resources })).join('\n')).toContain(
    'spec.resources.limits[constructor]: Invalid value: "constructor": must be a standard resource type or fully qualified',
  );
});
