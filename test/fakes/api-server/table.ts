/** Server-side printing: the columns of `kubectl get`. */
import { type ApiObject, type Fields, type Kind, textOf } from '../../../src/simulation/api-server/kinds.ts';

interface Column {
  readonly name: string;
  readonly wide?: boolean;
  readonly of: (object: ApiObject) => string | number;
}

const list = (value: unknown): Fields[] => (Array.isArray(value) ? (value as Fields[]) : []);
const text = (value: unknown): string => (typeof value === 'string' && value !== '' ? value : '<none>');

/** As duration.HumanDuration, in whole units. */
function age({ metadata }: ApiObject): string {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(metadata.creationTimestamp)) / 1_000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return `${minutes}m${seconds % 60 === 0 ? '' : `${seconds % 60}s`}`;
  return minutes < 180
    ? `${minutes}m`
    : minutes < 2_880
      ? `${Math.floor(minutes / 60)}h`
      : `${Math.floor(minutes / 1_440)}d`;
}

const NAME: Column = { name: 'Name', of: ({ metadata }) => metadata.name };
const AGE: Column = { name: 'Age', of: age };

const COLUMNS: Readonly<Record<string, readonly Column[]>> = {
  pods: [
    NAME,
    {
      name: 'Ready',
      of: ({ spec, status }) =>
        `${list(status?.['containerStatuses']).filter(({ ready }) => ready === true).length}/${list(spec?.['containers']).length}`,
    },
    { name: 'Status', of: podStatus },
    {
      name: 'Restarts',
      of: ({ status }) =>
        list(status?.['containerStatuses']).reduce((sum, { restartCount }) => sum + Number(restartCount ?? 0), 0),
    },
    AGE,
    { name: 'IP', wide: true, of: ({ status }) => text(status?.['podIP']) },
    { name: 'Node', wide: true, of: ({ spec }) => text(spec?.['nodeName']) },
  ],
  nodes: [
    NAME,
    { name: 'Status', of: nodeStatus },
    { name: 'Roles', of: nodeRoles },
    AGE,
    { name: 'Version', of: ({ status }) => text((status?.['nodeInfo'] as Fields | undefined)?.['kubeletVersion']) },
    {
      name: 'Internal-IP',
      wide: true,
      of: ({ status }) => text(list(status?.['addresses']).find(({ type }) => type === 'InternalIP')?.['address']),
    },
  ],
  events: [
    { name: 'Last Seen', of: age },
    { name: 'Type', of: (event) => text(event['type']) },
    { name: 'Reason', of: (event) => text(event['reason']) },
    { name: 'Object', of: (event) => involved(event) },
    { name: 'Message', of: (event) => text(event['message']) },
  ],
  certificatesigningrequests: [
    NAME,
    AGE,
    { name: 'SignerName', of: ({ spec }) => text(spec?.['signerName']) },
    { name: 'Requestor', of: ({ spec }) => text(spec?.['username']) },
    { name: 'Condition', of: csrCondition },
  ],
};

function podStatus({ metadata, status }: ApiObject): string {
  if (metadata.deletionTimestamp !== undefined) return 'Terminating';
  const waiting = list(status?.['containerStatuses'])
    .map(
      ({ state }) => (state as { waiting?: { reason?: string }; terminated?: { reason?: string } } | undefined) ?? {},
    )
    .map((state) => state.waiting?.reason ?? state.terminated?.reason)
    .findLast((reason) => reason !== undefined && reason !== '');
  return waiting ?? text(status?.['reason'] ?? status?.['phase']);
}

function nodeStatus({ spec, status }: ApiObject): string {
  const ready = list(status?.['conditions']).find(({ type }) => type === 'Ready');
  const word = ready === undefined ? 'Unknown' : ready['status'] === 'True' ? 'Ready' : 'NotReady';
  return spec?.['unschedulable'] === true ? `${word},SchedulingDisabled` : word;
}

function nodeRoles({ metadata }: ApiObject): string {
  const prefix = 'node-role.kubernetes.io/';
  const roles = Object.keys(metadata.labels ?? {}).filter((label) => label.startsWith(prefix));
  return roles.map((label) => label.slice(prefix.length)).join(',') || '<none>';
}

function involved(event: ApiObject): string {
  const { kind, name } = (event['involvedObject'] ?? {}) as { kind?: string; name?: string };
  return `${(kind ?? '').toLowerCase()}/${name ?? ''}`;
}

function csrCondition({ status }: ApiObject): string {
  const types = list(status?.['conditions']).map(({ type }) => textOf(type));
  const issued = status?.['certificate'] === undefined ? [] : ['Issued'];
  return [...types, ...issued].join(',') || 'Pending';
}

/** A Table of the objects; each row contains as much of its object as the client requested. */
export function tableOf(
  kind: Kind,
  objects: readonly ApiObject[],
  include: string | null,
  resourceVersion: string,
): unknown {
  const columns = COLUMNS[kind.resource] ?? [NAME, AGE];
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata: { resourceVersion },
    columnDefinitions: columns.map(({ name, wide }) => ({
      name,
      type: 'string',
      format: name === 'Name' ? 'name' : '',
      description: '',
      priority: wide === true ? 1 : 0,
    })),
    rows: objects.map((object) => ({ cells: columns.map(({ of }) => of(object)), object: rowObject(object, include) })),
  };
}

function rowObject(object: ApiObject, include: string | null): unknown {
  if (include === 'None') return undefined;
  if (include === 'Object') return object;
  return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata };
}
