/**
 * One client of `bench/siege.ts`: sends the fuzzer's messages to every port as fast as it is answered, until it is told
 * to end.
 */
import { readlinkSync } from 'node:fs';
import { connect as connectPlain, type Socket } from 'node:net';
import { setPriority } from 'node:os';
import { basename } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { parentPort, workerData } from 'node:worker_threads';
import { message } from '../test/hardening/fuzz/messages.ts';

const { ports, seed } = workerData as { readonly ports: readonly number[]; readonly seed: number };
const LOWEST_PRIORITY = 19;
/** How long a client waits for more of an answer. */
const QUIET_MS = 20;
/** The different messages of one client. */
const SERIES = 1_000_000;

const open = (port: number): Socket =>
  port === ports[0]
    ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
    : connectPlain(port, '127.0.0.1');

function send(port: number, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const socket = open(port);
    socket.setTimeout(QUIET_MS, () => socket.destroy());
    socket.on('error', () => {}).on('data', () => {});
    socket.once('close', () => resolve());
    socket.write(bytes);
  });
}

// A priority is that of a thread, so the bench keeps its own.
setPriority(Number(basename(readlinkSync('/proc/thread-self'))), LOWEST_PRIORITY);
const over = new AbortController();
let sent = 0;
parentPort!.once('message', () => over.abort());
for (; !over.signal.aborted; sent++) await send(ports[sent % ports.length]!, message(seed + 1, sent % SERIES));
// oxlint-disable-next-line unicorn/require-post-message-target-origin -- that is of windows; this is a port
parentPort!.postMessage(sent);
parentPort!.unref();
