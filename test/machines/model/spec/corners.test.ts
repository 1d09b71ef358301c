/** Special cases of requests that no recording has, according to upstream's source. */
import { describe, expect, it } from 'vitest';
import { admissionRequest } from '../../../../src/machines/model/allocation/request.ts';
import type { Container, PodSpec, ResourceList } from '../../../../src/machines/model/api/pod.ts';
import type { DeviceResponse } from '../../../../src/machines/model/operations/devices.ts';
import { containerConfig, subPaths } from '../../../../src/machines/model/spec/container.ts';
import { resourceValue } from '../../../../src/machines/model/spec/environment.ts';
import { podHostname } from '../../../../src/machines/model/spec/hostname.ts';
import { sandboxConfig } from '../../../../src/machines/model/spec/sandbox.ts';
import { container, pod } from '../../charts/pods/support.ts';
import { node } from './recordings.ts';

type Input = Parameters<typeof containerConfig>[0];

const inputOf = (fields: Partial<Container>, spec: Partial<PodSpec> = {}, more: Partial<Input> = {}): Input => {
  const own = container(fields);
  return {
    pod: pod({ containers: [own], ...spec }),
    container: own,
    kind: 'regular',
    restartCount: 0,
    imageRef: 'sha256:1',
    image: null,
    podIPs: ['10.0.0.5'],
    node,
    terminationLogFile: '/t',
    volumes: { v: { hostPath: '/host/v' } },
    ...more,
  };
};

function configOf(...args: Parameters<typeof inputOf>) {
  const result = containerConfig(inputOf(...args));
  if ('error' in result) throw new Error(result.error.message);
  return result.config;
}

const securityOf = (...args: Parameters<typeof inputOf>) => configOf(...args).linux?.security_context;

describe('variables', () => {
  it('that double with each line are refused before they are built, with the reason on the container', () => {
    const env = Array.from({ length: 30 }, (_, at) => ({
      name: `V${at}`,
      value: at === 0 ? 'x'.repeat(100) : `$(V${at - 1})$(V${at - 1})`,
    }));
    expect(containerConfig(inputOf({ env }))).toEqual({
      error: {
        reason: 'CreateContainerConfigError',
        message: 'expanding "$(V10)$(V10)" gives more than the 131072 characters that are left for it',
      },
    });
  });

  it('share one limit with all others of their container, and words another', () => {
    const big = { name: 'BIG', value: 'x'.repeat(100_000) };
    const many = Array.from({ length: 100 }, (_, at) => ({ name: `V${at}`, value: '$(BIG)' }));
    const message = expect.stringMatching(
      /^expanding "\$\(BIG\)" gives more than the \d+ characters that are left for it$/,
    );
    const refused = { error: { reason: 'CreateContainerConfigError', message } };
    expect(containerConfig(inputOf({ env: [big, ...many] }))).toEqual(refused);
    expect(containerConfig(inputOf({ env: [big], command: many.map(({ value }) => value) }))).toEqual(refused);
    expect(configOf({ env: [big, ...many.slice(0, 60)] }).envs).toHaveLength(61);
  });

  it('are looked for in time that grows as the text does', () => {
    const text = '$('.repeat(200_000);
    expect(configOf({ env: [{ name: 'A', value: text }] }).envs).toEqual([{ key: 'A', value: text }]);
  });

  const devices: DeviceResponse = {
    envs: { DEVICE: 'gpu0', OWN: 'plugin' },
    mounts: [],
    devices: [],
    annotations: {},
    cdiDevices: [],
  };

  it('of devices can be referred to; the pod’s own word of the same name counts', () => {
    const { args, envs } = configOf(
      { args: ['$(DEVICE)', '$(OWN)'], env: [{ name: 'OWN', value: 'pod' }] },
      {},
      { devices },
    );
    expect(args).toEqual(['gpu0', 'pod']);
    expect(envs?.map(({ key }) => key)).toEqual(['DEVICE', 'OWN', 'OWN']);
  });

  it('name the places of volumes; one without a value is as missing as one that is not there', () => {
    const env = [{ name: 'EMPTY', value: '' }];
    const volumeMounts = [{ name: 'v', mountPath: '/v', subPathExpr: '$(Z)/$(EMPTY)/$(Z)' }];
    expect(() => configOf({ env, volumeMounts })).toThrow('missing value for EMPTY, Z');
    const found = [{ name: 'v', mountPath: '/v', subPathExpr: '$(DEVICE)' }];
    expect(subPaths(inputOf({ volumeMounts: found }, {}, { devices }))).toMatchObject([{ subPath: 'gpu0' }]);
  });
});

it('a signal to stop with is named only where the gate ContainerStopSignals is on', () => {
  const fields = { lifecycle: { stopSignal: 'SIGRTMIN+1' } };
  expect(configOf(fields)).not.toHaveProperty('stop_signal');
  const asked = configOf(fields, {}, { node: { ...node, hasStopSignals: true } });
  expect(asked).toMatchObject({ stop_signal: 'SIGRTMINPLUS1' });
});

describe('amounts that a container may know of itself', () => {
  const allocatable = { cpu: '2', memory: '1000', 'ephemeral-storage': '77', 'hugepages-2Mi': '4Mi' };
  const limit = (resource: string, own: Partial<Container>, shared: ResourceList = {}): string =>
    resourceValue(pod(), container(own), { resource }, { ...node, allocatable }, shared);

  it.each<[string, Partial<Container>, ResourceList, string]>([
    ['limits.memory', {}, {}, '1000'],
    ['limits.memory', { resources: { limits: { memory: '0' } } }, {}, '1000'],
    ['limits.memory', { resources: { limits: { memory: '5' } } }, { memory: '9' }, '5'],
    ['limits.memory', {}, { memory: '9' }, '9'],
    ['limits.cpu', {}, { cpu: '500m' }, '1'],
    ['limits.ephemeral-storage', {}, { 'ephemeral-storage': '9' }, '77'],
    ['limits.hugepages-2Mi', {}, {}, '0'],
    ['requests.memory', {}, {}, '0'],
  ])('%s of %j in a pod that is limited to %j is %s', (resource, own, shared, value) =>
    expect(limit(resource, own, shared)).toBe(value),
  );

  it('are those of the pod as a whole in variables', () => {
    const env = [{ name: 'A', valueFrom: { resourceFieldRef: { resource: 'limits.memory' } } }];
    expect(configOf({ env }, { resources: { limits: { memory: '9' } } }).envs).toEqual([{ key: 'A', value: '9' }]);
  });
});

describe('port mappings', () => {
  const mappings = (spec: Partial<PodSpec>) => sandboxConfig(pod(spec), 0, node).port_mappings;

  it('of tens of thousands of ports are distinct in little time', () => {
    const ports = Array.from({ length: 40_000 }, (_, i) => ({ name: `p${i}`, containerPort: i + 1 }));
    const before = process.cpuUsage();
    expect(mappings({ containers: [{ name: 'a', image: 'i', ports: [...ports, ...ports] }] })).toHaveLength(40_000);
    expect(process.cpuUsage(before).user).toBeLessThan(3_000_000);
  });

  it('are those of regular containers', () => {
    const sidecar = container({ name: 's', restartPolicy: 'Always', ports: [{ containerPort: 1, hostPort: 1 }] });
    expect(mappings({ initContainers: [sidecar] })).toBeUndefined();
  });

  it('are each told once: by name, or where all is equal', () => {
    const ports = [
      { containerPort: 80, protocol: 'TCP' },
      { containerPort: 80, protocol: 'TCP' },
      { containerPort: 80, protocol: 'UDP' },
      { containerPort: 80, protocol: 'TCP', hostIP: '127.0.0.1' },
      { containerPort: 80, protocol: 'TCP', hostIP: '::1', hostPort: 8080 },
      { name: 'web', containerPort: 81, protocol: 'TCP' },
      { name: 'web', containerPort: 82, protocol: 'SCTP' },
    ];
    expect(mappings({ containers: [container({ ports })] })).toEqual([
      { container_port: 80 },
      { protocol: 'UDP', container_port: 80 },
      { container_port: 80, host_ip: '127.0.0.1' },
      { container_port: 80, host_port: 8080, host_ip: '::1' },
      { container_port: 81 },
    ]);
  });
});

describe('security', () => {
  it('lists groups as the pod does, twice where it does', () => {
    const securityContext = { fsGroup: 7, supplementalGroups: [7, 8, 8] };
    expect(securityOf({}, { securityContext })?.supplemental_groups).toEqual(['7', '7', '8', '8']);
    const { linux } = sandboxConfig(pod({ securityContext }), 0, node);
    expect(linux?.security_context?.supplemental_groups).toEqual(['7', '7', '8', '8']);
  });

  it('adds the groups of volumes, each once, and none that the pod lists', () => {
    const securityContext = { fsGroup: 7, supplementalGroups: [8] };
    const groups = [9, 8, 9, undefined].map((groupId, at) => [`v${at}`, { hostPath: '/', groupId }] as const);
    const volumes = Object.fromEntries(groups) as Input['volumes'];
    expect(securityOf({}, { securityContext }, { volumes })?.supplemental_groups).toEqual(['7', '9', '8']);
    const { linux } = sandboxConfig(pod({ securityContext }), 0, node, null, volumes);
    expect(linux?.security_context?.supplemental_groups).toEqual(['7', '9', '8']);
  });

  it('forbids new privileges whatever else the container asks for', () => {
    const securityContext = { allowPrivilegeEscalation: false, capabilities: { add: ['SYS_ADMIN'] } };
    expect(securityOf({ securityContext })?.no_new_privs).toBe(true);
  });

  it('counts debug containers for a privileged sandbox', () => {
    const ephemeralContainers = [container({ name: 'e', securityContext: { privileged: true } })];
    const { linux } = sandboxConfig(pod({ ephemeralContainers }), 0, node);
    expect(linux?.security_context?.privileged).toBe(true);
  });

  it('finds a profile of the node below its folder', () => {
    const of = (localhostProfile: string) =>
      securityOf({ securityContext: { seccompProfile: { type: 'Localhost', localhostProfile } } })?.seccomp;
    expect(of('./a//b.json')).toEqual({ profile_type: 'Localhost', localhost_ref: '${ROOT}/seccomp/a/b.json' });
    expect(() => of('')).toThrow('localhostProfile must be set if seccompProfile type is Localhost.');
  });

  it.each<[string, Record<string, string>, NonNullable<Container['securityContext']>, readonly [string, string]]>([
    [
      'its own word',
      { 'x/c': 'unconfined' },
      { appArmorProfile: { type: 'RuntimeDefault' } },
      ['RuntimeDefault', 'runtime/default'],
    ],
    ['an annotation', { 'x/c': 'localhost/a/b' }, {}, ['Localhost', 'localhost/a/b']],
    ['an annotation', { 'x/c': 'runtime/default' }, {}, ['RuntimeDefault', 'runtime/default']],
    ['the word of its pod', { 'x/other': 'unconfined' }, {}, ['Unconfined', 'unconfined']],
    ['the word of its pod', { 'x/c': 'nonsense' }, {}, ['Unconfined', 'unconfined']],
  ])('confines a container by %s (%j, %j)', (_, marks, securityContext, [type, name]) => {
    const annotations = Object.fromEntries(
      Object.entries(marks).map(([key, value]) => [
        key.replace('x', 'container.apparmor.security.beta.kubernetes.io'),
        value,
      ]),
    );
    const shared = { securityContext: { appArmorProfile: { type: 'Unconfined' } } };
    const confined = { ...inputOf({ securityContext }, shared) };
    const whole = { ...confined.pod, metadata: { ...confined.pod.metadata, annotations } };
    const result = containerConfig({ ...confined, pod: whole });
    expect('config' in result && result.config.linux?.security_context).toMatchObject({
      apparmor: { profile_type: type },
      apparmor_profile: name,
    });
  });

  it.each<[boolean, Partial<PodSpec>, Record<string, string>]>([
    [false, {}, {}],
    [false, { securityContext: { appArmorProfile: { type: 'Unconfined' } } }, {}],
    [true, { securityContext: { appArmorProfile: { type: 'RuntimeDefault' } } }, {}],
    [true, {}, { 'container.apparmor.security.beta.kubernetes.io/c': 'runtime/default' }],
    [false, {}, { 'container.apparmor.security.beta.kubernetes.io/c': 'unconfined' }],
  ])('needs AppArmor of the machine: %s for %j with %j', (wants, spec, annotations) => {
    const unconfined = container({ securityContext: { appArmorProfile: { type: 'Unconfined' } } });
    expect(admissionRequest(pod({ containers: [unconfined], ...spec }, { annotations })).rules.wantsAppArmor).toBe(
      wants,
    );
  });

  it('maps the files of volumes to the users of the pod', () => {
    const users = { hostId: 131_072, length: 65_536 };
    const mapping = [{ host_id: 131_072, container_id: 0, length: 65_536 }];
    const { mounts = [] } = configOf(
      { volumeMounts: [{ name: 'v', mountPath: '/v' }], terminationMessagePath: '/t' },
      { hostUsers: false },
      { users },
    );
    expect(mounts).toHaveLength(3);
    for (const mount of mounts) expect(mount).toMatchObject({ uidMappings: mapping, gidMappings: mapping });
    expect(configOf({ terminationMessagePath: '/t' }).mounts?.[0]).not.toHaveProperty('uidMappings');
  });
});

it('an error of a variable or a mount is reported before a violation of runAsNonRoot, as by the kubelet', () => {
  const refused = (fields: Partial<Container>) => containerConfig(inputOf(fields));
  const securityContext = { runAsNonRoot: true, runAsUser: 0 };
  expect(refused({ securityContext })).toHaveProperty(
    'error.message',
    expect.stringContaining("container's runAsUser breaks non-root policy"),
  );
  const volumeMounts = [{ name: 'v', mountPath: '/v', subPathExpr: '$(NOPE)' }];
  expect(refused({ securityContext, volumeMounts })).toHaveProperty('error.message', 'missing value for NOPE');
});

describe('mounts', () => {
  it('show the place of last words from the root', () => {
    expect(configOf({ terminationMessagePath: 'tmp/log' }).mounts?.at(-1)?.container_path).toBe('/tmp/log');
  });

  it('show a part of an image by an expression, too', () => {
    const env = [{ name: 'PART', value: 'a' }];
    const volumeMounts = [{ name: 'i', mountPath: '/i', subPathExpr: '$(PART)/b' }];
    const volumes = { i: { hostPath: '', image: { reference: 'img:1', ref: 'sha256:2' } } };
    expect(configOf({ env, volumeMounts }, {}, { volumes, handler: 'kata' }).mounts?.[0]).toEqual({
      container_path: '/i',
      host_path: '',
      readonly: true,
      image: {
        image: 'sha256:2',
        user_specified_image: 'img:1',
        annotations: { 'kubernetes.io/config.source': 'api' },
      },
      image_sub_path: 'a/b',
    });
  });

  it('of other volumes in a pod with an image name their part for the runtime, too', () => {
    const volumeMounts = [{ name: 'v', mountPath: '/v', subPath: 'a' }];
    const image = { name: 'i', image: { reference: 'img:1' } };
    expect(configOf({ volumeMounts }, { volumes: [image] }).mounts?.[0]).toHaveProperty('image_sub_path', 'a');
    expect(configOf({ volumeMounts }).mounts?.[0]).not.toHaveProperty('image_sub_path');
  });

  it('of a machine with SELinux get the label of the container, but for those of its volumes that keep theirs', () => {
    const volumeMounts = ['v', 'h', 'i'].map((name) => ({ name, mountPath: `/${name}` }));
    const volumes = {
      v: { hostPath: '/host/v', relabel: true },
      h: { hostPath: '/host/h' },
      i: { hostPath: '', image: { reference: 'img:1', ref: 'sha256:2' }, relabel: true },
    };
    const fields = { volumeMounts, terminationMessagePath: '/t' };
    const labels = (more: Partial<Input>) =>
      configOf(fields, {}, { volumes, ...more }).mounts?.map((mount) => mount.selinux_relabel);
    expect(labels({ node: { ...node, seLinux: true } })).toEqual([true, undefined, true, true, true]);
    expect(labels({})).toEqual([true, undefined, true, undefined, undefined]);
  });

  it('that cannot be read-only to the bottom are refused', () => {
    const volumeMounts = [{ name: 'v', mountPath: '/v', readOnly: true, recursiveReadOnly: 'Enabled' }];
    expect(() => configOf({ volumeMounts })).toThrow(
      'failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, ' +
        'but it is not supported by the runtime',
    );
  });
});

describe('host names', () => {
  it('cuts a name that overrides all others, too', () => {
    const hostnameOverride = `${'a'.repeat(62)}.b`;
    expect(podHostname(pod({ hostnameOverride, subdomain: 's', setHostnameAsFQDN: true }), node)).toEqual({
      hostname: 'a'.repeat(62),
      domain: '',
      kernelHostname: 'a'.repeat(62),
    });
  });
});

describe('the configuration of a sandbox', () => {
  const own = pod({ volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'c' } }] });
  const volumes = { v: { hostPath: '/host/v', groupId: 7 } };
  const users = { hostId: 65_536, length: 65_536 };

  it('is one object as long as what it is made from is the same', () => {
    const first = sandboxConfig(own, 0, node);
    expect(sandboxConfig(own, 0, node, null, {})).toBe(first);
    expect(sandboxConfig({ ...own }, 0, node)).toEqual(first);
  });

  it.each<[string, (made: typeof sandboxConfig) => unknown]>([
    ['the attempt', (made) => made(own, 1, node)],
    ['the node', (made) => made(own, 0, { ...node, clusterDNS: ['10.9.9.9'] })],
    ['the users', (made) => made(own, 0, node, users)],
    ['the volumes', (made) => made(own, 0, node, null, volumes)],
  ])('is another one when %s is', (_what, made) => {
    const first = sandboxConfig(own, 0, node);
    expect(made(sandboxConfig)).not.toBe(first);
    expect(sandboxConfig(own, 0, node)).toEqual(first);
  });
});
