/** The output of a command reaches its client byte for byte. */
import { afterEach, expect, it } from 'vitest';
import type { RuntimeClient } from '../../../src/actors/cri/client.ts';
import type { NodeView } from '../../../src/actors/server/node-view.ts';
import { runEndpoints, runtimeCalls } from '../../../src/actors/server/streaming/endpoints.ts';
import { type Front, openFront } from '../../support/endpoint-front.ts';
import { exchange } from './exchange.ts';

const POD = {
  name: 'p',
  namespace: 'default',
  pod: {},
  runtime: { containers: [{ id: 'main-1', metadata: { name: 'main' }, state: 'CONTAINER_RUNNING' }] },
};

let front: Front;
afterEach(() => front.close());

async function run(exit_code: number, stdout: Buffer, stderr: Buffer) {
  const answer = { exit_code, stdout, stderr };
  const call = (async () => answer) as unknown as RuntimeClient['call'];
  const view = { pods: () => [POD] } as unknown as NodeView;
  front = await openFront(runEndpoints(view, runtimeCalls(call).execSync));
  const { status, body } = await exchange('POST', '/run/default/p/main?cmd=it', { port: front.port, isPlain: true });
  return { status, body };
}

const NO_TEXT = Buffer.from([0xff, 0x00, 0xc3, 0x28, 0x80]);

it('output that is no text, and behind it the errors', async () => {
  expect(await run(0, NO_TEXT, Buffer.from('e'))).toEqual({
    status: 200,
    body: Buffer.concat([NO_TEXT, Buffer.from('e')]),
  });
});

it('of a command that failed the errors alone', async () => {
  const body = Buffer.concat([Buffer.from("command 'it' exited with 3: "), NO_TEXT]);
  expect(await run(3, Buffer.from('output'), NO_TEXT)).toEqual({ status: 500, body });
});
