/** The counters of health checks: a request for all checks counts each, as in a kubelet. */
import { expect, it } from 'vitest';
import { healthzPort } from '../../../../../src/actors/server/endpoints/health.ts';
import { metricsEndpoints } from '../../../../../src/actors/server/endpoints/metrics.ts';
import type { ApiRequest } from '../../../../../src/actors/server/http/endpoint.ts';
import { Healthchecks } from '../../../../../src/actors/server/metrics/calls/healthchecks.ts';
import type { NodeMetrics } from '../../../../../src/actors/server/metrics/node-metrics.ts';
import { openStream } from '../../../../support/host-ports.ts';

const counts = async (healthchecks: Healthchecks) =>
  (await healthchecks.families()).flatMap(({ name, samples }) =>
    samples.map(({ labels, value }) => [name, labels['name'], labels['status'], value]),
  );

it('a check counts when a client asks for all checks that it did not exclude', async () => {
  const healthchecks = new Healthchecks();
  const checks = { log: () => null, syncloop: () => 'late' };
  const open = (call: Parameters<typeof healthzPort>[0]) => healthzPort(call, checks, healthchecks.checked);
  const item = await openStream(open, { address: '127.0.0.1', port: 0 }).until(() => true);
  if (item.type !== 'healthz.listening') throw new Error(item.message);
  for (const path of ['', '?exclude=log', '/log', '/syncloop']) {
    await fetch(`http://127.0.0.1:${item.port}/healthz${path}`);
  }
  expect(await counts(healthchecks)).toEqual([
    ['kubernetes_healthcheck', 'ping', undefined, 1],
    ['kubernetes_healthcheck', 'log', undefined, 1],
    ['kubernetes_healthcheck', 'syncloop', undefined, 0],
    ['kubernetes_healthchecks_total', 'ping', 'success', 2],
    ['kubernetes_healthchecks_total', 'log', 'success', 1],
    ['kubernetes_healthchecks_total', 'syncloop', 'error', 2],
  ]);
});

it('DELETE sets the counts to zero', async () => {
  const healthchecks = new Healthchecks();
  healthchecks.checked('ping', true);
  const metrics = { slis: async () => await healthchecks.families() } as unknown as NodeMetrics;
  const endpoint = metricsEndpoints(metrics, () => healthchecks.reset()).find(({ path }) => path === '/metrics/slis')!;
  const answer = (method: string) => endpoint.answer({ method, raw: { rawHeaders: [] as string[] } } as ApiRequest);
  const { body } = (await answer('GET')) as { readonly body: Buffer };
  expect(body.toString()).toContain('kubernetes_healthcheck{name="ping",type="healthz"} 1');
  expect(await answer('DELETE')).toMatchObject({ status: 200, body: 'metrics reset\n' });
  expect(await answer('GET')).toMatchObject({ status: 200, body: Buffer.from('') });
});
