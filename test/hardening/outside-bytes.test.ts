/**
 * The time for bytes from outside is linear in their number. Each row is a place where the agent reads them, and an
 * input that was expensive there, or easily could be. Four times the input takes four times as long if the cost is
 * linear and sixteen times if it is quadratic; garbage collection and caches cause values between.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { decodeSource } from '../../src/actors/host/configuration/configuration.ts';
import { decodeDocument } from '../../src/actors/host/manifests/document.ts';
import { dockerConfigJson, matches, parseRegistryUrl } from '../../src/actors/image/keyring.ts';
import { parseExactly } from '../../src/actors/kube/decode.ts';
import { nodeLogEndpoints } from '../../src/actors/server/endpoints/node-logs.ts';
import { type ApiRequest, mediaRanges, prefersGzip, takesOneOf } from '../../src/actors/server/http/endpoint.ts';
import { answerMalformed, queryOf, targetOf } from '../../src/actors/server/http/requests.ts';
import { parseCriLine } from '../../src/actors/server/logs/log-file.ts';
import { nodeLogQuery, patternProblem } from '../../src/actors/server/logs/node-log-query.ts';
import { parsePorts } from '../../src/actors/server/streaming/tunnel.ts';
import { FrameReader, headersOf, uint32 } from '../../src/actors/spdy/frames.ts';
import { valueInEnvFile } from '../../src/actors/volume/variables.ts';
import { parseLine } from '../../src/kernel/journal/line.ts';
import { readCsvRecord } from '../../src/machines/configuration/flags/flag-values.ts';
import { versionError } from '../../src/machines/configuration/flags/flags.ts';
import { deviceHealth, holdingOf } from '../../src/machines/model/allocation/device-state.ts';
import { pemBlocks } from '../../src/machines/model/objects/trust-anchors.ts';
import { expand } from '../../src/machines/model/spec/expansion.ts';
import { parseImage } from '../../src/machines/model/spec/image.ts';
import { validatePod } from '../../src/machines/model/validation/pod.ts';
import { parseDecimal } from '../../src/machines/model/values/go-text.ts';
import { decodeJson } from '../../src/machines/model/values/json-document.ts';
import { parseQuantity } from '../../src/machines/model/values/quantity.ts';
import { parseDuration } from '../../src/machines/model/values/time.ts';

/** Reads an input; only the duration counts, not the result or error. */
type Read = (input: string) => unknown;

const logs = mkdtempSync(join(tmpdir(), 'statelet-outside-'));
mkdirSync(join(logs, 'folder'));
writeFileSync(join(logs, 'file'), 'text');
afterAll(() => rmSync(logs, { recursive: true }));

const [, logFiles] = nodeLogEndpoints({ directory: logs, podLogsDir: logs, isQueryEnabled: false });

async function logFile(path: string, range: string): Promise<void> {
  const raw = { headers: { range }, rawHeaders: ['range', range], method: 'GET' } as unknown as IncomingMessage;
  const answer = await logFiles!.answer({ path, search: '', raw } as ApiRequest);
  if (typeof answer.body === 'object' && 'destroy' in answer.body) answer.body.destroy();
}

/** Gives the frame's bytes one by one, as a slow sender does. */
function frames(input: string): void {
  const reader = new FrameReader();
  const head = Buffer.concat([Buffer.from([0x80, 0x03, 0, 1]), uint32(input.length + 10), Buffer.alloc(10)]);
  for (const byte of Buffer.concat([head, Buffer.from(input)])) {
    reader.push(Buffer.from([byte]));
    reader.next();
  }
}

/** Headers with different names; their number is proportional to the length. */
const manyHeaders = (size: number): string => list(size / 10, (at) => `h${at}: \r\n`).join('');

function unknownMethod(headers: string): void {
  const error = Object.assign(new Error(), {
    code: 'HPE_INVALID_METHOD',
    rawPacket: Buffer.from(`FOO / HTTP/1.1\r\n${headers}\r\n`),
  });
  answerMalformed(error, new Socket(), () => {});
}

/** Validates as the API server does for a new pod. */
const validated: Read = (text) => validatePod(JSON.parse(text));

const yaml = (text: string) => decodeDocument(Buffer.from(text));
const configuration = (text: string) => decodeSource('/c.yaml', Buffer.from(text));
const asked = (name: string) => (text: string) => nodeLogQuery(new Map([[name, [text]]]), logs);

/** A pod that holds all devices of a plugin. */
const held: Read = (text) => {
  const ids = text.split(',');
  const offer = { devices: ids.map((id) => ({ id, isHealthy: true, nodes: [0] })), prefers: false };
  return deviceHealth({ c: { 'example.test/d': holdingOf(ids, offer) } }, { 'example.test/d': offer });
};

const ROWS: readonly (readonly [place: string, input: (size: number) => string, read: Read])[] = [
  ['a target of slashes', (n) => `/exec/${'%2F'.repeat(n)}x`, targetOf],
  ['a target of dots', (n) => `/${'../'.repeat(n)}x`, targetOf],
  ['a target in absolute form', (n) => `http://${'a'.repeat(n)}#`, targetOf],
  ['a target of escapes', (n) => `/${'%ff'.repeat(n)}%`, targetOf],
  ['headers of a method that HTTP does not have', manyHeaders, unknownMethod],
  ['a query of one name', (n) => 'a&'.repeat(n), queryOf],
  ['a query of many names', (n) => Array.from({ length: n }, (_, at) => `k${at}=v`).join('&'), queryOf],
  ['Accept of spaces', (n) => `a${' '.repeat(n)}b`, (text) => takesOneOf(text, ['text/plain'])],
  ['Accept of ranges', (n) => 'a/b;q=0.5,'.repeat(n), mediaRanges],
  ['Accept of parameters', (n) => `a/b${';x=1'.repeat(n)}`, mediaRanges],
  ['Accept-Encoding', (n) => 'gzip;q=0.1,'.repeat(n), prefersGzip],
  ['Range of empty ranges', (n) => `bytes=0-0${',  '.repeat(n)}x`, (text) => logFile('/logs/file', text)],
  ['Range of digits', (n) => `bytes=0-${'0'.repeat(n)}x`, (text) => logFile('/logs/file', text)],
  ['a log file of slashes', (n) => `/logs/${'/'.repeat(n)}x`, (text) => logFile(text, '')],
  ['a pattern of brackets', (n) => '['.repeat(n), patternProblem],
  ['a pattern of groups', (n) => '(?i'.repeat(n), patternProblem],
  ['a pattern in a query', (n) => '[a-z]*'.repeat(n), asked('pattern')],
  ['names in a query', (n) => 'a/'.repeat(n), asked('query')],
  ['a time in a query', (n) => `2020-01-01T00:00:00.${'0'.repeat(n)}1Z`, asked('untilTime')],
  ['lines in a query', (n) => '9'.repeat(n), asked('tailLines')],
  ['ports to forward', (n) => '80,'.repeat(n), (text) => parsePorts([text])],
  ['a SPDY frame byte by byte', (n) => 'x'.repeat(Math.floor(n / 2)), frames],
  ['a SPDY header block', (n) => '\0'.repeat(8 * n), (text) => headersOf(Buffer.from(text.replace('\0', '\x7f')))],
  [
    'a line of a container log',
    (n) => `2020-01-01T00:00:00.${'1'.repeat(n)}Z stdout F x`,
    (t) => parseCriLine(Buffer.from(t)),
  ],
  ['a line of a journal', (n) => `01234567 {"a":${'['.repeat(n)}`, (text) => parseLine(Buffer.from(text))],
  ['nested JSON', (n) => '['.repeat(n), decodeJson],
  ['JSON of spaces', (n) => `{${' '.repeat(n)}`, decodeJson],
  ['an answer of digits', (n) => `{"a":${'1'.repeat(n)}}`, parseExactly],
  ['an answer of many numbers', (n) => `[${'12345678901234567,'.repeat(n)}1]`, parseExactly],
  ['a manifest of keys', (n) => Array.from({ length: n / 10 }, (_, at) => `k${at}: 1`).join('\n'), yaml],
  ['a manifest of brackets', (n) => '['.repeat(n), yaml],
  ['a manifest of dashes', (n) => '- '.repeat(n), yaml],
  ['a manifest of quotes', (n) => `a: "${'\\'.repeat(n)}`, yaml],
  ['a configuration of keys', (n) => Array.from({ length: n / 10 }, (_, at) => `k${at}: 1`).join('\n'), configuration],
  ['a configuration of lines', (n) => `a: b\n${'\n'.repeat(n)}c`, configuration],
  ['mounts of a pod', (n) => JSON.stringify(mountsOf(n / 2)), validated],
  ['files of a projected volume', (n) => JSON.stringify(projectedFiles(n / 2)), validated],
  ['resize policies', (n) => JSON.stringify(resizePolicies(n / 2)), validated],
  ['devices of a plugin', (n) => list(n, (at) => `GPU-0000-${at}`).join(), held],
  ['references', (n) => '$('.repeat(n), (text) => expand(text, () => undefined)],
  ['an image of dashes', (n) => `a${'-'.repeat(n)}_/`, parseImage],
  ['an image of colons', (n) => `a${':5'.repeat(n)}`, parseImage],
  ['a quantity of digits', (n) => '1'.repeat(n), parseQuantity],
  ['a quantity of decimals', (n) => `1.${'1'.repeat(n)}x`, parseQuantity],
  ['a duration', (n) => '1h'.repeat(n), parseDuration],
  ['a duration of digits', (n) => `${'1'.repeat(n)}x`, parseDuration],
  ['a decimal', (n) => '1'.repeat(n), parseDecimal],
  ['a version', (n) => `v${'1.'.repeat(n)}`, (text) => versionError(text, 'v1.36.2')],
  ['a list by commas', (n) => `"${'""'.repeat(n)}`, readCsvRecord],
  ['a file of variables', (n) => `${' '.repeat(n)}A=${'"'.repeat(n)}`, (text) => valueInEnvFile(text, 'A')],
  ['certificates', (n) => '-----BEGIN CERTIFICATE-----\n'.repeat(n / 10), pemBlocks],
  ['a registry of an image', (n) => `${'a.'.repeat(n)}/x`, parseRegistryUrl],
  [
    'a pattern of a registry',
    (n) => `${'*'.repeat(Math.min(n, 40))}.io`,
    (text) => matches(text, `${'a'.repeat(40)}.com/x`),
  ],
  [
    'stars between letters in a pattern of a registry',
    (n) => `${'*a'.repeat(n)}b.io`,
    (text) => matches(text, `${'a'.repeat(60)}.io/x`),
  ],
  ['logins', (n) => `{"auths":{"${'a/'.repeat(n)}":{"auth":"YTpi"}}}`, dockerConfigJson],
];

const list = <Item>(length: number, item: (at: number) => Item): Item[] => Array.from({ length }, (_, at) => item(at));
const podOf = (container: object, volumes: readonly object[] = []) => ({
  metadata: { name: 'a', namespace: 'b', uid: 'c' },
  spec: { containers: [{ name: 'c', image: 'i', ...container }], volumes },
});

function mountsOf(mounts: number) {
  const volumes = list(mounts, (at) => ({ name: `v${at}`, emptyDir: {} }));
  return podOf({ volumeMounts: list(mounts, (at) => ({ name: `v${at}`, mountPath: `/m${at}` })) }, volumes);
}

function projectedFiles(files: number) {
  const items = list(files, (at) => ({ key: 'k', path: `f${at}` }));
  return podOf({}, [{ name: 'v', projected: { sources: [{ configMap: { name: 'm', items } }] } }]);
}

const resizePolicies = (policies: number) =>
  podOf({ resizePolicy: list(policies, (at) => ({ resourceName: `r${at}`, restartPolicy: 'NotRequired' })) });

const SIZE = 10_000;
/**
 * Four times the input separates a quadratic reader, 16 times as slow, from the noise of a machine more clearly than
 * twice.
 */
const TIMES = 4;
const FACTOR_MAX = 13;
/** Shorter durations are not compared: four times as much of them is noise. */
const NOTHING_MS = 4;
/** The clock of a thread's CPU is coarse: a fast reader seems to take no time. */
const CLOCK_MS = NOTHING_MS / TIMES;
/** A reader that V8 has not compiled yet is slow for small inputs, and would seem fast for large ones. */
const WARM_GOES = 5;
const GOES_MIN = 5;
const GOES_MAX = 500;
/** Of several runs the fastest shows the cost of the work; the rest is caused by the machine. */
const GOES_MS = 8_000;

/**
 * The CPU time of this thread, which other work on the machine does not change; for a reader elsewhere the wall-clock
 * time.
 */
async function durationMs(read: Read, input: string): Promise<number> {
  const begin = performance.now();
  const cpu = process.threadCpuUsage();
  let isElsewhere = false;
  try {
    const answer: unknown = read(input);
    isElsewhere = answer instanceof Promise;
    await answer;
  } catch {
    // An error is a result like any other.
  }
  const { user, system } = process.threadCpuUsage(cpu);
  return isElsewhere ? performance.now() - begin : (user + system) / 1_000;
}

/** The factor by which more input takes longer, the best of several runs; 1 if it takes nearly no time. */
async function growth(input: (size: number) => string, read: Read): Promise<number> {
  const [little, much] = [input(SIZE), input(TIMES * SIZE)];
  for (let go = 0; go < WARM_GOES; go++) await durationMs(read, little);
  const begin = process.threadCpuUsage();
  const spentMs = () => process.threadCpuUsage(begin).user / 1_000;
  let [least, leastMuch] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let go = 1; go <= GOES_MAX && spentMs() < GOES_MS; go++) {
    least = Math.min(least, Math.max(await durationMs(read, little), CLOCK_MS));
    leastMuch = Math.min(leastMuch, await durationMs(read, much));
    if (leastMuch < NOTHING_MS) return 1;
    if (go >= GOES_MIN && leastMuch / least <= FACTOR_MAX) break;
  }
  return leastMuch / least;
}

describe('four times the input takes at most 13 times as long', () => {
  it.each(ROWS)('%s', async (_, input, read) => {
    expect(await growth(input, read)).toBeLessThanOrEqual(FACTOR_MAX);
  });

  it('is what an expensive reader fails', async () => {
    const quadratic = (text: string) => {
      let sum = 0;
      for (let one = 0; one < text.length; one += 40) for (let other = 0; other < text.length; other++) sum += other;
      return sum;
    };
    expect(await growth((size) => 'a'.repeat(size), quadratic)).toBeGreaterThan(FACTOR_MAX);
  });
});
