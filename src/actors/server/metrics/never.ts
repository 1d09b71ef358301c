/**
 * Upstream's metrics of events that cannot happen on this node: they stay at zero, so that a dashboard or an alert
 * finds the metric.
 */
import { type Family, gaugeOf, one } from './family.ts';

/** By name, upstream's help, and why it never happens. */
const NEVER: readonly (readonly [name: string, help: string])[] = [
  // Nothing here is hidden or disabled.
  ['disabled_metrics_total', '[BETA] The count of disabled metrics.'],
  ['hidden_metrics_total', '[BETA] The count of hidden metrics.'],
  // Each event of the runtime leads to an inspection of its pod; of many for one pod the last inspection serves all.
  ['kubelet_pleg_discard_events', '[ALPHA] The number of discard events in PLEG.'],
  // The API by which agents watch pods is behind a gate that is off.
  ['kubelet_pod_watch_events_dropped_total', '[ALPHA] Cumulative number of pod watch events dropped.'],
  // What cannot be read of a volume is said and left alone.
  [
    'force_cleaned_failed_volume_operations_total',
    '[ALPHA] The number of volumes that were force cleaned after their reconstruction failed during kubelet startup. ' +
      'This includes both successful and failed cleanups.',
  ],
  [
    'force_cleaned_failed_volume_operation_errors_total',
    '[ALPHA] The number of volumes that failed force cleanup after their reconstruction failed during kubelet startup.',
  ],
];

const CLAIMS =
  '[ALPHA] The number of ResourceClaims that are currently in use on the node, by driver name (driver_name label value) ' +
  'and across all drivers (special value <any> for driver_name). Note that the sum of all by-driver counts is not the ' +
  'total number of in-use ResourceClaims because the same ResourceClaim might use devices from different drivers. ' +
  'Instead, use the count for the <any> driver_name.';

export const neverCounts = (): Family[] => [
  ...NEVER.map(([name, help]): Family => ({ name, help, type: 'counter', samples: [one(0)] })),
  // This node prepares no claims.
  gaugeOf('dra_resource_claims_in_use', CLAIMS, [one(0, { driver_name: '<any>' })]),
];
