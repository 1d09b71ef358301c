/**
 * Disagreements of the documents with each other or with their own code, each with its resolution.
 *
 * `kept` is the order of this node, which its starts must follow; the documents with another order are named, and their
 * lists omit that promise.
 */
import type { OrderDocument, Promised } from './document.ts';

type Key = OrderDocument['key'];

export interface Contradiction {
  readonly rows: readonly string[];
  readonly question: string;
  readonly decided: string;
  readonly because: string;
  /** The documents with another order. */
  readonly against: readonly Key[];
  readonly kept: readonly Promised[];
}

export const CONTRADICTIONS: readonly Contradiction[] = [
  {
    rows: ['S028'],
    question: 'Are permissions checked by the command or by run(), after the container manager?',
    decided: 'by the command',
    because: 'three documents and the kubelet of today say so, and a warning helps most before anything can fail',
    against: ['E'],
    kept: [
      {
        before: 'permissions are checked',
        after: 'the container manager is begun',
        row: 'S028',
        note: 'the command comes before run',
      },
    ],
  },
  {
    rows: ['S216'],
    question: 'Is the log server registered always, or only when none was given?',
    decided: 'only when none was given',
    because: 'the code in B does that; the text of A leaves the condition out',
    against: ['A', 'D'],
    kept: [],
  },
  {
    rows: ['S236'],
    question: 'Must the network be ready before modules that need a runtime start?',
    decided:
      'no: RuntimeReady decides; the first complete list of PLEG, too, because nothing is synchronised before it',
    because: 'the code only notes a network error, and pods on the host network need no network plugin',
    against: ['A', 'D'],
    kept: [
      {
        before: 'PLEG starts',
        after: 'runtime-dependent modules start',
        row: 'S236',
        note: 'the first list is waited for',
      },
    ],
  },
  {
    rows: ['S078', 'S079'],
    question: 'Does an invalid --reserved-cpus become an empty set, or end the node?',
    decided: 'it ends the node',
    because: 'the code in E returns the error that its text says is dropped, as the kubelet of today does',
    against: ['E'],
    kept: [],
  },
  {
    rows: ['S223'],
    question: 'Does Run turn the node lease off?',
    decided: 'it turns it on',
    because: 'the remark in A is a slip: the line it explains starts the lease controller',
    against: ['A', 'D'],
    kept: [],
  },
  {
    rows: ['S110'],
    question: 'When does healthz start?',
    decided: 'when RunKubelet has returned',
    because: 'all documents agree; written down because a probe that answers earlier would lie',
    against: [],
    kept: [{ before: 'the start is said', after: 'healthz starts', row: 'S110', note: 'after RunKubelet' }],
  },
  {
    rows: ['S073'],
    question: 'Is the event recorder set up in run() or in RunKubelet, after the container manager?',
    decided: 'in run(), before the container manager',
    because: 'the container manager is given the recorder since v1.18, and a second set-up does nothing',
    against: ['C'],
    kept: [
      {
        before: 'the event recorder is set up',
        after: 'the container manager is begun',
        row: 'S073',
        note: 'the recorder comes first',
      },
    ],
  },
  {
    rows: ['S106'],
    question: 'Is the runtime connected after the OOM score, or before the cgroup roots?',
    decided: 'before the cgroup roots',
    because: 'the runtime names the cgroup driver that they depend on; the kubelet of today does so for that reason',
    against: ['A', 'B', 'D', 'E'],
    kept: [
      { before: 'auth is built', after: 'the runtime is connected', row: 'S106', note: 'auth needs no runtime' },
      {
        before: 'the cgroup driver is asked',
        after: 'cadvisor is created',
        row: 'S106',
        note: 'the driver comes first',
      },
      {
        before: 'the runtime service is ready',
        after: 'the container manager is begun',
        row: 'S106',
        note: 'the container manager is given the driver',
      },
    ],
  },
  {
    rows: ['S050'],
    question: 'Is the configuration published before or after the cgroup driver is known?',
    decided: 'after',
    because: 'what is published must be what is used',
    against: ['A', 'B', 'D', 'E'],
    kept: [],
  },
  {
    rows: ['S169', 'S175', 'S185', 'S186'],
    question: 'Are status manager and pod workers made before or after PLEG, container GC and image manager?',
    decided: 'before',
    because: 'the code in B is the newest; PLEG and the collectors speak to workers, so these must be there',
    against: ['A', 'C', 'D'],
    kept: [
      { before: 'pod workers are made', after: 'container GC starts', row: 'S175', note: 'collectors ask the workers' },
      { before: 'pod workers are made', after: 'PLEG starts', row: 'S175', note: 'what PLEG finds is for workers' },
      { before: 'the status manager is made', after: 'image GC starts', row: 'S169', note: 'as the code of B has it' },
    ],
  },
  {
    rows: ['S024', 'S109'],
    question: 'Does a dynamic configuration end the node, or is its controller attached?',
    decided: 'neither: the gate and its flag are unknown to this node and refused as such',
    because: 'the kubelet of today has neither',
    against: ['A', 'B', 'D', 'E'],
    kept: [],
  },
];
