/**
 * Clients that block connections to the visualizer's port: it still answers others, and stores nothing for them for
 * long.
 */
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { JournalFiles } from '../../../../src/actors/server/visualizer/journal-files.ts';
import type { TreeView } from '../../../../src/actors/server/visualizer/protocol.ts';
import { Visualizer } from '../../../../src/actors/server/visualizer/visualizer.ts';
import { fetch, TOKEN, watched } from './support.ts';

const MANY = 200;
/** Longer than an answer takes on a busy machine, and shorter than the limit of a request. */
const ANSWER_MS = 5_000;

const sockets = new Set<Socket>();
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  for (const close of closing.splice(0)) await close();
});

async function watch() {
  const all = await watched();
  closing.push(all.close);
  return all;
}

/** A connection that sends a text, and reads the answer only on request. */
async function attack(origin: URL, text: string, reads = true): Promise<Socket> {
  const socket = connect(Number(origin.port), origin.hostname);
  sockets.add(socket);
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
  socket.write(text);
  return reads ? socket.resume() : socket.pause();
}

const get = (origin: URL, path: string): string =>
  `GET ${path} HTTP/1.1\r\nhost: ${origin.host}\r\nauthorization: Bearer ${TOKEN}\r\n\r\n`;

const answers = async (origin: URL, path = '/api/tree'): Promise<number> =>
  (await fetch(new URL(path, origin), { signal: AbortSignal.timeout(ANSWER_MS) })).status;

describe('the port of the visualizer answers', () => {
  it('beside requests that never end', async () => {
    const { origin, kernel } = await watch();
    const half = `GET /api/tree HTTP/1.1\r\nhost: ${origin.host}\r\nx-slow: `;
    for (let i = 0; i < MANY; i++) await attack(origin, half);
    expect(await answers(origin)).toBe(200);
    kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    expect(await answers(origin)).toBe(200);
  });

  it('beside 200 readers of its stream, of which it takes sixteen', async () => {
    const { origin, kernel, ask } = await watch();
    const readers = await Promise.all(Array.from({ length: MANY }, () => attack(origin, get(origin, '/events'))));
    kernel.dispatch('boss', { type: 'hire', name: 'ann' }, 'test');
    await expect.poll(async () => (await ask<TreeView>('/api/tree')).actors.length).toBe(3);
    expect(await answers(origin, '/events')).toBe(503);
    for (const reader of readers) reader.destroy();
    await expect.poll(() => answers(origin, '/events')).toBe(200);
  });

  it('beside requests without the token', async () => {
    const { origin } = await watch();
    const request = `GET / HTTP/1.1\r\nhost: ${origin.host}\r\n\r\n`;
    for (let i = 0; i < MANY; i++) await attack(origin, request.repeat(100), false);
    expect(await answers(origin)).toBe(200);
  });

  it('after readers of a file that take nothing, which lose their places', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'statelet-attacks-'));
    closing.push(() => rmSync(folder, { recursive: true }));
    const segment = 'j-000001-000000000000.ndjson';
    writeFileSync(join(folder, segment), '');
    truncateSync(join(folder, segment), 64 * 1024 * 1024);
    const journal = new JournalFiles(folder);
    const visualizer = new Visualizer({ port: 0, token: TOKEN, journal, stalledMs: 500 });
    const origin = await visualizer.listen();
    closing.push(() => visualizer.close());
    for (let i = 0; i < MANY; i++) await attack(origin, get(origin, `/journal/${segment}`), false);
    const isAnswered = () => answers(origin, '/api/journal').catch(() => 0);
    await expect.poll(isAnswered).toBe(200);
  });

  it('has no page for a client that asks only for the head of one', async () => {
    const { origin } = await watch();
    const head = await fetch(new URL('/events', origin), { method: 'HEAD' });
    expect(head.status).toBe(404);
  });
});
