/** The node's own API as its clients use it: a daemon, its ports, and a journal without their requests. */
import { createServer } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { exchange, headerOf } from '../actors/server/exchange.ts';
import { eventually, SLEEP, shellPod, TestNode } from '../support/daemon.ts';

let node: TestNode;
beforeEach(() => {
  node = new TestNode();
});
afterEach(() => node.close());

const get = (path: string) => exchange('GET', path, { port: node.port });
const turns = async (): Promise<number> =>
  Number(/^statelet_turns_total (\d+)$/m.exec((await get('/metrics')).body.toString())?.[1]);

async function runPod(): Promise<void> {
  node.write('web.json', shellPod('web', 'busybox', `echo line one; echo line two; ${SLEEP}`));
  await node.start(['--anonymous-auth=true']);
  await eventually('the pod runs', async () => (await get('/runningpods/')).body.includes('web-node1'));
  await eventually('its log is there', async () => (await logs()).includes('line two'));
}

const logs = async (query = '') => (await get(`/containerLogs/default/web-node1/c${query}`)).body.toString();

describe('a daemon', () => {
  it('serves what it runs, measures and is configured with', async () => {
    await runPod();
    const pods = JSON.parse((await get('/pods')).body.toString()) as { items: { status: { phase: string } }[] };
    expect(pods.items.map(({ status }) => status.phase)).toEqual(['Running']);
    expect(await logs('?tailLines=1')).toBe('line two\n');
    expect((await exchange('POST', '/run/default/web-node1/c?cmd=echo+hi', { port: node.port })).body.toString()).toBe(
      'hi\n',
    );
    const config = JSON.parse((await get('/configz')).body.toString()) as { kubeletconfig: Record<string, unknown> };
    expect(config.kubeletconfig).toMatchObject({ kind: 'KubeletConfiguration', port: node.port });
    const summary = JSON.parse((await get('/stats/summary')).body.toString()) as { node: { nodeName: string } };
    expect(summary.node.nodeName).toBe('node1');
    const trace = await get('/debug/pprof/trace?seconds=1');
    expect(headerOf(trace, 'content-disposition')).toBe('attachment; filename="trace"');
    expect(JSON.parse(trace.body.toString())).toHaveProperty('traceEvents');
    const profile = await get('/debug/pprof/profile?seconds=1');
    expect(JSON.parse(profile.body.toString())).toHaveProperty('nodes');
  });

  it('takes no turn for a request, and replays as if there had been none', async () => {
    await runPod();
    const before = await turns();
    for (let i = 0; i < 50; i++) await Promise.all([get('/pods'), get('/metrics/slis'), get('/nowhere'), logs()]);
    expect((await turns()) - before, 'turns of 200 requests').toBeLessThan(50);
    // This also ends the pod.
    await node.stop('SIGINT');
    const replayed = node.statelet('replay', node.journal);
    expect(replayed.stderr + replayed.stdout).toContain('same');
    expect(replayed.code).toBe(0);
  });

  it('authenticates no client without configured authentication', async () => {
    await node.start();
    await eventually('the port', async () => (await get('/pods')).status === 401);
    expect((await get('/nowhere')).status).toBe(404);
  });
});

describe('a port that is taken', () => {
  it.each(['port', 'read-only-port'])('--%s ends the node with the words of the kubelet', async (flag) => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    const { port } = other.address() as { port: number };
    const ended = await node.once('run', [`--${flag}=${port}`, '--visualizer-port=off']);
    other.close();
    expect(ended.code).toBe(1);
    expect(ended.stderr).toContain(
      `"Failed to listen and serve" err="listen tcp 127.0.0.1:${port}: bind: address already in use"`,
    );
  });
});
