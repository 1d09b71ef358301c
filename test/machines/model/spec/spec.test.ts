/** Tables for cases that the recordings lack: limits, escapes, other drivers, other machines. */
import { describe, expect, it } from 'vitest';
import type { Container } from '../../../../src/machines/model/api/pod.ts';
import { containerConfig } from '../../../../src/machines/model/spec/container.ts';
import { environment, fieldValue, resourceValue } from '../../../../src/machines/model/spec/environment.ts';
import { expand } from '../../../../src/machines/model/spec/expansion.ts';
import { hostsFile, podHostname } from '../../../../src/machines/model/spec/hostname.ts';
import { imageWithTag, parseImage, pullPolicy } from '../../../../src/machines/model/spec/image.ts';
import {
  containerFiles,
  legacyLogName,
  podFiles,
  terminationLogFile,
} from '../../../../src/machines/model/spec/paths.ts';
import { containerSecurityContext, imageUser, nonRootViolation } from '../../../../src/machines/model/spec/security.ts';
import { quote } from '../../../../src/machines/model/values/go-text.ts';
import { container, pod } from '../../charts/pods/support.ts';
import { node } from './recordings.ts';

describe('images', () => {
  it.each([
    ['busybox', 'busybox:latest', 'Always'],
    ['busybox:1', 'busybox:1', 'IfNotPresent'],
    ['localhost:5000/a/b', 'localhost:5000/a/b:latest', 'Always'],
    ['a.b/c:latest', 'a.b/c:latest', 'Always'],
    [`a@sha256:${'0'.repeat(64)}`, `a@sha256:${'0'.repeat(64)}`, 'IfNotPresent'],
  ])('%s is asked for as %s, policy %s', (image, full, policy) => {
    expect(imageWithTag(image)).toBe(full);
    expect(pullPolicy({ image })).toBe(policy);
  });

  it('lets the container decide', () => expect(pullPolicy({ image: 'a', imagePullPolicy: 'Never' })).toBe('Never'));

  it.each([
    ['UPPER:1', 'invalid reference format: repository name (library/UPPER) must be lowercase'],
    ['docker.io/UPPER', 'invalid reference format: repository name (library/UPPER) must be lowercase'],
    ['docker.io/a/UPPER', 'invalid reference format: repository name (a/UPPER) must be lowercase'],
    ['localhost/Bad:UPPER:x', 'invalid reference format: repository name (Bad) must be lowercase'],
    ['', 'invalid reference format'],
    ['a b', 'invalid reference format'],
    ['a:', 'invalid reference format'],
    ['a@sha256:short', 'invalid reference format'],
    ['a//b', 'invalid reference format'],
    ['f'.repeat(64), `invalid repository name (${'f'.repeat(64)}), cannot specify 64-byte hexadecimal strings`],
  ])('%j is refused: %s', (image, error) => expect(parseImage(image)).toEqual({ error }));
});

describe('host names', () => {
  it('cuts a name to a label that does not end in a separator', () => {
    expect(podHostname(pod({}, { name: `${'a'.repeat(62)}-b` }), node).hostname).toBe('a'.repeat(62));
  });

  it('refuses a whole name that the kernel cannot hold', () => {
    const long = pod({ setHostnameAsFQDN: true, subdomain: 's'.repeat(50) });
    expect(() => podHostname(long, node)).toThrow('is too long (64 characters is the max,');
  });

  it('writes the node’s own hosts file for a pod in its network', () => {
    const own = pod({ hostNetwork: true, hostAliases: [{ ip: '192.0.2.9', hostnames: ['x'] }] });
    expect(hostsFile(own, [], node)).toEqual({
      before: '# Kubernetes-managed hosts file (host network).\n',
      file: '/etc/hosts',
      known: '127.0.0.1\tlocalhost\n',
      after: '\n# Entries added by HostAliases.\n192.0.2.9\tx\n',
    });
  });

  it('names every address of a pod', () => {
    expect(hostsFile(pod(), ['10.0.0.5', 'fd00::5'], node)).toMatch(/\n10\.0\.0\.5\tp\nfd00::5\tp\n$/);
  });
});

describe('references in text', () => {
  const values: Readonly<Record<string, string>> = { A: 'a', B: '$(A)' };
  it.each([
    ['$(A)', 'a'],
    ['$(B)', '$(A)'],
    ['$$(A)', '$(A)'],
    ['$$$(A)', '$a'],
    ['$(X)', '$(X)'],
    ['$(A', '$(A'],
    ['$', '$'],
    ['a$b', 'a$b'],
    ['$()', '$()'],
    ['$(A)$(A)', 'aa'],
  ])('%s becomes %s', (text, expected) => expect(expand(text, (name) => values[name])).toBe(expected));
});

describe('environment', () => {
  const of = (fields: Partial<Container>, references = { configMaps: {}, secrets: {} }): Record<string, string> =>
    Object.fromEntries(
      environment({
        pod: pod(),
        container: container(fields),
        podIPs: ['10.0.0.5'],
        node,
        serviceVariables: [{ key: 'S', value: 'service' }],
        references,
      }).map(({ key, value }) => [key, value]),
    );

  it('lets the later source win', () => {
    const references = { configMaps: { m: { A: 'map', S: 'map' } }, secrets: { s: { A: 'secret' } } };
    const envFrom = [{ configMapRef: { name: 'm' } }, { secretRef: { name: 's' }, prefix: 'P_' }];
    expect(of({ envFrom, env: [{ name: 'B', value: '$(A)$(P_A)$(S)' }] }, references)).toEqual({
      A: 'map',
      S: 'map',
      P_A: 'secret',
      B: 'mapsecretmap',
    });
  });

  it('sees only what stands before', () => {
    expect(
      of({
        env: [
          { name: 'A', value: '$(B)' },
          { name: 'B', value: 'b' },
        ],
      }),
    ).toEqual({
      A: '$(B)',
      B: 'b',
      S: 'service',
    });
  });

  it('leaves an optional key out and refuses a missing one', () => {
    const optional = { name: 'm', key: 'k', optional: true };
    expect(of({ env: [{ name: 'A', valueFrom: { configMapKeyRef: optional } }] })).toEqual({ S: 'service' });
    const valueFrom = { secretKeyRef: { name: 's', key: 'k' } };
    expect(() => of({ env: [{ name: 'A', valueFrom }] })).toThrow('secret "s" not found');
  });

  it('reports that there are no objects without an API server', () => {
    const valueFrom = { configMapKeyRef: { name: 'm', key: 'k' } };
    const standalone = { pod: pod(), container: container({ env: [{ name: 'A', valueFrom }] }), podIPs: [], node };
    expect(() => environment(standalone)).toThrow("couldn't get configMap ns/m, no kubeClient defined");
  });
});

describe('downward API', () => {
  const labelled = pod({}, { labels: { b: 'two\n', a: '"1"' } });

  it.each([
    ["metadata.labels['a']", '"1"'],
    ["metadata.labels['x']", ''],
    ['metadata.labels', 'a="\\"1\\""\nb="two\\n"'],
    ['status.podIPs', '10.0.0.5,fd00::5'],
  ])('%s', (path, value) => expect(fieldValue(labelled, path, ['10.0.0.5', 'fd00::5'], node)).toBe(value));

  it('refuses a path that it does not know', () => {
    expect(() => fieldValue(labelled, 'spec.volumes', [], node)).toThrow('unsupported fieldPath: spec.volumes');
  });

  it.each([
    ['\u0007\u0000\u007f\u00e9\u2028', '\\a\\x00\\x7fé\\u2028'],
    ['a b\u00a0\u3000', 'a b\\u00a0\\u3000'],
    ['\u200b\u00ad\ufeff\u0085', '\\u200b\\u00ad\\ufeff\\u0085'],
    ['☃\u{1f600}\u{e0001}\u{f0000}', '☃\u{1f600}\\U000e0001\\U000f0000'],
  ])('quotes as Go does: %j', (text, quoted) => expect(quote(text)).toBe(`"${quoted}"`));

  it.each([
    ['limits.cpu', '1', '2'],
    ['requests.memory', '1Mi', '0'],
    ['limits.memory', '1Gi', '24'],
  ])('%s in units of %s of a container without limits is %s', (resource, divisor, value) => {
    expect(resourceValue(pod(), container(), { resource, divisor }, node)).toBe(value);
  });

  it('refuses a resource that it does not know', () => {
    expect(() => resourceValue(pod(), container(), { resource: 'limits.pods' }, node)).toThrow(
      'unsupported container resource : limits.pods',
    );
  });
});

describe('users', () => {
  const image = { id: '', repo_tags: [], repo_digests: [], size: '0', username: '', pinned: false };
  const nonRoot = container({ securityContext: { runAsNonRoot: true } });

  it.each([
    [{ ...image, uid: { value: '7' } }, null],
    [{ ...image, uid: {} }, 'container has runAsNonRoot and image will run as root (pod: "p_ns(uid-1)", container: c)'],
    [
      { ...image, username: 'app' },
      'container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root' +
        ' (pod: "p_ns(uid-1)", container: c)',
    ],
    ...['-1', '2147483648'].map((uid): [Parameters<typeof imageUser>[0], string] => [
      { ...image, uid: { value: uid } },
      `container has runAsNonRoot and image has an invalid user id (${uid}). (Must be 1-(2147483647)): ` +
        'must be between 0 and 2147483647, inclusive (pod: "p_ns(uid-1)", container: c)',
    ]),
  ])('%j: %s', (each, violation) => expect(nonRootViolation(pod(), nonRoot, imageUser(each))).toBe(violation));

  it('holds the container’s word against the pod’s', () => {
    const root = container({ securityContext: { runAsUser: 0 } });
    expect(nonRootViolation(pod({ securityContext: { runAsNonRoot: true } }), root, imageUser(null))).toBe(
      'container\'s runAsUser breaks non-root policy (pod: "p_ns(uid-1)", container: c)',
    );
  });

  it('hides how often CPUs were throttled, where they count it, and unless nothing is hidden', () => {
    const machine = { ...node, throttledCpus: [0, 12] };
    const masked = (procMount: string, settings: typeof machine | typeof node): readonly string[] => {
      const each = container({ securityContext: { procMount } });
      return containerSecurityContext(pod(), each, imageUser(image), settings).masked_paths ?? [];
    };
    expect(masked('Default', machine).slice(-3)).toEqual([
      '/sys/devices/virtual/powercap',
      '/sys/devices/system/cpu/cpu0/thermal_throttle',
      '/sys/devices/system/cpu/cpu12/thermal_throttle',
    ]);
    expect(masked('Default', node)).toHaveLength(12);
    expect(masked('Unmasked', machine)).toEqual([]);
  });

  it('runs by name what an image names', () => {
    const context = containerSecurityContext(pod(), container(), imageUser({ ...image, username: 'app' }), node);
    expect(context.run_as_username).toBe('app');
    expect(context).not.toHaveProperty('run_as_user');
  });
});

describe('volumes', () => {
  const configuration = { name: 'v', configMap: { name: 'm' } };
  const input = {
    kind: 'regular' as const,
    restartCount: 0,
    imageRef: 'sha256:1',
    image: null,
    podIPs: ['10.0.0.5'],
    node,
    terminationLogFile: '/log',
    volumes: {},
  };

  it('are never left out in silence', () => {
    const mounting = container({ volumeMounts: [{ name: 'v', mountPath: '/v' }] });
    const result = containerConfig({ ...input, pod: pod({ volumes: [configuration] }), container: mounting });
    expect(result).toEqual({
      error: {
        reason: 'CreateContainerConfigError',
        message: 'cannot find volume "v" to mount into container "c"',
      },
    });
  });

  it.each([
    ['../x', "unable to provision SubPath `../x`: must not contain '..'"],
    ['/x', 'error SubPath `/x` must not be an absolute path'],
  ])('do not let a sub-path %s out', (subPath, message) => {
    const mounting = container({ volumeMounts: [{ name: 'd', mountPath: '/d', subPath }] });
    const result = containerConfig({
      ...input,
      pod: pod({ volumes: [{ name: 'd', emptyDir: {} }] }),
      container: mounting,
      volumes: { d: { hostPath: '/d' } },
    });
    expect(result).toMatchObject({ error: { message } });
  });
});

describe('files', () => {
  it('lie below the pod’s folder', () => {
    const volumes = [{ name: 'd', emptyDir: {} }];
    const shared = podFiles(pod({ volumes }), node, ['10.0.0.5']);
    const own = containerFiles(pod(), container(), 0, node);
    const all = [...shared.directories, ...shared.files, ...own.directories, ...own.files];
    expect(all.filter(({ path }) => !path.startsWith('${ROOT}/pods/uid-1'))).toEqual([]);
  });

  it('have no hosts file before the pod has an address', () => expect(podFiles(pod(), node, []).files).toEqual([]));

  it('name the last words of each instance apart, and the same again in a replay', () => {
    const first = terminationLogFile(pod(), 'c', 0, node);
    expect(first).toMatch(/\/containers\/c\/[0-9a-f]{8}$/);
    expect(terminationLogFile(pod(), 'c', 0, node)).toBe(first);
    expect(terminationLogFile(pod(), 'c', 1, node)).not.toBe(first);
  });

  it('fit into a file name', () => {
    expect(legacyLogName(pod({}, { name: 'n'.repeat(250) }), 'c', 'id')).toHaveLength(251);
  });
});
