/** Sockets of the agent in folders that pods may mount: a client that connects again and again gets only its limit. */
import { createConnection } from 'node:net';
import { join } from 'node:path';
import * as grpc from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { serveSocket } from '../../src/actors/grpc-socket.ts';
import { temporaryFolder } from '../support/host-ports.ts';

it('has 128 connections and no more, and ends with all of them', async () => {
  const path = join(await temporaryFolder(), 'agents.sock');
  const end = await serveSocket(new grpc.Server(), path);
  let closed = 0;
  for (let at = 0; at < 200; at++) {
    await new Promise<void>((resolve) => {
      const socket = createConnection(path, resolve).on('close', () => void closed++);
      socket.on('error', () => {}).resume();
    });
  }
  await expect.poll(() => closed).toBe(72);
  end();
  await expect.poll(() => closed).toBe(200);
});

it('says where it cannot listen', async () => {
  const path = join(await temporaryFolder(), 'missing', 'agents.sock');
  await expect(serveSocket(new grpc.Server(), path)).rejects.toThrow(`cannot listen on ${path}`);
});
