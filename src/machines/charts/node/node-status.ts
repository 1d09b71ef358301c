/**
 * Node status: keeps the Node object of this machine up to date.
 *
 * Decides: when the status is sent, and its content; which changes of conditions are events.
 * Owns: the reports of the subsystems, the Node as the API server last had it.
 * Hears: `node.wanted` of `allocation`, `objects` and `csiVolumes`; `node.reported` of every subsystem that reports a
 *   part of the Node, `eviction.conditions`; `node.addressed` of the supervisor; `images.changed` of the runtime; the
 *   watch of its own Node.
 * Asks: `registration` first; then `cri.watchImages`, `kube.get` of the Node, and `kube.patch` of nodes/status by the
 *   heartbeat client.
 * Sends: `lease` and `csiNode` `node.registered`; `allocation` and `podCIDR` `node.known` on each change of it;
 *   `objects` its labels and `csiVolumes` its volumes, when they changed; `deviceManager` and `eviction` that it needs
 *   their reports; the supervisor `hostAddresses.changed` where a cloud provider sets the addresses.
 * Invariants:
 *   O1 a changed condition, or one more volume in use, is published at once, other changes with the next period, and a
 *      new heartbeat alone rarely.
 *   O2 a PATCH has only the fields that differ from the Node of the API server.
 *   O3 after a restart unchanged fields are not sent.
 *   O4 a deleted Node stays deleted until another client creates it or this agent restarts; its status is tried with
 *      each period, without events.
 * Upstream: syncNodeStatus, tryUpdateNodeStatus, fastStatusUpdateOnce. Seeds: S216, S220 to S223.
 */

import { assign, errorOf, line, now, outputOf, random, sendParent, sendTo, to } from '../../../kernel/xstate.ts';
import type { NodeKnown } from '../../model/allocation/messages.ts';
import type { Node } from '../../model/api/pod.ts';
import { namesOf, requestedNames } from '../../model/operations/certificate.ts';
import { nodeEvent } from '../../model/pods/pod-messages.ts';
import { hasBehavior } from '../../model/settings/behaviors.ts';
import type { Context, Enqueue, HostAddressesChanged } from './node-status-setup.ts';
import {
  ADDRESSES_MAX,
  isAsKubelet,
  isCloudAddressed,
  labelsOf,
  projected,
  recordsConditionsOnce,
  nodeStatusSetup as s,
  statusOf,
} from './node-status-setup.ts';
import { transitionEvents } from './object/conditions.ts';
import { NOTHING_REPORTED, nodeImages, PRESSURE_MS, pressures, pressuresIn, withReports } from './object/facts.ts';
import { hasChange, labelsIn, newNode, statusPatch, volumesIn, withoutRecreation } from './object/node.ts';
import { nodeIn, nodeTarget, type Registered } from './registration.ts';

/** How long upstream waits for the runtime at the start of a kubelet. */
const DECIDING_MS = 30_000;
/** The pause before a missing Node is requested again. */
const GET_AGAIN_MS = 1_000;

const noteReport = s.assign({
  isPressureOld: ({ context, event }) => context.isPressureOld && event.type !== 'eviction.conditions',
  reports: ({ context, event }) => {
    if (event.type === 'pressure.seen' && context.isPressureOld) return { ...context.reports, ...pressures([]) };
    if (event.type === 'node.reported') {
      return withoutRecreation(withReports(context.reports, event.reports), context.node);
    }
    if (event.type === 'eviction.conditions') return { ...context.reports, ...pressures(event.conditions) };
    if (event.type !== 'images.changed') return context.reports;
    return { ...context.reports, images: nodeImages(event.images, context.maxImages) };
  },
});

const noteAddresses = s.assign({
  facts: ({ context, event }) =>
    event.type === 'node.addressed' ? { ...context.facts, addresses: event.addresses } : context.facts,
});

function emit(enqueue: Enqueue, { facts }: Context, eventType: 'Normal' | 'Warning', reason: string, message?: string) {
  const text = message ?? `Node ${facts.nodeName} status is now: ${reason}`;
  enqueue.sendTo(to('eventRecorder'), nodeEvent(facts.nodeName, { type: eventType, reason, message: text }));
}

/** Sends parts of the Node to the actors that need them, when they changed. */
function reportParts(enqueue: Enqueue, before: Node | null, node: Node): void {
  const isNew = (part: (of: Node) => object) =>
    before === null || JSON.stringify(part(before)) !== JSON.stringify(part(node));
  if (isNew(labelsIn)) enqueue.sendTo(to('objects'), labelsIn(node));
  if (isNew(volumesIn)) enqueue.sendTo(to('csiVolumes'), volumesIn(node));
}

function noteDeleted(enqueue: Enqueue): void {
  enqueue.assign({ node: null });
  enqueue.sendTo(to('lease'), { type: 'node.gone' });
}

/** The current Node: other clients' changes are kept and published, and corrected in fields that this node owns. */
const noteNode = s.enqueueActions(({ context, event, enqueue }) => {
  const node = nodeIn(event, context.facts.nodeName);
  if (node === null) return noteDeleted(enqueue);
  const before = context.node?.spec?.unschedulable ?? false;
  const after = node.spec?.unschedulable ?? false;
  if (before !== after) emit(enqueue, context, 'Normal', after ? 'NodeNotSchedulable' : 'NodeSchedulable');
  const { bootID } = context.facts.info;
  const known = node.status?.nodeInfo?.bootID ?? '';
  if (context.node === null && known !== '' && known !== bootID) {
    const text = `Node ${context.facts.nodeName} has been rebooted, boot id: ${bootID}`;
    emit(enqueue, context, 'Warning', 'Rebooted', text);
  }
  enqueue.assign({ node, reports: withoutRecreation(context.reports, node) });
  reportParts(enqueue, context.node, node);
  const message: NodeKnown = { type: 'node.known', node };
  for (const id of ['allocation', 'podCIDR']) enqueue.sendTo(to(id), message);
  const addresses = node.status?.addresses ?? [];
  if (JSON.stringify(addresses) !== JSON.stringify(context.node?.status?.addresses ?? [])) {
    const names = hasBehavior(context, 'certificatesAsKubelet') ? requestedNames(addresses) : namesOf(addresses);
    enqueue.sendTo(to('servingCertificate'), { type: 'certificate.namesChanged', ...names });
    if (isCloudAddressed(context)) {
      const hostAddresses = addresses.slice(0, ADDRESSES_MAX);
      enqueue(sendParent({ type: 'hostAddresses.changed', hostAddresses } satisfies HostAddressesChanged));
    }
  }
});

const sendAgain = s.enqueueActions(({ context, enqueue }) => {
  if (!context.node) return;
  enqueue.sendTo(to('allocation'), { type: 'node.known', node: context.node } satisfies NodeKnown);
  reportParts(enqueue, null, context.node);
});

/** Each start reports pressure, as upstream; everything else in an existing Node was reported by an earlier one. */
const noteExisting = s.enqueueActions((args) => {
  const { context, event, enqueue } = args;
  const isNew = outputOf<Partial<Registered>>(event).isNew === true;
  const known = context.node?.status?.conditions ?? [];
  if (isNew || !isAsKubelet(context)) return enqueue.assign({ recorded: isNew ? [] : known });
  const old = context.isPressureOld && hasBehavior(context, 'evictionAsKubelet') ? pressuresIn(known) : {};
  const reports = { ...context.reports, ...old };
  const pressure = (projected({ ...context, reports }, now(args)).conditions ?? []).filter(
    ({ type }) => type !== 'Ready',
  );
  for (const reason of transitionEvents([], pressure)) emit(enqueue, context, 'Normal', reason);
  if (Object.keys(old).length > 0) enqueue.raise({ type: 'pressure.seen' }, { delay: PRESSURE_MS });
  enqueue.assign({ recorded: null, reports });
});

/** Begins a period without retries: the Node is current. */
const beginPeriod = s.assign(({ context }) => (isAsKubelet(context) ? { tries: 0 } : {}));

const announce = s.enqueueActions(({ context, enqueue }) => {
  const registered = { type: 'node.registered', uid: context.node?.metadata?.uid ?? '' } as const;
  for (const id of ['lease', 'csiNode']) enqueue.sendTo(to(id), registered);
});

/** Logs that another client created the Node again. */
const announceAnother = s.enqueueActions(({ context, event, enqueue }) => {
  const uid = nodeIn(event, context.facts.nodeName)?.metadata?.uid;
  if (uid !== undefined && uid !== context.node?.metadata?.uid) {
    enqueue.sendTo(to('lease'), { type: 'node.registered', uid });
  }
});

const compose = s.enqueueActions((args) => {
  const { context, enqueue } = args;
  const nowMs = now(args);
  const next = projected(context, nowMs);
  const before = context.recorded ?? statusOf(context).conditions ?? [];
  const [asKubelet, conditions] = [isAsKubelet(context), next.conditions ?? []];
  const isSilent = context.tries > 0 || context.node === null;
  const reasons = asKubelet && isSilent ? [] : transitionEvents(before, conditions);
  for (const reason of reasons) emit(enqueue, context, 'Normal', reason);
  const recorded = asKubelet && !recordsConditionsOnce(context) ? null : conditions;
  enqueue.assign({ next, recorded, reportedAtMs: nowMs, tries: context.tries + 1 });
});

/**
 * The Node shows the recorded conditions, or they are no longer tried: changes are counted from those of the Node. The
 * conditions of a new Node are all recorded with its first report.
 */
const forgetRecorded = s.assign(({ context }) =>
  recordsConditionsOnce(context) && context.recorded?.length !== 0 ? { recorded: null } : {},
);

/** Spreads the reports of nodes that changed together: half to one and a half of the period, as upstream. */
const scheduleNextReport = s.assign((args) => {
  const { context } = args;
  const wasChanged = hasChange(statusOf(context), context.next);
  return { tries: 0, quietMs: context.reportFrequencyMs * (wasChanged ? 0.5 + random(args) : 1) };
});

const failed = s.enqueueActions(({ context, event, enqueue }) => {
  const { code, message } = errorOf(event);
  const prefix = code === 'NotFound' ? `error getting node ${JSON.stringify(context.facts.nodeName)}: ` : '';
  enqueue(line('error', ['Error updating node status, will retry', { err: `${prefix}${message}` }]));
});

/** The device manager has started before; so has the eviction manager, if this is not the first start. */
const wantReports = s.enqueueActions(({ context, enqueue }) => {
  if (!hasBehavior(context, 'managersAsKubelet')) return;
  enqueue.sendTo(to('deviceManager'), { type: 'devices.amountsWanted' });
  enqueue.sendTo(to('eviction'), { type: 'eviction.conditionsWanted' });
});

export const nodeStatusMachine = s.createMachine({
  id: 'nodeStatus',
  context: ({ input }) => ({
    ...input,
    reports: { ...NOTHING_REPORTED, ...input.reports },
    node: null,
    recorded: [],
    next: {},
    isPressureOld: true,
    reportedAtMs: 0,
    quietMs: input.reportFrequencyMs,
    tries: 0,
  }),
  entry: [sendTo(to('runtimeState'), { type: 'runtimeState.wanted' }), wantReports],
  initial: 'choosing',
  on: {
    'node.wanted': { actions: sendAgain },
    'node.reported': { actions: noteReport },
    'node.addressed': { actions: noteAddresses },
    'images.changed': { actions: noteReport },
    'eviction.conditions': { actions: noteReport },
    'pressure.seen': { actions: noteReport },
  },
  states: {
    choosing: { always: [{ guard: 'registersItself', target: 'registering' }, { target: 'gettingNode' }] },
    registering: {
      meta: { steps: 'S216', waitsFor: 'the Node to be registered' },
      invoke: {
        id: 'registration',
        src: 'registration',
        input: (args) => {
          const status = projected(args.context, now({ system: args.self.system }));
          const { facts, getsOnExistsOnly = false } = args.context;
          return { facts, node: newNode(facts, status), ...(getsOnExistsOnly ? { getsOnExistsOnly } : {}) };
        },
        onDone: { target: 'known', actions: [noteNode, noteExisting] },
        onError: { target: 'absent', actions: failed },
      },
    },
    gettingNode: {
      meta: { waitsFor: 'another client to register the Node' },
      invoke: {
        id: 'get',
        src: 'kube.get',
        input: ({ context }) => nodeTarget(context.facts.nodeName),
        onDone: { target: 'known', actions: [noteNode, noteExisting] },
        onError: { target: 'absent', actions: failed },
      },
    },
    absent: { after: { [GET_AGAIN_MS]: 'choosing' } },
    known: {
      meta: { waitsFor: 'a first observation of the runtime and of the CSINode' },
      entry: [assign({ reportedAtMs: (args) => now({ system: args.self.system }) }), announce],
      // A ready Node is not reported as not ready before its conditions were observed once.
      always: { guard: 'isDecided', target: 'reporting' },
      after: { [DECIDING_MS]: 'reporting' },
    },
    reporting: {
      invoke: [
        {
          id: 'watch',
          src: 'reflector',
          input: ({ context }) => ({
            target: { client: 'kube', apiVersion: 'v1', resource: 'nodes' },
            fieldSelector: `metadata.name=${context.facts.nodeName}`,
          }),
          onError: { target: 'absent', actions: failed },
        },
        {
          id: 'images',
          src: 'cri.watchImages',
          input: ({ context }) => ({ periodMs: context.updateFrequencyMs }),
          onError: { target: 'absent', actions: failed },
        },
      ],
      on: {
        'reflector.listed': { target: '.judging', actions: [announceAnother, noteNode, beginPeriod] },
        'reflector.changed': [
          {
            guard: ({ event }) => event.change === 'DELETED',
            target: '.calm',
            actions: [s.enqueueActions(({ enqueue }) => noteDeleted(enqueue)), forgetRecorded],
          },
          { target: '.judging', actions: [announceAnother, noteNode, beginPeriod] },
        ],
      },
      initial: 'judging',
      states: {
        judging: {
          always: [
            { guard: 'isUrgent', target: 'patching' },
            { target: 'calm', actions: forgetRecorded },
          ],
        },
        calm: {
          after: { nextReport: 'patching' },
          on: {
            'node.reported': { target: 'judging', actions: noteReport },
            'node.addressed': { target: 'judging', actions: noteAddresses },
            'images.changed': { target: 'judging', actions: noteReport },
            'eviction.conditions': { target: 'judging', actions: noteReport },
            'pressure.seen': { target: 'judging', actions: noteReport },
          },
        },
        patching: {
          meta: { waitsFor: "the API server to take the node's status" },
          entry: compose,
          invoke: {
            id: 'patch',
            src: 'kube.patch',
            input: ({ context }) => ({
              ...nodeTarget(context.facts.nodeName),
              client: 'heartbeat',
              subresource: 'status',
              patchType: 'application/strategic-merge-patch+json' as const,
              body: { ...statusPatch(statusOf(context), context.next), ...labelsOf(context) },
            }),
            onDone: { target: 'judging', actions: [scheduleNextReport, noteNode, forgetRecorded] },
            onError: [
              { guard: 'mayTryAgain', target: 'patching', reenter: true, actions: failed },
              {
                target: 'calm',
                actions: [
                  assign({ tries: 0 }),
                  forgetRecorded,
                  line('error', ['Unable to update node status', { err: 'update node status exceeds retry count' }]),
                ],
              },
            ],
          },
        },
      },
    },
  },
});
