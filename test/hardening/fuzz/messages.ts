/**
 * Messages of a hostile client to a port, made from a seed: complete and incomplete requests, several in one
 * write, upgrades to streams followed by frames of SPDY and WebSocket, prefaces of HTTP/2, and bytes that are no
 * message.
 */
import { crc32 } from 'node:zlib';

/** Random numbers of a seed, the same in each run (mulberry32). */
class Chance {
  private state: number;

  constructor(seed: number) {
    this.state = crc32(String(seed));
  }

  /** A number from 0 to `count` - 1. */
  below(count: number): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), this.state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % count;
  }

  of<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }

  bytes(count: number): Buffer {
    return Buffer.from(Array.from({ length: count }, () => this.below(256)));
  }
}

const METHODS = [
  'GET',
  'GET',
  'GET',
  'POST',
  'PUT',
  'HEAD',
  'OPTIONS',
  'CONNECT',
  'get',
  'G\u0000T',
  'PRI',
  'X'.repeat(70),
];
const PATHS = [
  '/healthz',
  '/pods',
  '/metrics',
  '/metrics/cadvisor',
  '/stats/summary',
  '/configz',
  '/exec/a/b/c',
  '/attach/a/b/c?stdin=1',
  '/portForward/a/b?port=80',
  '/run/a/b/c?cmd=x',
  '/containerLogs/a/b/c?tailLines=1',
  '/logs/',
  '/logs/?query=kubelet&pattern=%5B%5B',
  '/runningpods/',
  '/checkpoint/a/b/c',
  '/debug/flags/v',
  '/flagz',
  '/statusz',
  '/api/records',
  '/api/actor?address=kubelet',
  '/',
  '*',
  'http://other/healthz',
  '//../..//',
  '/%2e%2e/%00%ff%',
];
const PADDINGS = ['', '', '', '%2F'.repeat(3_000), '?'.padEnd(3_000, 'a&'), '/'.repeat(3_000), '\u00e9'];
const HEADERS = [
  'Host: localhost',
  'Host: localhost',
  'Host: ',
  'Connection: close',
  'Connection: keep-alive, Upgrade',
  'Accept: a' + ' '.repeat(2_000) + 'b',
  'Accept: */*;q=x,a/b',
  'Accept-Encoding: gzip;q=-1',
  'Range: bytes=0-0' + ',  '.repeat(200) + 'x',
  'Authorization: Bearer ' + 'x'.repeat(3_000),
  'Authorization: Basic \u0000',
  'Content-Length: 5',
  'Content-Length: -1',
  'Content-Length: 99999999999999999999',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: gzip, chunked',
  'Expect: 100-continue',
  'Expect: nothing',
  'Cookie: ' + 'a=b; '.repeat(500),
  'X-Stream-Protocol-Version: v4.channel.k8s.io',
  'Sec-WebSocket-Protocol: v5.channel.k8s.io',
  ' folded: header',
  'no colon',
  'Bad\u0000Name: x',
];
const BODIES = [
  '',
  '',
  'hello',
  '5\r\nhello\r\n0\r\n\r\n',
  'fffffffffffffffff\r\n',
  '-1\r\n',
  '0\r\nTrailer: x\r\n\r\n',
];
const WEBSOCKET = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
  'Sec-WebSocket-Protocol: v4.channel.k8s.io',
];
const SPDY = ['Connection: Upgrade', 'Upgrade: SPDY/3.1', 'X-Stream-Protocol-Version: v4.channel.k8s.io'];

function request(chance: Chance, headers: readonly string[]): string {
  const target = chance.of(PATHS) + chance.of(PADDINGS);
  const lines = [
    `${chance.of(METHODS)} ${target} HTTP/${chance.of(['1.1', '1.1', '1.1', '1.0', '2.0', '9'])}`,
    ...headers,
  ];
  return `${lines.join('\r\n')}\r\n\r\n${chance.of(BODIES)}`;
}

const anyHeaders = (chance: Chance): string[] => Array.from({ length: chance.below(6) }, () => chance.of(HEADERS));

const plain = (chance: Chance): string => request(chance, ['Host: localhost', ...anyHeaders(chance)]);

function upgrade(chance: Chance): string {
  const path = chance.of(PATHS);
  const headers = chance.below(2) === 0 ? WEBSOCKET : SPDY;
  return `${chance.of(['GET', 'POST', 'CONNECT'])} ${path} HTTP/1.1\r\nHost: localhost\r\n${headers.join('\r\n')}\r\n\r\n`;
}

/** A control frame or a data frame, whose length may be larger than its content. */
function spdyFrame(chance: Chance): Buffer {
  const payload = chance.bytes(chance.below(60));
  const frame = Buffer.alloc(8);
  frame.writeUInt16BE(chance.of([0x8003, 0x8003, 0x8002, 0]), 0);
  frame.writeUInt16BE(chance.below(12), 2);
  frame.writeUInt32BE(chance.of([payload.length, payload.length, 0xffffff, 0x01000000 + payload.length]), 4);
  return Buffer.concat([frame, payload]);
}

function webSocketFrame(chance: Chance): Buffer {
  const payload = chance.bytes(chance.below(60));
  const length = chance.of([payload.length, payload.length, 126, 127]);
  return Buffer.concat([Buffer.from([chance.below(256), 0x80 | length]), chance.bytes(4), payload]);
}

const KINDS: readonly ((chance: Chance) => Buffer | string)[] = [
  plain,
  (chance) => Array.from({ length: 2 + chance.below(5) }, () => plain(chance)).join(''),
  (chance) => `GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n${upgrade(chance)}`,
  (chance) =>
    `GET /pods HTTP/1.1\r\nHost: localhost\r\n\r\nCONNECT / HTTP/1.1\r\nHost: localhost\r\n\r\n${plain(chance)}`,
  (chance) => {
    const text = plain(chance);
    return text.slice(0, chance.below(text.length));
  },
  (chance) =>
    Buffer.concat([Buffer.from(upgrade(chance)), ...Array.from({ length: chance.below(8) }, () => spdyFrame(chance))]),
  (chance) =>
    Buffer.concat([
      Buffer.from(upgrade(chance)),
      ...Array.from({ length: chance.below(8) }, () => webSocketFrame(chance)),
    ]),
  (chance) => Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), chance.bytes(chance.below(200))]),
  (chance) => chance.bytes(1 + chance.below(400)),
];

/** The message with this number in the run of a seed. */
export function message(seed: number, number: number): Buffer {
  const chance = new Chance(seed * 1_000_003 + number);
  return Buffer.from(chance.of(KINDS)(chance) as never);
}
