/**
 * Registration: makes sure that the API server has a Node for this machine.
 *
 * Decides: create, or bring an existing Node's labels and annotations in line.
 * Owns: the pause before the next attempt.
 * Hears: only the answers of its operations.
 * Asks: `kube.create`, `kube.get`, `kube.patch` of its own Node.
 * Answers: the Node as the API server has it, and whether this start created it.
 * Invariants:
 *   N1 it never gives up and never ends the agent.
 *   N2 an existing Node keeps the fields that other clients set.
 * Upstream: registerWithAPIServer. Seeds: S146, S216.
 */

import { assign, type Ended, errorOf, line, outputOf, pick, required, setup, typed } from '../../../kernel/xstate.ts';
import type { Node } from '../../model/api/pod.ts';
import { kubeOperations } from '../../model/operations/kube.ts';
import { doubledMs, NODE_BACK_OFF } from '../../model/values/time.ts';
import type { NodeFacts } from './object/facts.ts';
import { reconciliation } from './object/node.ts';

export interface RegistrationInput {
  readonly facts: NodeFacts;
  /** The Node that is created when there is none yet. */
  readonly node: Node;
  /** An agent that may not create Nodes does not read one either (gate KubeletRegistrationGetOnExistsOnly). */
  readonly getsOnExistsOnly?: boolean;
}

export interface Registered {
  readonly node: Node;
  /** False when an earlier start, or another client, created the Node. */
  readonly isNew: boolean;
}

interface Context extends RegistrationInput {
  readonly isNew: boolean;
  readonly retryMs: number;
  readonly existing: Node | null;
}

export const codeOf = (event: { error: unknown }): string => errorOf(event).code ?? '';

const existingIn = ({ existing }: Context): Node => required(existing, 'the Node that exists');

const mayExist = ({ getsOnExistsOnly = false }: Context, code: string): boolean =>
  code === 'AlreadyExists' || (code === 'Forbidden' && !getsOnExistsOnly);

const s = setup({
  types: typed<{ input: RegistrationInput; context: Context; events: Ended; output: Registered }>(),
  actors: pick(kubeOperations, 'kube.create', 'kube.get', 'kube.patch'),
  guards: { isInLine: ({ context }) => reconciliation(context.facts, existingIn(context)) === null },
  delays: { retry: ({ context }) => context.retryMs },
});

/** The newest version of our Node in this event. */
export function nodeIn(event: unknown, nodeName: string): Node | null {
  const { output, items, object } = event as { output?: Node | Registered; items?: readonly Node[]; object?: Node };
  if (output) return 'isNew' in output ? output.node : output;
  return object ?? items?.find(({ metadata }) => metadata?.name === nodeName) ?? null;
}

export const nodeTarget = (nodeName: string) =>
  ({ client: 'kube', apiVersion: 'v1', resource: 'nodes', name: nodeName }) as const;

const noteExisting = s.assign({ existing: ({ event }) => outputOf<Node>(event) });

const unable = (text: string) =>
  s.enqueueActions(({ context, event, enqueue }) => {
    const { message } = errorOf(event);
    enqueue(line('error', [text, { node: context.facts.nodeName, err: message }]));
  });

export const registrationMachine = s.createMachine({
  id: 'registration',
  context: ({ input }) => ({ ...input, isNew: false, retryMs: NODE_BACK_OFF.baseMs, existing: null }),
  initial: 'creating',
  states: {
    creating: {
      meta: { waitsFor: 'the API server to take the Node' },
      entry: line('info', ({ context }) => ['Attempting to register node', { node: context.facts.nodeName }]),
      invoke: {
        id: 'create',
        src: 'kube.create',
        input: ({ context }) => {
          const { name: _generated, ...target } = nodeTarget(context.facts.nodeName);
          return { ...target, body: context.node };
        },
        onDone: {
          target: 'registered',
          actions: [
            s.assign({ existing: ({ event }) => outputOf<Node>(event), isNew: true }),
            line('info', ({ context }) => ['Successfully registered node', { node: context.facts.nodeName }]),
          ],
        },
        onError: [
          // An agent that may not create Nodes may find one that another client created.
          { guard: ({ context, event }) => mayExist(context, codeOf(event)), target: 'reading' },
          { target: 'backingOff', actions: unable('Unable to register node with API server') },
        ],
      },
    },
    reading: {
      meta: { waitsFor: 'the Node that exists' },
      invoke: {
        id: 'get',
        src: 'kube.get',
        input: ({ context }) => nodeTarget(context.facts.nodeName),
        onDone: { target: 'comparing', actions: noteExisting },
        onError: {
          target: 'backingOff',
          actions: unable('Unable to register node with API server, error getting existing node'),
        },
      },
    },
    comparing: {
      entry: line('info', ({ context }) => ['Node was previously registered', { node: context.facts.nodeName }]),
      always: [{ guard: 'isInLine', target: 'registered' }, { target: 'reconciling' }],
    },
    reconciling: {
      meta: { waitsFor: 'the API server to take the corrected Node' },
      invoke: {
        id: 'patch',
        src: 'kube.patch',
        input: ({ context }) => ({
          ...nodeTarget(context.facts.nodeName),
          patchType: 'application/strategic-merge-patch+json' as const,
          body: reconciliation(context.facts, existingIn(context)),
        }),
        onDone: { target: 'registered', actions: noteExisting },
        onError: {
          target: 'backingOff',
          actions: unable('Unable to reconcile node with API server, error updating node'),
        },
      },
    },
    backingOff: {
      meta: { waitsFor: 'the next try to register' },
      exit: assign({ retryMs: ({ context }) => doubledMs(NODE_BACK_OFF, context.retryMs) }),
      after: { retry: 'creating' },
    },
    registered: { type: 'final' },
  },
  output: ({ context }) => ({ node: existingIn(context), isNew: context.isNew }),
});
