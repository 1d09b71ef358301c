/**
 * Where a volume of an earlier plugin can be reached, in the labels that its CSI driver gives to nodes. Pure.
 *
 * Upstream: staging/src/k8s.io/csi-translation-lib/plugins/in_tree_volume.go, vsphere_volume.go.
 */
import type { PersistentVolumeSpec } from '../api/pod.ts';

/** Labels of a driver's nodes. `region`: of a driver that has one; a zone is then not split. */
export interface Topology {
  readonly zone: string;
  readonly region?: string;
}

type Labels = Readonly<Record<string, string>>;
type Terms = NonNullable<NonNullable<PersistentVolumeSpec['nodeAffinity']>['required']>['nodeSelectorTerms'];

const GA = { zone: 'topology.kubernetes.io/zone', region: 'topology.kubernetes.io/region' };
const BETA = { zone: 'failure-domain.beta.kubernetes.io/zone', region: 'failure-domain.beta.kubernetes.io/region' };
/** Between the zones in the label of a volume that is in several. */
export const ZONE_DELIMITER = '__';

/**
 * The spec with the driver's labels in its node affinity: in place of those of Kubernetes, or else from the labels of
 * the volume.
 */
export function withTopology(
  spec: PersistentVolumeSpec,
  labels: Labels,
  { zone, region }: Topology,
): PersistentVolumeSpec {
  const given = spec.nodeAffinity?.required?.nodeSelectorTerms ?? [];
  const from = labelsOf(given, labels);
  const zones = region === undefined ? (labels[from.zone] ?? '').split(ZONE_DELIMITER) : [labels[from.zone] ?? ''];
  const zoned = moved(given, { from: from.zone, to: zone, otherwise: zones });
  const otherwise = region === undefined ? [] : [labels[from.region] ?? ''];
  const placed = moved(zoned, { from: from.region, to: region ?? GA.region, otherwise });
  if (placed.length === 0) return spec;
  return { ...spec, nodeAffinity: { ...spec.nodeAffinity, required: { nodeSelectorTerms: placed } } };
}

/** The labels that the volume has: in its affinity, or else of its own. */
function labelsOf(terms: Terms, labels: Labels): typeof GA {
  for (const names of [GA, BETA]) if (hasKey(terms, names.zone)) return names;
  return labels[GA.zone] === undefined && labels[BETA.zone] !== undefined ? BETA : GA;
}

const hasKey = (terms: Terms, key: string): boolean =>
  terms.some(({ matchExpressions = [] }) => matchExpressions.some((each) => each.key === key));

/** With another key; if no term has the first one, each gets the second one with the other values, if there are any. */
function moved(
  terms: Terms,
  { from, to, otherwise }: { from: string; to: string; otherwise: readonly string[] },
): Terms {
  if (hasKey(terms, from)) {
    return terms.map(({ matchExpressions = [], ...rest }) => ({
      ...rest,
      matchExpressions: matchExpressions.map((each) => (each.key === from ? { ...each, key: to } : each)),
    }));
  }
  const values = [...new Set(otherwise.map((each) => each.trim()).filter(Boolean))].toSorted();
  if (values.length === 0) return terms;
  return (terms.length === 0 ? [{}] : terms).map(({ matchExpressions = [], ...rest }) => ({
    ...rest,
    matchExpressions: [...matchExpressions, { key: to, operator: 'In', values }],
  }));
}
