/** The metrics of connections to the API server, and of certificates from exec plugins. */
import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { TransportMetrics } from '../../../../../src/actors/server/metrics/calls/client-calls.ts';
import { Authority } from '../../../../fakes/api-server/pki.ts';

const DAY_MS = 24 * 60 * 60 * 1_000;
const BEGAN_MS = Date.parse('2026-01-01T00:00:00Z');

async function valueOf(registry: Registry, name: string): Promise<number | undefined> {
  const { values } = await registry.getSingleMetric(name)!.get();
  return (values as { value: number; metricName?: string }[]).find(
    ({ metricName = name }) => metricName === name || metricName === `${name}_count`,
  )?.value;
}

it('a transport counts from its first connection until it is given up', async () => {
  const registry = new Registry();
  const { seen } = new TransportMetrics(registry);
  for (const kind of ['opened', 'opened', 'closed'] as const) seen({ kind, pluginCertificate: null });
  expect(await valueOf(registry, 'rest_client_transport_cache_entries')).toBe(1);
  expect(await valueOf(registry, 'rest_client_transport_create_calls_total')).toBe(2);
  expect(await valueOf(registry, 'rest_client_exec_plugin_ttl_seconds')).toBe(Number.POSITIVE_INFINITY);
});

it('a certificate of an exec plugin counts down, and its age when another one comes', async () => {
  const registry = new Registry();
  const authority = await Authority.create('plugins');
  const certificate = async (days: number) => {
    const dates = { notBefore: new Date(BEGAN_MS), notAfter: new Date(BEGAN_MS + days * DAY_MS) };
    return (await authority.issue({ commonName: 'node', usages: ['client auth'], ...dates })).cert;
  };
  const { seen } = new TransportMetrics(registry, () => BEGAN_MS + DAY_MS);
  const [first, second] = [await certificate(3), await certificate(8)];
  for (const pluginCertificate of [first, first]) seen({ kind: 'opened', pluginCertificate });
  expect(await valueOf(registry, 'rest_client_exec_plugin_ttl_seconds')).toBe(2 * 86_400);
  expect(await valueOf(registry, 'rest_client_exec_plugin_certificate_rotation_age')).toBe(0);
  seen({ kind: 'opened', pluginCertificate: second });
  expect(await valueOf(registry, 'rest_client_exec_plugin_ttl_seconds')).toBe(7 * 86_400);
  const { values } = await registry.getSingleMetric('rest_client_exec_plugin_certificate_rotation_age')!.get();
  const measured = values as { value: number; metricName?: string }[];
  expect(measured.find(({ metricName }) => metricName?.endsWith('_sum'))?.value).toBe(86_400);
});
