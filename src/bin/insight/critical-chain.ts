/**
 * The critical chain of a start, until healthz answered, or until a pod was Running. Pure.
 *
 * A link is an input of the node: the answer of an operation, a fired timer, an item of a stream. Its duration is the
 * time from its cause until the operation answered, the timer fired or the item arrived. A report of the runtime's
 * stream about a pod counts as the answer to the pod's last call, which may come later. Handling an input is one turn
 * and takes no time of the kernel's clock.
 */
import { duration, lastOf, WAITED_FOR } from '../../visualizer/words.ts';
import { table } from '../printable.ts';
import { actorName, describeGaps, type Moment, type PodStory, type Story } from './story.ts';

interface Link {
  readonly n: number;
  readonly kind: 'start' | 'operation' | 'timer' | 'news' | 'input';
  /** Milliseconds after the start of the incarnation. */
  readonly atMs: number;
  readonly tookMs: number;
  readonly actor: string;
  readonly what: string;
  /** The messages between actors in this turn because of it, as `actor: event`. */
  readonly followed: readonly string[];
}

export interface CriticalChain {
  readonly incarnation: string;
  readonly goal: string;
  readonly totalMs: number;
  /** Until operations answered: files, calls of the runtime, of the API server, of plugins. */
  readonly workingMs: number;
  /** Until timers fired and events came. */
  readonly waitingMs: number;
  readonly links: readonly Link[];
  /** False if the first causes are missing, because older segments were removed or lie in a gap. */
  readonly whole: boolean;
  readonly gaps: Story['gaps'];
}

export interface Goal {
  readonly name: string;
  readonly n: number;
}

/** The goal by its name on the command line; a string is the reason why there is none. */
export function goalOf(story: Story, target: string | undefined): Goal | string {
  if (target === undefined || target === 'healthz') {
    if (story.healthz) return { name: 'healthz answers', n: story.healthz.n };
    const pods = [...story.pods.values()].filter(({ running }) => running).map(({ name }) => `pod/${name}`);
    return `healthz never answered in this journal${pods.length > 0 ? `; ask for ${pods.join(' or ')}` : ''}`;
  }
  const found = podNamed(story, target.replace(/^pod\//, ''));
  if (typeof found === 'string') return found;
  if (!found.running) return `pod ${found.namespace}/${found.name} was never Running in this journal`;
  return { name: `pod ${found.namespace}/${found.name} is Running`, n: found.running.n };
}

/**
 * Finds a pod by `name`, `namespace/name`, uid, or the beginning of only one name (a manifest's name, to which the
 * node's name is appended). Of several pods with the same name it is the last one.
 */
export function podNamed({ header, pods }: Story, name: string): PodStory | string {
  const all = [...pods.values()];
  const exact = all.findLast((pod) => [pod.name, `${pod.namespace}/${pod.name}`, pod.uid].includes(name));
  if (exact) return exact;
  const begun = all.filter((pod) => pod.name.startsWith(`${name}-`));
  const names = [...new Set(begun.map((pod) => pod.name))];
  const last = begun.at(-1);
  if (last && names.length === 1) return last;
  if (names.length > 1) return `pod ${name} could be ${names.join(', ')}`;
  const known = all.map((pod) => pod.name).join(', ') || 'none';
  return `there is no pod ${name} in start ${header.incarnation}; it has ${known} (JOURNAL@NUMBER is another start)`;
}

export function criticalChain(story: Story, goal: Goal): CriticalChain {
  const path = workOf(story, goal.n);
  const links: Link[] = [];
  let previous = path[0];
  for (const moment of path) {
    const kind = isWork(previous, moment, story) ? 'operation' : kindOf(moment, story);
    const last = links.at(-1);
    if (!last) links.push(linkOf(moment, kind ?? 'input', 0, story));
    else if (kind !== undefined) links.push(linkOf(moment, kind, moment.t - (previous ?? moment).t, story));
    else if (moment.k === 'message') links.splice(-1, 1, withMessage(last, moment, story));
    previous = moment;
  }
  const spent = (kinds: readonly Link['kind'][]): number =>
    links.reduce((sum, { kind, tookMs }) => sum + (kinds.includes(kind) ? tookMs : 0), 0);
  return {
    incarnation: story.header.incarnation,
    goal: goal.name,
    totalMs: (path.at(-1)?.t ?? story.started) - (path[0]?.t ?? story.started),
    workingMs: spent(['operation']),
    waitingMs: spent(['timer', 'news', 'input']),
    links,
    whole: path[0]?.k === 'header',
    gaps: story.gaps,
  };
}

/** From the first known cause to the record itself. A cause is always older than its effect. */
export function causesOf({ moments }: Story, n: number): Moment[] {
  const path: Moment[] = [];
  for (let at = moments.get(n); at; at = at.cause === undefined ? undefined : moments.get(at.cause)) path.push(at);
  return path.toReversed();
}

/**
 * As {@link causesOf}, except that a report about a pod follows from the pod's request to the runtime, not from the
 * stream.
 */
function workOf(story: Story, n: number): Moment[] {
  const path = causesOf(story, n);
  const at = path.findLastIndex((moment) => kindOf(moment, story) === 'news');
  const [stream, news] = [path[at - 1], path[at]];
  const pod = path.slice(at).find(({ actor }) => POD.test(actor))?.actor;
  if (!stream || !news || pod === undefined) return path;
  const call = [...story.moments.values()].findLast((moment) => {
    const isBetween = moment.n > stream.n && moment.n < news.n;
    return isBetween && moment.actor.startsWith(`${pod}/`) && changesRuntime(moment, story);
  });
  return call === undefined ? path : [...workOf(story, call.n), ...path.slice(at)];
}

const POD = /^kubelet\/pods\/pod-[^/]+$/;

function changesRuntime({ k, what, request }: Moment, { operations }: Story): boolean {
  if ((k !== 'effect' && k !== 'result') || !what.startsWith('cri.')) return false;
  // The end of the operation may lie in a gap; then its class is unknown.
  const cls = request === undefined ? undefined : operations.get(request)?.class;
  return cls === 'once' || cls === 'idempotent';
}

/** A stream of the runtime may report the effect of a call before the call is answered. */
const isWork = (previous: Moment | undefined, moment: Moment, story: Story): boolean =>
  kindOf(moment, story) === 'news' && previous?.k === 'effect' && previous.n !== moment.cause;

const causeOf = ({ cause }: Moment, { moments }: Story): Moment | undefined =>
  cause === undefined ? undefined : moments.get(cause);

function kindOf(moment: Moment, story: Story): Link['kind'] | undefined {
  const { k } = moment;
  if (k === 'header') return 'start';
  if (k === 'result') return 'operation';
  if (k === 'timer') return 'timer';
  if (k !== 'in') return undefined;
  return causeOf(moment, story)?.k === 'effect' ? 'news' : 'input';
}

function linkOf(moment: Moment, kind: Link['kind'], tookMs: number, story: Story): Link {
  const { n, t } = moment;
  return {
    n,
    kind,
    atMs: t - story.started,
    tookMs,
    actor: actorName(moment.actor, story),
    what: kind === 'news' ? `${moment.what} from ${causeOf(moment, story)?.what}` : moment.text,
    followed: [],
  };
}

const withMessage = (link: Link, { actor, what }: Moment, story: Story): Link => ({
  ...link,
  followed: [...link.followed, `${actorName(actor, story)}: ${shortEvent(what)}`],
});

/** Prints `xstate.done.actor.x` as `x is done`. */
function shortEvent(type: string): string {
  if (type === 'xstate.init') return 'starts';
  return type.startsWith('xstate.done.actor.') ? `${lastOf(type.slice('xstate.done.actor.'.length))} is done` : type;
}

export function describeChain(chain: CriticalChain): string {
  const share = (ms: number): string => (chain.totalMs === 0 ? '0' : ((ms / chain.totalMs) * 100).toFixed(0));
  const head = [
    `${chain.goal} after ${duration(chain.totalMs)}`,
    `waited ${duration(chain.workingMs)} (${share(chain.workingMs)}%) for answers`,
    `${duration(chain.waitingMs)} (${share(chain.waitingMs)}%) for timers and events`,
  ].join(', ');
  const note = chain.whole ? '' : 'The first causes are in records that are gone.\n';
  const rows = chain.links.map(({ atMs, tookMs, kind, actor, what, followed }) => [
    `@${duration(atMs)}`,
    kind === 'start' ? '' : `+${duration(tookMs)}`,
    kind === 'start' ? '' : WAITED_FOR[kind],
    actor,
    [what, ...followed.slice(-1)].join(' → '),
  ]);
  const columns = [
    { title: 'AT', align: 'right' },
    { title: 'TOOK', align: 'right' },
    { title: 'WAITED FOR' },
    { title: 'ACTOR' },
    { title: 'WHAT' },
  ] as const;
  return `${head}\n${note}${describeGaps(chain.gaps)}\n${table(columns, rows)}`;
}
