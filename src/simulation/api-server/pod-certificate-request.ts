/** PodCertificateRequests: what a server checks of them when they are created. */
import { invalid } from './errors.ts';
import type { Kind } from './kinds.ts';
import type { Store } from './store.ts';
import { type ApiObject, textOf } from './types.ts';

/** A request names the pod, the service account and the node as they are, as NodeRestriction demands. */
export function createdPodRequest(kind: Kind, request: ApiObject, store: Store): ApiObject {
  const spec = request.spec ?? {};
  const text = (field: string) => textOf(spec[field]);
  const { name, namespace } = request.metadata;
  const pod = store.get('v1', 'pods', text('podName'), namespace);
  const account = store.get('v1', 'serviceaccounts', text('serviceAccountName'), namespace);
  const node = store.get('v1', 'nodes', text('nodeName'));
  const wrong = [
    ['podUID', pod?.metadata.uid],
    ['serviceAccountUID', account?.metadata.uid],
    ['serviceAccountName', pod?.spec?.['serviceAccountName']],
    ['nodeName', pod?.spec?.['nodeName']],
    ['nodeUID', node?.metadata.uid],
  ].find(([field, wanted]) => wanted === undefined || spec[field as string] !== wanted);
  if (wrong) throw invalid(kind, name, `spec.${wrong[0] as string}`, `Invalid value: "${text(wrong[0] as string)}"`);
  if (text('stubPKCS10Request') === '') throw invalid(kind, name, 'spec.stubPKCS10Request', 'Required value');
  const { status: _, ...stored } = request;
  return stored;
}
