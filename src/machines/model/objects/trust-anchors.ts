/**
 * Certificates in PEM, read as Go reads them (text between the blocks is ignored), and the trust anchors of
 * ClusterTrustBundles for a projected volume. Pure.
 *
 * Invariants: anchors are normalized and unique; bundles that a query does not select are left out. The order of
 * anchors has no meaning (upstream shuffles them); they are sorted by bytes here, so that equal sets give equal files.
 * Upstream: pkg/kubelet/clustertrustbundle/clustertrustbundle_manager.go.
 */
import { isObject } from '../../../kernel/xstate.ts';
import { matches } from '../allocation/node-match.ts';
import type { KubeObject } from '../operations/kube.ts';
import { isBase64 } from '../values/go-text.ts';
import { versionOf } from './config-objects.ts';
import { idOf, type ObjectState, type TrustQuery, type TrustSelector, type TrustSource, trustQueryOf } from './keys.ts';

export interface TrustBundle {
  readonly name: string;
  /** Empty: the bundle has no signer. */
  readonly signerName: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly pem: string;
}

/** Upstream's errors of a kubelet without ClusterTrustBundles, and of a node without an API server. */
export const UNSUPPORTED = 'ClusterTrustBundle projection is not supported in static kubelet mode';

const OPERATORS: ReadonlySet<string> = new Set(['In', 'NotIn', 'Exists', 'DoesNotExist']);

export function trustBundleOf({ metadata, spec }: KubeObject): TrustBundle {
  const { signerName, trustBundle } = isObject(spec) ? spec : {};
  return {
    name: metadata.name,
    signerName: typeof signerName === 'string' ? signerName : '',
    labels: isObject(metadata['labels']) ? (metadata['labels'] as Record<string, string>) : {},
    pem: typeof trustBundle === 'string' ? trustBundle : '',
  };
}

export function trustAnchors(key: string, bundles: readonly TrustBundle[]): ObjectState {
  const query = trustQueryOf(key);
  const operator = 'signerName' in query ? unknownOperator(query.labelSelector) : undefined;
  if (operator !== undefined) {
    const message = `while parsing label selector: "${operator}" is not a valid label selector operator`;
    return { state: 'unknown', message };
  }
  const selected = bundles.filter((bundle) => isSelected(bundle, query));
  if (selected.length === 0) return { state: 'missing' };
  const anchors = new Set(selected.flatMap(({ pem }) => pemBlocks(pem)));
  const data = { anchors: { text: certificatesPem([...anchors].toSorted((a, b) => (a < b ? -1 : 1))) } };
  const object = {
    kind: 'ClusterTrustBundle',
    namespace: '',
    name: idOf(key).name,
    version: versionOf(data),
    data,
  } as const;
  return { state: 'found', object };
}

function isSelected({ name, signerName, labels }: TrustBundle, query: TrustQuery): boolean {
  if ('name' in query) return name === query.name;
  const { labelSelector } = query;
  if (!labelSelector || signerName !== query.signerName) return false;
  return (
    Object.entries(labelSelector.matchLabels ?? {}).every(([label, value]) => labels[label] === value) &&
    (labelSelector.matchExpressions ?? []).every((requirement) => matches(requirement, labels))
  );
}

const unknownOperator = (selector: TrustSelector | null | undefined): string | undefined =>
  selector?.matchExpressions?.find(({ operator }) => !OPERATORS.has(operator))?.operator;

/** Upstream's text for a bundle that does not exist. */
export const missingTrust = ({ name }: TrustSource): string =>
  name
    ? `while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "${name}" not found`
    : 'combination of signerName and labelSelector matched zero ClusterTrustBundles';

const BEGIN = /^-----BEGIN ([^-]*)-----$/;
const LINE_CHARACTERS = 64;

/** The content of each block as canonical base64, in order; headers and broken blocks are left out. */
export function pemBlocks(text: string): readonly string[] {
  const blocks: string[] = [];
  let open: { readonly label: string; readonly lines: string[] } | null = null;
  for (const line of text.split('\n').map((each) => each.trimEnd())) {
    const label = BEGIN.exec(line)?.[1];
    if (label !== undefined) open = { label, lines: [] };
    else if (open !== null && line === `-----END ${open.label}-----`) {
      const content = contentOf(open.lines);
      if (content !== '') blocks.push(content);
      open = null;
    } else open?.lines.push(line);
  }
  return blocks;
}

/** Empty if the text is not base64. Bits beyond the last byte are ignored. */
function contentOf(lines: readonly string[]): string {
  const text = lines
    .filter((line) => !line.includes(':'))
    .join('')
    .replaceAll(/\s/g, '');
  return isBase64(text) ? btoa(atob(text)) : '';
}

/** Blocks of certificates, one after the other; empty for none. */
export const certificatesPem = (blocks: readonly string[]): string =>
  blocks
    .map((block) => {
      const lines = block.match(new RegExp(`.{1,${LINE_CHARACTERS}}`, 'g')) ?? [];
      return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
    })
    .join('');
