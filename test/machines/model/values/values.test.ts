/** Tables and properties for durations, quantities, CPU sets, addresses and paths. */
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { versionError } from '../../../../src/machines/configuration/flags/flags.ts';
import { formatCpuSet, parseCpuSet } from '../../../../src/machines/model/values/cpu-set.ts';
import { quote } from '../../../../src/machines/model/values/go-text.ts';
import { isIpAddress, parseIp } from '../../../../src/machines/model/values/ip.ts';
import { cleanPath, directoryOf, joinPath, parseEndpoint } from '../../../../src/machines/model/values/paths.ts';
import {
  formatQuantity,
  milliUnits,
  parseQuantity,
  wholeUnits,
} from '../../../../src/machines/model/values/quantity.ts';
import { valueIn } from '../../../../src/machines/model/values/tables.ts';
import { formatDuration, millisecondsOf, parseDuration } from '../../../../src/machines/model/values/time.ts';

describe('tables', () => {
  it('have their own keys, and not what every object has', () => {
    expect(valueIn({ a: 1 }, 'a')).toBe(1);
    expect(['constructor', 'toString', '__proto__', 'b'].map((key) => valueIn({ a: 1 }, key))).toEqual(
      Array(4).fill(undefined),
    );
    expect(valueIn(JSON.parse('{"__proto__": 2, "constructor": 3}'), '__proto__')).toBe(2);
    expect([valueIn(null, 'a'), valueIn(undefined, 'a')]).toEqual([undefined, undefined]);
  });
});

describe('endpoints', () => {
  it.each([
    ['/run/x.sock', '/run/x.sock'],
    ['unix:///run/x.sock', '/run/x.sock'],
    ['unix:/run/x.sock', '/run/x.sock'],
    ['UNIX:///run/x.sock', '/run/x.sock'],
    ['unix://host/run/x.sock', '/run/x.sock'],
    ['unix:///run/x.sock?a#b', '/run/x.sock'],
    ['unix://x.sock', ''],
    ['unix:x.sock', ''],
    ['x.sock', ''],
  ])('%s is the socket %j', (endpoint, path) => {
    expect(parseEndpoint(endpoint)).toEqual({ path });
  });

  it.each([
    ['tcp://127.0.0.1:1', 'only support unix socket endpoint'],
    ['HTTP:foo', 'protocol "http" not supported'],
    ['npipe:////./pipe/x', 'protocol "npipe" not supported'],
    ['localhost:1', 'protocol "localhost" not supported'],
  ])('%s: %s', (endpoint, error) => {
    expect(parseEndpoint(endpoint)).toEqual({ error });
  });
});

describe('versions', () => {
  const mismatch = (text: string) => `version "${text}" must match major/minor/patch of default version "v1.36.2"`;
  it.each([
    ['v1.36.2', null],
    ['v1.36.2-rc.1', null],
    ['v1.36.2+x', null],
    ['v1.36.2-rc.1+x.2', null],
    ['v1.36.3', mismatch('v1.36.3')],
    ['v1.36.20', mismatch('v1.36.20')],
    ['vfoo', 'could not parse "vfoo" as version'],
    ['v1.36', 'illegal version string "v1.36"'],
    ['v1.036.2', 'illegal zero-prefixed version component "036" in "v1.036.2"'],
    ['v1.36.2-01', 'illegal zero-prefixed version component "01" in "v1.36.2-01"'],
    ['v1.36.2_x', 'could not parse pre-release/metadata (_x) in version "v1.36.2_x"'],
  ])('%s: %s', (text, error) => {
    expect(versionError(text, 'v1.36.2')).toBe(error);
  });
});

describe('durations', () => {
  it.each([
    ['1.5h', '1h30m0s'],
    ['90s', '1m30s'],
    ['1h1ns', '1h0m0.000000001s'],
    ['-0.5us', '-500ns'],
    ['.5ms', '500µs'],
    ['1500µs', '1.5ms'],
    ['+2h45m', '2h45m0s'],
    ['0', '0s'],
  ])('%s is %s', (text, canonical) => {
    const parsed = parseDuration(text);
    expect(parsed.error === undefined ? formatDuration(parsed.value) : parsed.error).toBe(canonical);
  });

  it.each(['', '-', '.', '1h.s', 'h', '9223372036854775808ns', '1h 2m'])('refuses %j', (text) => {
    expect(parseDuration(text).error).toMatch(/^time: (invalid duration|unknown unit|missing unit)/);
  });

  it('writes every duration so that it reads the same', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 63n) + 1n, max: 2n ** 63n - 1n }), (nanoseconds) => {
        expect(parseDuration(formatDuration(nanoseconds))).toEqual({ value: nanoseconds });
      }),
    );
  });

  it('gives milliseconds for timers', () => {
    expect(millisecondsOf('1m30s')).toBe(90_000);
    expect(millisecondsOf('500µs')).toBe(0.5);
  });
});

describe('quantities', () => {
  it.each([
    ['100Mi', '100Mi'],
    ['1024Mi', '1Gi'],
    ['0.5', '500m'],
    ['1.5Gi', '1536Mi'],
    ['1000', '1k'],
    ['1e3', '1e3'],
    ['12E', '12E'],
    ['0.1Ki', '102400m'],
    ['-1Gi', '-1Gi'],
    ['0.0000000001', '1n'],
    ['0', '0'],
    ['512', '512'],
    ['.', '0'],
    ['Mi', '0'],
    ['.5Gi', '512Mi'],
    ['1e-40', '1e-9'],
    ['100000Ei', '9223372036854775807'],
  ])('%s is %s', (text, canonical) => {
    const parsed = parseQuantity(text);
    expect(parsed.error === undefined ? formatQuantity(parsed.value) : parsed.error).toBe(canonical);
  });

  it.each(['', 'ten', '1.2.3', '10MI', '1 Gi', '1GB'])('refuses %j', (text) => {
    expect(parseQuantity(text).error).toMatch(/^quantities must match/);
  });

  it.each(['--1', '1e', '1K', '500mi', '1MiM'])('refuses the suffix of %j', (text) => {
    expect(parseQuantity(text).error).toBe("unable to parse quantity's suffix");
  });

  it('rounds up, as the scheduler counts', () => {
    const parsed = parseQuantity('1500u');
    expect(parsed.error === undefined && [wholeUnits(parsed.value.nano), milliUnits(parsed.value.nano)]).toEqual([
      1n,
      2n,
    ]);
  });

  it('writes every quantity so that it reads the same', () => {
    const suffix = fc.constantFrom('', 'm', 'k', 'M', 'G', 'Ki', 'Mi', 'Gi', 'e3');
    fc.assert(
      fc.property(fc.integer({ min: -1_000_000, max: 1_000_000 }), suffix, (number, unit) => {
        const first = parseQuantity(`${number}${unit}`);
        if (first.error !== undefined) throw new Error(first.error);
        const second = parseQuantity(formatQuantity(first.value));
        expect(second.error === undefined && second.value.nano).toBe(first.value.nano);
      }),
    );
  });
});

describe('CPU sets', () => {
  it.each([
    ['', [], ''],
    ['0-3,8', [0, 1, 2, 3, 8], '0-3,8'],
    ['3,1,2,1', [1, 2, 3], '1-3'],
  ])('%j', (text, cpus, canonical) => {
    expect(parseCpuSet(text)).toEqual({ value: cpus });
    expect(formatCpuSet(cpus)).toBe(canonical);
  });

  it.each([
    ['5-1', 'invalid range "5-1" (5 > 1)'],
    ['0-9999999', 'CPU 9999999 is beyond the largest supported CPU 65535'],
    ['1-2-3', 'strconv.Atoi: parsing "2-3": invalid syntax'],
  ])('refuses %s', (text, error) => {
    expect(parseCpuSet(text)).toEqual({ error });
  });
});

describe('addresses', () => {
  it.each(['1.2.3.4', '192.000.002.010', '::', '::1', '2001:db8::10', '::ffff:192.0.2.10', '1:2:3:4:5:6:7:8'])(
    'reads %s',
    (text) => {
      expect(isIpAddress(text)).toBe(true);
    },
  );

  it.each(['', 'abc', '1.2.3', '1.2.3.256', '1:2:3', ':::', '1::2::3', 'fe80::1%eth0', '1.2.3.4/24', '12345::'])(
    'refuses %j',
    (text) => {
      expect(isIpAddress(text)).toBe(false);
    },
  );

  it('knows a mapped address as IPv4', () => {
    expect(parseIp('::ffff:192.0.2.10')).toEqual(parseIp('192.0.2.10'));
  });
});

describe('paths', () => {
  it.each([
    ['/a/../b//c/.', '/b/c'],
    ['/..', '/'],
    ['a/..', '.'],
    ['../a', '../a'],
    ['', '.'],
  ])('cleans %j', (path, clean) => {
    expect(cleanPath(path)).toBe(clean);
  });

  it('joins and takes apart like filepath', () => {
    expect(joinPath('', 'kubelet.crt')).toBe('kubelet.crt');
    expect(joinPath('/etc/kubelet', '../ca.crt')).toBe('/etc/ca.crt');
    expect(directoryOf('/etc/kubelet/k.yaml')).toBe('/etc/kubelet');
  });
});

describe('quoting', () => {
  it.each([
    ['a"b\\c', '"a\\"b\\\\c"'],
    ['tab\tnul\0', '"tab\\tnul\\x00"'],
    ['500µs ü 語', '"500µs ü 語"'],
    ['\u00a0\u{e0001}', '"\\u00a0\\U000e0001"'],
  ])('%j', (text, quoted) => {
    expect(quote(text)).toBe(quoted);
  });
});
