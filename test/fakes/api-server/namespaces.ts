/**
 * The objects that kube-controller-manager creates in each namespace: the default service account and the cluster's CA.
 */
import { type ApiObject, knownKind, type User } from '../../../src/simulation/api-server/kinds.ts';
import type { Registry } from '../../../src/simulation/api-server/registry.ts';
import type { Store } from '../../../src/simulation/api-server/store.ts';

const NAMESPACES = ['default', 'kube-system', 'kube-public', 'kube-node-lease'];
const SYSTEM: User = { name: 'system:apiserver', groups: ['system:masters'] };

const body = (apiVersion: string, kind: string, name: string, more: object = {}) =>
  ({ apiVersion, kind, metadata: { name }, ...more }) as unknown as ApiObject;

export function keepNamespaces(store: Store, registry: Registry, caPem: string): void {
  const accounts = knownKind('v1', 'serviceaccounts');
  const configMaps = knownKind('v1', 'configmaps');
  store.changes.on('event', ({ type, kind, object }) => {
    if (kind.resource !== 'namespaces' || type !== 'ADDED') return;
    const { name } = object.metadata;
    registry.create(accounts, name, body('v1', 'ServiceAccount', 'default'), SYSTEM);
    const bundle = body('v1', 'ConfigMap', 'kube-root-ca.crt', { data: { 'ca.crt': caPem } });
    registry.create(configMaps, name, bundle, SYSTEM);
  });
  for (const name of NAMESPACES) {
    registry.create(knownKind('v1', 'namespaces'), undefined, body('v1', 'Namespace', name), SYSTEM);
  }
}
