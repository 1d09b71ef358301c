/**
 * Cases that the corpus lacks: the table compared with the type, the origins of values, and that no input causes an
 * exception.
 */
import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeSource } from '../../../src/actors/host/configuration/configuration.ts';
import { isObject, type Json } from '../../../src/kernel/json.ts';
import { toMasked, toVersioned } from '../../../src/machines/configuration/fields/decode.ts';
import { flagDefaults } from '../../../src/machines/configuration/fields/defaults.ts';
import { FEATURE_DEPENDENCIES, FEATURE_GATES } from '../../../src/machines/configuration/fields/feature-gate-table.ts';
import { decideFeatures, isEnabled } from '../../../src/machines/configuration/fields/feature-gates.ts';
import { FLAGS } from '../../../src/machines/configuration/flags/flag-table.ts';
import { parseCommandLine } from '../../../src/machines/configuration/flags/flags.ts';
import { loadConfiguration, mergeDropIns } from '../../../src/machines/configuration/load.ts';
import {
  type ConfigurationFiles,
  printOrigin,
  resolveConfiguration,
  valuesWithOrigin,
} from '../../../src/machines/configuration/resolve.ts';
import type { FieldType } from '../../../src/machines/model/configuration/field-types.ts';
import { API_VERSION, KIND, kubeletConfigurationType } from '../../../src/machines/model/configuration/fields.ts';

const VERSION = { version: 'v1.36.2', raw: '' };
const HOST = { cgroupVersion: 2 } as const;
const HEAD = 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n';

function source(path: string, body: string) {
  return decodeSource(path, Buffer.from(`${HEAD}${body}`));
}

function files(file: string | null, ...dropIns: string[]): ConfigurationFiles {
  return {
    file: file === null ? null : source('/etc/kubelet.yaml', file),
    dropIns: { kind: 'files', files: dropIns.map((text, index) => source(`/etc/kubelet.d/${index}.conf`, text)) },
  };
}

function resolve(argv: readonly string[], given: ConfigurationFiles) {
  const line = parseCommandLine([...argv, '--config=/etc/kubelet.yaml', '--config-dir=/etc/kubelet.d'], VERSION);
  if (line.kind !== 'run') throw new Error(JSON.stringify(line));
  return { line, resolution: resolveConfiguration(line.flags, line.given, given, HOST) };
}

describe('tables', () => {
  it('binds every flag of the configuration to a field that exists', () => {
    const configuration: Json = flagDefaults({});
    for (const { name, field } of FLAGS) {
      if (field === undefined) continue;
      const value = field
        .split('.')
        .reduce<Json | undefined>((item, key) => (isObject(item) ? item[key] : undefined), configuration);
      expect(value, name).not.toBeUndefined();
    }
  });

  it('has gates whose defaults respect their dependencies', () => {
    expect(decideFeatures({})).toEqual({ changed: {}, warnings: [], error: null });
    for (const [name, dependencies] of Object.entries(FEATURE_DEPENDENCIES)) {
      for (const each of [name, ...dependencies]) expect(FEATURE_GATES).toHaveProperty(each);
    }
  });
});

describe('feature gates', () => {
  it('sets a whole stage, and a gate by name over it', () => {
    const { changed } = decideFeatures({ AllAlpha: true, PodsAPI: false });
    expect(isEnabled(changed, 'MemoryQoS')).toBe(true);
    expect(isEnabled(changed, 'PodsAPI')).toBe(false);
  });

  it('treats names of the language as names', () => {
    expect(decideFeatures({ constructor: true }).error).toBe('unrecognized feature gate: constructor');
    expect(isEnabled({}, 'toString')).toBe(false);
  });
});

describe('the folder of pod logs', () => {
  it.each([
    ['a/b', ['must be absolute path']],
    ['../x', ['must be absolute path']],
    ['a//b', ['must be absolute path', 'must be normalized']],
    ['/a/../b', ['must be normalized']],
    ['/a/', ['must be normalized']],
    ['/', []],
  ])('%s of a drop-in: %j', (podLogsDir, reasons) => {
    const { resolution } = resolve([], files('', `podLogsDir: ${podLogsDir}\n`));
    const message = resolution.kind === 'failed' ? resolution.error : '';
    expect([...message.matchAll(/must be (?:absolute path|normalized)/g)].map(String)).toEqual(reasons);
  });
});

describe('precedence', () => {
  const given = files(
    'maxPods: 10\nkubeReserved: {cpu: 100m}\nregistryBurst: 0\n',
    'maxPods: 20\nkubeReserved: {memory: 1Gi}\n',
  );

  it('is flag, drop-in, file, default, and each value knows which', () => {
    const { line, resolution } = resolve(['--max-pods=30', '--v=3'], given);
    if (resolution.kind !== 'resolved') throw new Error(resolution.error);
    const values = valuesWithOrigin(resolution.configuration, line.given, given);
    const found = Object.fromEntries(values.map(({ path, value, origin }) => [path, [value, printOrigin(origin)]]));
    expect(found).toMatchObject({
      maxPods: [30, 'flag --max-pods'],
      'logging.verbosity': [3, 'flag --v'],
      'kubeReserved[memory]': ['1Gi', 'drop-in /etc/kubelet.d/0.conf'],
      'kubeReserved[cpu]': ['100m', 'file /etc/kubelet.yaml'],
      registryBurst: [10, 'default'],
      'authentication.webhook.cacheTTL': ['2m0s', 'default'],
    });
  });

  it('completes the thresholds of a file, and neither those of drop-ins nor the lack of a file', () => {
    const hard = ({ resolution }: ReturnType<typeof resolve>) =>
      resolution.kind === 'resolved' ? resolution.configuration.evictionHard : null;
    const drop = 'mergeDefaultEvictionSettings: true\nevictionHard: {pid.available: 5%}';
    expect(hard(resolve([], files('maxPods: 1', drop)))).toMatchObject({
      'memory.available': '100Mi',
      'pid.available': '5%',
    });
    expect(hard(resolve([], files('evictionHard: {memory.available: 1Gi}', drop)))).toEqual({
      'memory.available': '1Gi',
      'pid.available': '5%',
    });
    expect(hard(resolve([], files('maxPods: 1', 'evictionHard: null')))).toEqual({});
    const line = parseCommandLine(['--max-pods=1'], VERSION);
    if (line.kind !== 'run') throw new Error(line.kind);
    const alone = resolveConfiguration(line.flags, line.given, { file: null, dropIns: null }, HOST);
    expect(hard({ line, resolution: alone })).toEqual({});
  });

  it('adds --vmodule to what the file has', () => {
    const { resolution } = resolve(['--vmodule=b=2'], files('logging: {vmodule: [{filePattern: a, verbosity: 1}]}'));
    const logging = resolution.kind === 'resolved' ? resolution.configuration.logging : null;
    expect(logging?.vmodule.map(({ filePattern }) => filePattern)).toEqual(['a', 'b']);
  });

  it('takes a drop-in at its fields whatever their case, and a file never', () => {
    const { resolution } = resolve([], files('MaxPods: 5', 'ClusterDomain: a.b\nMAXPODS: 7\nLogging: {Verbosity: 3}'));
    if (resolution.kind !== 'resolved') throw new Error(resolution.error);
    const { clusterDomain, maxPods, logging } = resolution.configuration;
    expect({ clusterDomain, maxPods, verbosity: logging.verbosity }).toEqual({
      clusterDomain: 'a.b',
      // Values of the file and the defaults are in lower case in the origins, which come last.
      maxPods: 110,
      verbosity: 0,
    });
  });

  it('keeps a serving certificate that is named, and names one where none is', () => {
    const { resolution } = resolve([], files(''));
    expect(resolution).toMatchObject({ configuration: { tlsCertFile: '/var/lib/kubelet/pki/kubelet.crt' } });
  });
});

describe('what a document is', () => {
  const load = (text: string) => loadConfiguration('/f', decodeSource('/f', Buffer.from(text)), {});

  it('reads kind and apiVersion in any case, and then tells of names that are wrong', () => {
    const loaded = load('Kind: KubeletConfiguration\nAPIVERSION: kubelet.config.k8s.io/v1beta1\nmaxPods: 5\n');
    expect(loaded).toMatchObject({ kind: 'loaded', configuration: { maxPods: 5 } });
    expect(loaded.kind === 'loaded' && loaded.warnings.join()).toMatch(/unknown field \\"APIVERSION\\", unknown field/);
  });

  it('wants no apiVersion of a drop-in, and then does not know it', () => {
    const listing = {
      kind: 'files',
      files: [decodeSource('/d/a.conf', Buffer.from('kind: KubeletConfiguration'))],
    } as const;
    expect(mergeDropIns(flagDefaults({}), '/d', listing, {})).toMatchObject({
      error: expect.stringContaining(
        'path: /d/a.conf, unknown apiVersion/kind: /, Kind=KubeletConfiguration',
      ) as string,
    });
  });

  it.each([
    ['docker.io/library/busybox', null],
    ['quay.io/team/*', null],
    ['busybox', null],
    ['quay.io/a:1', 'neither tag nor digest is accepted in an image reference: quay.io/a:1'],
    ['quay.io/*/a', "not a valid wildcard pattern, only patterns ending with '/*' are allowed: quay.io/*/a"],
    ['/*', 'at least registry hostname is required'],
    ['', 'the supplied pattern is too short: '],
    [' a', 'leading/trailing spaces are not allowed:  a'],
    ['quay.io/A', 'failed to parse as an image name: invalid reference format: repository name (A) must be lowercase'],
  ])('judges %j among the images that are not verified', (pattern, why) => {
    const policy = 'imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages';
    const { resolution } = resolve(
      [],
      files(`${policy}\npreloadedImagesVerificationAllowlist: [${JSON.stringify(pattern)}]`),
    );
    const error = resolution.kind === 'failed' ? resolution.error : null;
    const prefix = 'invalid configuration: invalid image pattern in `preloadedImagesVerificationAllowlist`: ';
    const refusal = expect.stringContaining(`${prefix}${why}`) as string;
    expect(error).toEqual(why === null ? null : refusal);
  });
});

describe('secrets', () => {
  it('masks header values in the dump and in the origins', () => {
    const given = files('staticPodURLHeader: {Authorization: [Bearer canary-1]}\n');
    const { line, resolution } = resolve(['--manifest-url-header=X:canary-2'], given);
    if (resolution.kind !== 'resolved') throw new Error(resolution.error);
    const printed = JSON.stringify([
      toMasked(resolution.configuration),
      valuesWithOrigin(resolution.configuration, line.given, given),
    ]);
    expect(printed).not.toContain('canary');
    expect(printed).toContain('<masked>');
  });
});

/** Fields whose empty value is replaced by a default, and the gates, which have rules of their own. */
const UNSETTLED = ['evictionHard', 'enforceNodeAllocatable', 'featureGates'];
const settled = kubeletConfigurationType.fields.filter(({ name }) => !UNSETTLED.includes(name));

/** Values that decoding accepts. */
function arbitraryOf(type: FieldType): fc.Arbitrary<Json> {
  switch (type.kind) {
    case 'bool':
      return fc.boolean();
    case 'integer':
      return fc.integer({ min: Math.max(Number(type.least), -(2 ** 31)), max: 2 ** 31 - 1 });
    case 'float':
      return fc.double({ noNaN: true, noDefaultInfinity: true });
    case 'duration':
    case 'durationOrNumber':
      return fc.integer({ min: -1_000_000, max: 1_000_000 }).map((ms) => `${ms}ms`);
    case 'quantity':
      return fc.nat().map((number) => `${number}Ki`);
    case 'list':
      return fc.array(arbitraryOf(type.of), { maxLength: 3 });
    case 'map':
      return fc.dictionary(fc.string({ maxLength: 6 }), arbitraryOf(type.of), { maxKeys: 3 });
    case 'struct':
      return fc.record(Object.fromEntries(type.fields.map(({ name, type: of }) => [name, arbitraryOf(of)])), {
        requiredKeys: [],
      });
    default:
      return fc.string({ maxLength: 6 });
  }
}

describe('hostile input', () => {
  const base = readFileSync(new URL('../../golden/config/cases/base-running.json', import.meta.url), 'utf8');
  const yaml = String(JSON.parse(base).files['kubelet.yaml']);
  const names = kubeletConfigurationType.fields.map(({ name }) => name);
  const mutation = fc.record({
    at: fc.nat({ max: yaml.length }),
    remove: fc.nat({ max: 12 }),
    insert: fc.oneof(
      fc.constantFrom(
        '\n',
        '\t',
        '{',
        '[',
        ']',
        ': ',
        '- ',
        '&a',
        '*a',
        '!!int ',
        '"',
        "'",
        '|',
        '#',
        '<<: *a',
        '---',
        '\0',
      ),
      fc.string({ maxLength: 8 }),
      fc.constantFrom(...names).map((name) => `\n${name}: `),
    ),
  });

  it('answers 5,000 broken files with a configuration or a refusal', () => {
    fc.assert(
      fc.property(fc.array(mutation, { minLength: 1, maxLength: 4 }), (mutations) => {
        const text = mutations.reduce(
          (mutated, { at, remove, insert }) => mutated.slice(0, at) + insert + mutated.slice(at + remove),
          yaml,
        );
        const file = decodeSource('/etc/kubelet.yaml', Buffer.from(text));
        const { resolution } = resolve([], { file, dropIns: null });
        expect(resolution.kind === 'resolved' || resolution.lines.length > 0).toBe(true);
      }),
      { numRuns: 5_000 },
    );
  });

  it('defaults 2,000 documents of the right types to a fixed point', () => {
    const document = fc
      .subarray(settled, { maxLength: 10 })
      .chain((fields) => arbitraryOf({ ...kubeletConfigurationType, fields }));
    fc.assert(
      fc.property(document, (value) => {
        const text = JSON.stringify({ apiVersion: API_VERSION, kind: KIND, ...Object(value) });
        const loaded = loadConfiguration('/k', decodeSource('/k', Buffer.from(text)), {});
        if (loaded.kind !== 'loaded') throw new Error(JSON.stringify(loaded));
        const again = mergeDropIns(loaded.configuration, '/d', { kind: 'files', files: [] }, {});
        if (again.kind !== 'loaded') throw new Error(JSON.stringify(again));
        expect(toVersioned(again.configuration)).toEqual(toVersioned(loaded.configuration));
      }),
      { numRuns: 2_000 },
    );
  });

  it('answers 3,000 command lines of any shape', () => {
    const word = fc.oneof(
      fc.string({ maxLength: 12 }),
      fc
        .tuple(fc.constantFrom(...FLAGS.map(({ name }) => name)), fc.string({ maxLength: 12 }))
        .map(([name, value]) => `--${name}=${value}`),
      fc.constantFrom(
        ...FLAGS.map(({ name }) => `--${name}`),
        '-v',
        '-h',
        '--',
        '-',
        '--help',
        '--version',
        '-v=',
        '-hv',
      ),
    );
    fc.assert(
      fc.property(fc.array(word, { maxLength: 6 }), (argv) => {
        const line = parseCommandLine(argv, VERSION);
        expect(JSON.parse(JSON.stringify(line))).toEqual(line);
      }),
      { numRuns: 3_000 },
    );
  });
});
