/**
 * The services of the cluster (`services` below `objects`), for the environment variables of pods.
 *
 * Decides: which services a pod of a namespace gets, and their variables.
 * Owns: name, address and ports of each service; the wanted keys, and the version that was last published for each.
 * Hears: its reflector, `services.wanted` of `objects`.
 * Asks: its reflector.
 * Sends: `objects` `object.observed` for each wanted key.
 * Invariants:
 *   S1 nothing is published before the first complete list: a pod must not miss the address of the API server.
 *   S2 a service without a cluster IP has no variables.
 */

import { type Ended, type EnqueueOf, sendParent, setup, typed } from '../../../kernel/xstate.ts';
import { versionOf } from '../../model/objects/config-objects.ts';
import { idOf, type ObjectObserved } from '../../model/objects/keys.ts';
import { type Service, serviceOf, serviceVariables } from '../../model/objects/service-variables.ts';
import type { KubeObject } from '../../model/operations/kube.ts';
import { REOPEN_MS, type ReflectorReport, reflectorCrash, reflectorMachine } from '../kube/reflector.ts';

export interface ServicesWanted {
  readonly type: 'services.wanted';
  readonly keys: readonly string[];
}

interface Context {
  /** Services by `<namespace>/<name>`. */
  readonly services: Readonly<Record<string, Service>>;
  readonly isListed: boolean;
  /** By wanted key, the version that was last published. */
  readonly reported: Readonly<Record<string, string>>;
}

const s = setup({
  types: typed<{ context: Context; events: ReflectorReport | ServicesWanted | Ended }>(),
  actors: { reflector: reflectorMachine },
});

type Enqueue = EnqueueOf<typeof s>;

const nameOf = ({ metadata: { namespace, name } }: KubeObject): string =>
  `${typeof namespace === 'string' ? namespace : ''}/${name}`;

/** Publishes the wanted keys whose value changed, once services were listed. */
function settle(enqueue: Enqueue, next: Context): void {
  const reported: Record<string, string> = {};
  for (const [key, before] of Object.entries(next.reported)) {
    reported[key] = next.isListed ? sendKey(enqueue, key, before, next.services) : before;
  }
  enqueue.assign({ ...next, reported });
}

function sendKey(enqueue: Enqueue, key: string, before: string, services: Context['services']): string {
  const { namespace, name } = idOf(key);
  const variables = serviceVariables(Object.values(services), namespace, name);
  const version = versionOf(variables);
  if (version === before) return version;
  const data = Object.fromEntries(variables.map(([variable, text]) => [variable, { text }]));
  const object = { kind: 'Services', namespace, name, version, data } as const;
  enqueue(sendParent({ type: 'object.observed', key, state: 'found', object } satisfies ObjectObserved));
  return version;
}

const handleList = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'reflector.listed') return;
  const services = event.items.flatMap((object) => {
    const service = serviceOf(object);
    return service === null ? [] : [[nameOf(object), service] as const];
  });
  settle(enqueue, { ...context, isListed: true, services: Object.fromEntries(services) });
});

const handleChange = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'reflector.changed') return;
  const name = nameOf(event.object);
  const { [name]: _old, ...others } = context.services;
  const service = event.change === 'DELETED' ? null : serviceOf(event.object);
  settle(enqueue, { ...context, services: service === null ? others : { ...others, [name]: service } });
});

const handleWanted = s.enqueueActions(({ context, event, enqueue }) => {
  if (event.type !== 'services.wanted') return;
  settle(enqueue, {
    ...context,
    reported: Object.fromEntries(event.keys.map((key) => [key, context.reported[key] ?? ''])),
  });
});

export const servicesMachine = s.createMachine({
  id: 'services',
  context: { services: {}, isListed: false, reported: {} },
  initial: 'watching',
  on: { 'services.wanted': { actions: handleWanted } },
  states: {
    watching: {
      invoke: {
        id: 'reflector',
        src: 'reflector',
        input: {
          target: { client: 'kube', apiVersion: 'v1', resource: 'services' },
          fieldSelector: 'spec.clusterIP!=None',
        },
        onDone: 'reopening',
        onError: { target: 'reopening', actions: reflectorCrash('the services of the API server') },
      },
      on: { 'reflector.listed': { actions: handleList }, 'reflector.changed': { actions: handleChange } },
    },
    reopening: { after: { [REOPEN_MS]: 'watching' } },
  },
});
