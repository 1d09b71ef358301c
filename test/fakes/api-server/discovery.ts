/** kubectl's requests before its actual one: groups, resources, version, and the parameters of verbs. */
import { apiVersionOf, KINDS, type Kind } from '../../../src/simulation/api-server/kinds.ts';

const VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch'];
const SERVER_VERSION = { major: '1', minor: '36', gitVersion: 'v1.36.2', platform: 'linux/amd64' };

const groupVersions = [...new Set(KINDS.filter(({ group }) => group !== '').map(apiVersionOf))];
const groups = [...new Set(KINDS.map(({ group }) => group))].filter((name) => name !== '');

/** The answer for a path of discovery, or `undefined` for other paths. */
export function discovery(path: string): unknown {
  const parts = path.split('/').filter(Boolean);
  const [root, ...rest] = parts;
  if (path === '/version') return SERVER_VERSION;
  if (root === 'openapi') return openApi(rest);
  if (path === '/api') return { kind: 'APIVersions', versions: ['v1'], serverAddressByClientCIDRs: [] };
  if (path === '/apis') return { kind: 'APIGroupList', apiVersion: 'v1', groups: groups.map(group) };
  if (root === 'api' && parts.length === 2) return resources(rest[0]!);
  if (root === 'apis' && parts.length === 3) return resources(rest.join('/'));
  if (root === 'apis' && parts.length === 2) {
    const found = groups.find((each) => each === rest[0]);
    return found === undefined ? undefined : { kind: 'APIGroup', apiVersion: 'v1', ...group(found) };
  }
  return undefined;
}

/** The first version in the table is the preferred one. */
function group(name: string) {
  const versions = groupVersions
    .filter((each) => each.startsWith(`${name}/`))
    .map((groupVersion) => ({ groupVersion, version: groupVersion.slice(name.length + 1) }));
  return { name, versions, preferredVersion: versions[0] };
}

function resources(groupVersion: string): unknown {
  const kinds = KINDS.filter((kind) => apiVersionOf(kind) === groupVersion);
  if (kinds.length === 0) return undefined;
  return {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion,
    resources: kinds.flatMap((kind) => [
      {
        name: kind.resource,
        singularName: kind.kind.toLowerCase(),
        namespaced: kind.namespaced,
        kind: kind.kind,
        verbs: kind.review ? ['create'] : VERBS,
        ...(kind.shortNames.length > 0 ? { shortNames: kind.shortNames } : {}),
        ...(['pods', 'services'].includes(kind.resource) ? { categories: ['all'] } : {}),
      },
      ...kind.subresources.map((name) => subresource(kind, name)),
    ]),
  };
}

const SUBRESOURCE_KINDS: Readonly<Record<string, readonly [string, string, string]>> = {
  eviction: ['Eviction', 'policy', 'v1'],
  binding: ['Binding', '', 'v1'],
  token: ['TokenRequest', 'authentication.k8s.io', 'v1'],
};

function subresource(kind: Kind, name: string) {
  const other = SUBRESOURCE_KINDS[name];
  const streamed = ['exec', 'attach', 'portforward', 'proxy', 'log'].includes(name);
  return {
    name: `${kind.resource}/${name}`,
    singularName: '',
    namespaced: kind.namespaced,
    ...(other ? { kind: other[0], group: other[1], version: other[2] } : { kind: kind.kind }),
    verbs: other ? ['create'] : streamed ? ['create', 'get'] : ['get', 'patch', 'update'],
  };
}

/** The part of OpenAPI that kubectl reads before it sends an object: the server checks fields itself. */
function openApi([version, ...rest]: readonly string[]): unknown {
  if (version !== 'v3') return undefined;
  const prefix = (groupVersion: string) => (groupVersion === 'v1' ? 'api/v1' : `apis/${groupVersion}`);
  const all = ['v1', ...groupVersions];
  if (rest.length === 0) {
    return {
      paths: Object.fromEntries(
        all.map((each) => [prefix(each), { serverRelativeURL: `/openapi/v3/${prefix(each)}` }]),
      ),
    };
  }
  const wanted = all.find((each) => prefix(each) === rest.join('/'));
  if (wanted === undefined) return undefined;
  const kinds = KINDS.filter((kind) => apiVersionOf(kind) === wanted);
  return {
    openapi: '3.0.0',
    info: { title: 'Kubernetes', version: SERVER_VERSION.gitVersion },
    paths: Object.fromEntries(kinds.map((kind) => [objectPath(kind), pathItem(kind)])),
    components: { schemas: {} },
  };
}

const objectPath = (kind: Kind): string =>
  `${kind.group === '' ? '/api' : '/apis'}/${apiVersionOf(kind)}/` +
  `${kind.namespaced ? 'namespaces/{namespace}/' : ''}${kind.resource}/{name}`;

function pathItem(kind: Kind) {
  const parameter = (name: string) => ({ name, in: 'query', schema: { type: 'string', uniqueItems: true } });
  const gvk = { group: kind.group, version: kind.version, kind: kind.kind };
  return {
    patch: {
      operationId: `patch${kind.kind}`,
      parameters: ['dryRun', 'fieldManager', 'fieldValidation', 'force'].map(parameter),
      responses: {},
      'x-kubernetes-action': 'patch',
      'x-kubernetes-group-version-kind': gvk,
    },
  };
}
