/** Tables for the spelling of flags, beyond the corpus, and for the texts about them. */
import { describe, expect, it } from 'vitest';
import { FLAGS } from '../../../../src/machines/configuration/flags/flag-table.ts';
import { parseCommandLine } from '../../../../src/machines/configuration/flags/flags.ts';

const VERSION = { version: 'v1.36.2+statelet.0.1.0', raw: 'raw version' };

function run(...argv: string[]) {
  const line = parseCommandLine(argv, VERSION);
  if (line.kind !== 'run') throw new Error(`not a run: ${JSON.stringify(line)}`);
  return line;
}

function error(...argv: string[]) {
  const line = parseCommandLine(argv, VERSION);
  return line.kind === 'error' ? { error: line.error, hint: line.hint } : { error: null, hint: null };
}

describe('values', () => {
  it.each([
    [['--max-pods', '20'], 'max-pods', 20],
    [['--max-pods=0x10'], 'max-pods', 16],
    [['--max_pods=1_0'], 'max-pods', 10],
    [['-v', '4'], 'v', 4],
    [['-v4'], 'v', 4],
    [['-v=4'], 'v', 4],
    [['--cluster-dns=1.1.1.1,2.2.2.2', '--cluster-dns=3.3.3.3'], 'cluster-dns', ['1.1.1.1', '2.2.2.2', '3.3.3.3']],
    [['--allowed-unsafe-sysctls="a,b",c'], 'allowed-unsafe-sysctls', ['a,b', 'c']],
    [['--manifest-url-header=a:1,a:2,b:3'], 'manifest-url-header', { a: ['1', '2'], b: ['3'] }],
    [['--sync-frequency=1.5h'], 'sync-frequency', '1h30m0s'],
    [['--housekeeping-interval=90s'], 'housekeeping-interval', '1m30s'],
    [
      ['--reserved-memory=0:memory=1024Mi;1:memory=1Gi'],
      'reserved-memory',
      [
        { numaNode: 0, limits: { memory: '1Gi' } },
        { numaNode: 1, limits: { memory: '1Gi' } },
      ],
    ],
    [
      ['--vmodule=a=1,,b=2'],
      'vmodule',
      [
        { filePattern: 'a', verbosity: 1 },
        { filePattern: 'b', verbosity: 2 },
      ],
    ],
    [['--log-text-info-buffer-size=2048Ki'], 'log-text-info-buffer-size', '2Mi'],
    [
      ['--vmodule=a=1', '--vmodule=b=2'],
      'vmodule',
      [
        { filePattern: 'a', verbosity: 1 },
        { filePattern: 'b', verbosity: 2 },
      ],
    ],
    [['--cluster-dns="a""b",c\nd'], 'cluster-dns', ['a"b', 'c']],
  ] as const)('%j', (argv, name, value) => {
    expect(run(...argv).given[name]).toEqual(value);
  });

  it.each(['address', 'healthz-bind-address', 'reserved-memory'])(
    'leaves things as they are by an empty --%s',
    (name) => {
      expect(run(`--${name}=`).given).not.toHaveProperty(name);
    },
  );

  it('takes a switch alone and never its neighbour', () => {
    expect(error('--register-node', 'false').error).toBe('unknown command false');
    expect(run('--register-node').given['register-node']).toBe(true);
  });

  it('keeps the own flags of a node apart, with their defaults', () => {
    const { flags } = run('--root-dir=/r', '--node-labels=a=b,c');
    expect(flags).toMatchObject({ rootDir: '/r', certDir: '/var/lib/kubelet/pki', nodeLabels: { a: 'b', c: '' } });
    expect(flags).toMatchObject({ maximumDeadContainersPerContainer: 1, housekeepingInterval: '10s', kubeconfig: '' });
  });
});

describe('refusals', () => {
  it.each([
    [['--max-pods'], 'flag needs an argument: --max-pods'],
    [['-v'], "flag needs an argument: 'v' in -v"],
    [['-hx'], "unknown shorthand flag: 'x' in -x"],
    [['--v=-1'], 'invalid argument "-1" for "-v, --v" flag: strconv.ParseUint: parsing "-1": invalid syntax'],
    [
      ['--feature-gates=A=maybe'],
      'invalid argument "A=maybe" for "--feature-gates" flag: invalid value of A: maybe, ' +
        'err: strconv.ParseBool: parsing "maybe": invalid syntax',
    ],
    [
      ['--sync-frequency=1x'],
      'invalid argument "1x" for "--sync-frequency" flag: time: unknown unit "x" in duration "1x"',
    ],
    [
      ['--address=1.2.3.256'],
      'invalid argument "1.2.3.256" for "--address" flag: "1.2.3.256" is not a valid IP address',
    ],
    [['--boot-id-file'], 'flag needs an argument: --boot-id-file'],
    [['--storage-driver-secure=maybe'], 'invalid argument "maybe" for "--storage-driver-secure" flag: parse error'],
    [
      ['--reserved-memory=x:memory=1'],
      'invalid argument "x:memory=1" for "--reserved-memory" flag: failed to convert the NUMA node ID, ' +
        'expected integer, got x',
    ],
    [
      ['--reserved-memory=', '--reserved-memory=1:memory=1'],
      'invalid argument "1:memory=1" for "--reserved-memory" flag: no target (nil pointer to *[]MemoryReservation)',
    ],
    [['-é'], "unknown shorthand flag: 'Ã' in -é"],
    [
      ['--reserved-memory=0:cpu=1'],
      'invalid argument "0:cpu=1" for "--reserved-memory" flag: memory type conversion error, unknown type: "cpu"',
    ],
    [
      ['--v=3000000000'],
      'invalid argument "3000000000" for "-v, --v" flag: strconv.ParseUint: parsing "3000000000": value out of range',
    ],
    [
      ['--vmodule=a=-1'],
      'invalid argument "a=-1" for "--vmodule" flag: parsing verbosity in "a=-1": ' +
        'strconv.ParseUint: parsing "-1": invalid syntax',
    ],
    [
      ['--max-pods=99999999999999999999x'],
      'invalid argument "99999999999999999999x" for "--max-pods" flag: ' +
        'strconv.ParseInt: parsing "99999999999999999999x": value out of range',
    ],
    [
      ['--sync-frequency=5é'],
      'invalid argument "5é" for "--sync-frequency" flag: ' +
        String.raw`time: unknown unit "\xc3\xa9" in duration "5\xc3\xa9"`,
    ],
    [
      ['--application-metrics-count-limit=99999999999999999999'],
      'invalid argument "99999999999999999999" for "--application-metrics-count-limit" flag: value out of range',
    ],
    [
      ['--cluster-dns=a"b'],
      String.raw`invalid argument "a\"b" for "--cluster-dns" flag: ` +
        'parse error on line 1, column 2: bare " in non-quoted-field',
    ],
    [
      ['--cluster-dns=a,"b'],
      String.raw`invalid argument "a,\"b" for "--cluster-dns" flag: ` +
        'parse error on line 1, column 5: extraneous or missing " in quoted-field',
    ],
    [['--cluster-dns=\n'], String.raw`invalid argument "\n" for "--cluster-dns" flag: EOF`],
    [
      ['--log-text-info-buffer-size=1K'],
      'invalid argument "1K" for "--log-text-info-buffer-size" flag: unable to parse quantity\'s suffix',
    ],
  ])('%j', (argv, text) => {
    expect(error(...argv).error).toBe(`failed to parse kubelet flag: ${text}`);
  });

  it('names the replacement of a flag that was removed', () => {
    const { error: text, hint } = error('--container_runtime=docker');
    expect(text).toBe('failed to parse kubelet flag: unknown flag: --container_runtime');
    expect(hint).toContain('use --container-runtime-endpoint');
    expect(error('--no-such').hint).toBeNull();
  });

  it('tells of deprecated flags that came before the refusal', () => {
    const line = parseCommandLine(['--max-pods=1', '--nope'], VERSION);
    expect(line.notes).toEqual([expect.stringMatching(/^Flag --max-pods has been deprecated, This parameter/)]);
  });
});

describe('help and version', () => {
  it('lists every flag once, with type and default', () => {
    const line = parseCommandLine(['--help'], VERSION);
    const text = line.kind === 'help' ? line.text : '';
    for (const { name } of FLAGS) expect(text.match(new RegExp(`^(  -.,|     ) --${name}( |$)`, 'gm'))).toHaveLength(1);
    expect(text).toMatch(/^ {6}--max-pods int32 .*\(default 110\) \(DEPRECATED: This parameter/m);
    expect(text).toMatch(/^ {6}--authorization-mode string .*\(default "AlwaysAllow"\)/m);
    expect(text).toMatch(/^ {16}ContainerCheckpoint=true\|false \(BETA - default=true\)$/m);
  });

  it('prints the version that the product gives it', () => {
    const line = parseCommandLine(['--version'], VERSION);
    expect(line).toMatchObject({ kind: 'version', text: 'Kubernetes v1.36.2+statelet.0.1.0' });
    expect(parseCommandLine(['--version=raw'], VERSION)).toMatchObject({ text: 'raw version' });
    expect(parseCommandLine(['--version=v1.36.2-rc.1'], VERSION)).toMatchObject({ kind: 'run' });
    expect(parseCommandLine(['--version=vfoo'], VERSION)).toMatchObject({
      error:
        'failed to parse kubelet flag: invalid argument "vfoo" for "--version" flag: could not parse "vfoo" as version',
    });
  });
});
