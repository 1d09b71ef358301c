/** `/flagz` and `/statusz`: the flags and the uptime of this process, as text and in versioned formats. */
import { stringify } from 'yaml';
import { parseBool } from '../../../machines/model/values/go-text.ts';
import type { Answer, ApiRequest, Endpoint } from '../http/endpoint.ts';
import { covers, first, firstHeader, mediaRanges } from '../http/endpoint.ts';

const WARNING =
  'Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for ' +
  'debugging purposes only.';
const GROUP = 'config.k8s.io';
const VERSIONS = ['v1beta1', 'v1alpha1'];
const PATHS = ['/configz', '/debug', '/flagz', '/healthz', '/metrics'];

/** The content of `/statusz`. */
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
        `Up:  ${upText(upSeconds())}`,
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
  const [weekday = '', date, month, year, time] = new Date(ms).toUTCString().split(' ');
  const day = weekday.replace(',', '');
  return `${day} ${month} ${String(Number(date)).padStart(2)} ${time} UTC ${year}`;
}

/** `0 hr 01 min 53 sec`. */
function upText(seconds: number): string {
  const twoDigits = (value: number): string => String(Math.floor(value)).padStart(2, '0');
  return `${Math.floor(seconds / 3_600)} hr ${twoDigits((seconds % 3_600) / 60)} min ${twoDigits(seconds % 60)} sec`;
}

type Form = readonly [type: string, subtype: string];
type Parameters = Readonly<Record<string, string>>;

const JSON_FORM: Form = ['application', 'json'];
const TEXT_FORM: Form = ['text', 'plain'];
/** In upstream's order: the first format covered by a range of the header is used. */
const FORMS: readonly Form[] = [JSON_FORM, ['application', 'yaml'], TEXT_FORM];

const isNamed = (parameters: Parameters): boolean => ['as', 'g', 'v'].some((name) => name in parameters);

/** The first format that the client accepts and that `allows` permits with the range's parameters. */
function chosen(accept: string, allows: (form: Form, parameters: Parameters) => boolean) {
  for (const range of mediaRanges(accept)) {
    const { parameters } = range;
    if (parameters['stream'] || parameters['sv']) continue;
    const form = FORMS.find(([type, subtype]) => covers(range, type, subtype) && allows([type, subtype], parameters));
    if (form) return { type: form.join('/'), parameters };
  }
  return null;
}

function negotiated(request: ApiRequest, kind: string, page: string, fields: () => object): Answer {
  const accept = firstHeader(request.raw, 'accept') || '*/*';
  const found = chosen(accept, ([type], parameters) => {
    if (type === 'text') return !isNamed(parameters);
    const { v = '', g, as } = parameters;
    return g === GROUP && as === kind && VERSIONS.includes(v);
  });
  if (found?.type === TEXT_FORM.join('/')) {
    return { status: 200, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: page };
  }
  if (found === null) return unacceptable(request, accept);
  const version = found.parameters['v']!;
  const isPretty = found.parameters['pretty'] === '1' || wantsLineBreaks(request);
  const value = { kind, apiVersion: `${GROUP}/${version}`, metadata: { name: 'kubelet' }, ...fields() };
  const deprecation = `299 - "This version of the ${kind.toLowerCase()} endpoint is deprecated. Please use a newer version."`;
  const warning = version === 'v1alpha1' ? { warning: deprecation } : {};
  const headers = { 'content-type': `${found.type};g=${GROUP};v=${version};as=${kind}`, ...warning };
  return { status: 200, headers, body: encoded(found.type, value, isPretty) };
}

/** A refusal in the first of the requested types that exists, else as indented JSON. */
function unacceptable(request: ApiRequest, accept: string): Answer {
  const value = {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: `only the following media types are accepted: ${FORMS.map((form) => form.join('/')).join(', ')}`,
    reason: 'NotAcceptable',
    code: 406,
  };
  const plain = chosen(accept, (_form, parameters) => !isNamed(parameters));
  const type = plain?.type ?? JSON_FORM.join('/');
  const isPretty = plain === null || plain.parameters['pretty'] === '1' || wantsLineBreaks(request);
  return { status: 406, headers: { 'content-type': type }, body: encoded(type, value, isPretty) };
}

/** True for browsers and manual requests, which get JSON with line breaks, as upstream. */
function wantsLineBreaks(request: ApiRequest): boolean {
  const pretty = first(request, 'pretty') ?? '';
  const isAsked = parseBool(pretty);
  if (pretty !== '') return isAsked.error === undefined && isAsked.value;
  return /^(curl|Wget|Mozilla\/5\.0)/.test(request.raw.headers['user-agent'] ?? '');
}

function encoded(type: string, value: object, isPretty: boolean): string {
  if (type !== JSON_FORM.join('/')) {
    const text = stringify(value, { sortMapEntries: true, indentSeq: false, singleQuote: true, lineWidth: 0 });
    const lines = text.split('\n').map((line) => folded(line, `${/^ */.exec(line)?.[0] ?? ''}  `));
    return lines.join('\n');
  }
  return isPretty ? JSON.stringify(value, null, 2) : `${JSON.stringify(value)}\n`;
}

/** Folded like upstream's YAML library folds a long line: at the first space after the 80th column. */
function folded(line: string, indent: string): string {
  const [, head, rest] = /^(.{81,}?) (\S.*)$/.exec(line) ?? [];
  return head === undefined ? line : `${head}\n${folded(`${indent}${rest}`, indent)}`;
}
