/** The programs that this node runs for logins to registries. */
import type { Registry } from 'prom-client';
import type { OnPluginRun } from '../../../image/plugin.ts';
import { counter, histogram } from '../instruments.ts';
import { DEFAULT_BUCKETS, MS_PER_SECOND } from '../projection.ts';

/** Counts runs of plugins in this registry. */
export function credentialPluginRuns(registry: Registry): OnPluginRun {
  const name = 'kubelet_credential_provider_plugin';
  const duration = '[ALPHA] Duration of execution in seconds for credential provider plugin';
  const durations = histogram(registry, `${name}_duration`, duration, DEFAULT_BUCKETS, ['plugin_name']);
  const failed = '[ALPHA] Number of errors from credential provider plugin';
  const errors = counter(registry, `${name}_errors_total`, failed, ['plugin_name']);
  return ({ plugin: plugin_name, durationMs, failed: hasFailed }) => {
    durations.observe({ plugin_name }, durationMs / MS_PER_SECOND);
    if (hasFailed) errors.inc({ plugin_name });
  };
}
