/**
 * `/flagz` and `/statusz`: with which flags this process runs, and how long it has; for people, and versioned for
 * programs.
 */
import { stringify } from 'yaml';
import { formatDuration } from '../../../machines/startup/configuration/duration.ts';
import { mediaRanges } from '../http/accept.ts';
import type { Answer } from '../http/answer.ts';
import type { ApiRequest, Endpoint } from '../http/endpoint.ts';

const WARNING =
  'Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for ' +
  'debugging purposes only.';
const TYPES = ['application/json', 'application/yaml', 'text/plain'];
const GROUP = 'config.k8s.io';
const VERSIONS = ['v1beta1', 'v1alpha1'];
const NANOSECONDS = 1_000_000_000n;
const PATHS = ['/configz', '/debug', '/flagz', '/healthz', '/metrics'];

/** What `/statusz` tells of the program. */
export interface Program {
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  /** `1.36.2`. */
  readonly version: string;
}

export function flagzEndpoint(flags: () => Readonly<Record<string, string>>): Endpoint {
  return {
    path: '/flagz',
    methods: 'any',
    subresources: ['configz'],
    answer: (request) => {
      const lines = Object.entries(flags()).map(([name, value]) => `${name}:${value}\n`);
      const page = `\nkubelet flagz\n${WARNING}\n${lines.join('')}`;
      return negotiated(request, 'Flagz', page, () => ({ flags: flags() }));
    },
  };
}

export function statuszEndpoint({ startedAt, version }: Program): Endpoint {
  const emulation = version.split('.').slice(0, 2).join('.');
  const upSeconds = () => Math.floor((Date.now() - startedAt) / 1_000);
  return {
    path: '/statusz',
    methods: 'any',
    subresources: ['statusz'],
    answer: (request) => {
      const page = [
        `\nkubelet statusz\n${WARNING}\n`,
        `Started:  ${startedText(startedAt)}`,
        `Up:  ${formatDuration(BigInt(upSeconds()) * NANOSECONDS)}`,
        `Go version:  none, node ${process.version}`,
        `Binary version:  ${version}`,
        `Emulation version:  ${emulation}`,
        `Paths:  ${PATHS.join(' ')}\n\n`,
      ].join('\n');
      return negotiated(request, 'Statusz', page, () => ({
        startTime: new Date(startedAt).toISOString().replace(/\.\d+Z$/, 'Z'),
        uptimeSeconds: upSeconds(),
        goVersion: `none, node ${process.version}`,
        binaryVersion: version,
        emulationVersion: emulation,
        paths: PATHS,
      }));
    },
  };
}

/** `Sat Nov 21 07:50:50 UTC 2026`, as Go prints a Unix date. */
function startedText(ms: number): string {
  const [, day, date, month, year, time] = /^(\w+), (\d+) (\w+) (\d+) (\S+)/.exec(new Date(ms).toUTCString())!;
  return `${day} ${month} ${String(Number(date)).padStart(2)} ${time} UTC ${year}`;
}

function negotiated(request: ApiRequest, kind: string, page: string, fields: () => object): Answer {
  const { accept } = request.raw.headers;
  const ranges = accept === undefined || accept.trim() === '' ? [{ type: '*/*', parameters: {} }] : mediaRanges(accept);
  for (const { type, parameters } of ranges) {
    const isNamed = 'as' in parameters || 'v' in parameters || 'g' in parameters;
    if (!isNamed && ['text/plain', 'text/*', '*/*'].includes(type)) {
      return { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: page };
    }
    const { v = '', g, as } = parameters as { v?: string; g?: string; as?: string };
    if (g !== GROUP || as !== kind || !VERSIONS.includes(v)) continue;
    if (type === 'application/json' || type === 'application/yaml') return versioned(type, kind, v, fields());
  }
  return unacceptable(ranges);
}

function versioned(type: string, kind: string, version: string, fields: object): Answer {
  const value = { kind, apiVersion: `${GROUP}/${version}`, metadata: { name: 'kubelet' }, ...fields };
  const deprecation = `299 - "This version of the ${kind.toLowerCase()} endpoint is deprecated. Please use a newer version."`;
  const warning = version === 'v1alpha1' ? { warning: deprecation } : {};
  const headers = { 'content-type': `${type};g=${GROUP};v=${version};as=${kind}`, ...warning };
  return { status: 200, headers, body: encoded(type, value) };
}

/** In the first form that was asked for and that exists; indented JSON for those who asked for none. */
function unacceptable(ranges: readonly { readonly type: string; readonly parameters: object }[]): Answer {
  const value = {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: `only the following media types are accepted: ${TYPES.join(', ')}`,
    reason: 'NotAcceptable',
    code: 406,
  };
  const plain = ranges.find(({ type, parameters }) => TYPES.includes(type) && Object.keys(parameters).length === 0);
  const type = plain?.type === 'application/yaml' ? plain.type : 'application/json';
  const body = plain ? encoded(type, value) : JSON.stringify(value, null, 2);
  return { status: 406, headers: { 'content-type': type }, body };
}

function encoded(type: string, value: object): string {
  if (type === 'application/json') return `${JSON.stringify(value)}\n`;
  return stringify(value, { sortMapEntries: true, indentSeq: false, singleQuote: true });
}
