/**
 * Resolver: the node's resolv.conf, which pods get, and its limits.
 *
 * Decides: which exceeded limits are events; when new content is published to pods.
 * Owns: the current content.
 * Hears: `configuration.changed` of the watch of the file.
 * Asks: `host.watchConfiguration`, `host.readFile`.
 * Sends: `eventRecorder` exceeded limits, once for each content; the supervisor `resolver.changed`.
 * Invariants:
 *   D1 after a read error the last content stays in use.
 *   D2 unchanged content is not published.
 * Seeds: S155, S157, S243. Upstream: pkg/kubelet/network/dns.
 */
import { assign, errorOf, line, pick, required, sendParent, sendTo, setup, to, typed } from '../../../kernel/xstate.ts';
import { operations } from '../../model/operations/index.ts';
import { nodeEvent } from '../../model/pods/pod-messages.ts';
import { nodeEvents } from '../../model/reasons/reasons.ts';
import { parseResolvConf } from '../context/derive-settings.ts';

export interface ResolverInput {
  /** `resolvConf` of the configuration; empty without one. */
  readonly path: string;
  readonly nodeName: string;
  /** The content of the file when the node started. */
  readonly text: string;
  /** Pods also get the search domains of the cluster, which count for the limits. */
  readonly hasClusterDomain: boolean;
}

type Context = ResolverInput;
type Event = { readonly type: 'configuration.changed' };

/** Upstream's limits of a pod's DNS configuration. */
const MAX_SEARCH_PATHS = 32;
const CLUSTER_SEARCH_PATHS = 3;
const MAX_SEARCH_CHARACTERS = 2_048;
const MAX_DOMAIN_CHARACTERS = 253;
/** The period of reading the file without a hint; upstream reads it for each pod. */
const CHECK_PERIOD_MS = 30_000;
/** Upstream's limit. */
const RESOLV_CONF_MAX_BYTES = 10 * 1024 * 1024;
/** The pause before a broken watch is reopened. */
const REOPEN_MS = 10_000;
/** The delay between a change of the file and reading it: writers often write more than once. */
const SETTLE_MS = 100;

/** Upstream's text for the limit that the search line exceeds; empty for none. */
export function limitExceeded({
  path,
  text,
  hasClusterDomain,
}: Pick<ResolverInput, 'path' | 'text' | 'hasClusterDomain'>): string {
  const { searches } = parseResolvConf(text);
  const maxPaths = MAX_SEARCH_PATHS - (hasClusterDomain ? CLUSTER_SEARCH_PATHS : 0);
  if (searches.length > maxPaths) {
    return `Resolv.conf file '${path}' contains search line consisting of more than ${maxPaths} domains!`;
  }
  if (searches.some((search) => search.length > MAX_DOMAIN_CHARACTERS)) {
    return (
      `Resolv.conf file ${JSON.stringify(path)} contains a search path which length is more than allowed ` +
      `${MAX_DOMAIN_CHARACTERS} chars!`
    );
  }
  if (searches.join(' ').length > MAX_SEARCH_CHARACTERS) {
    return (
      `Resolv.conf file '${path}' contains search line which length is more than allowed ` +
      `${MAX_SEARCH_CHARACTERS} chars!`
    );
  }
  return '';
}

const s = setup({
  types: typed<{ input: ResolverInput; context: Context; events: Event }>(),
  actors: pick(operations, 'host.watchConfiguration', 'host.readFile'),
  guards: { hasFile: ({ context }) => context.path !== '' },
  delays: { settle: SETTLE_MS, reopen: REOPEN_MS },
});

const limitEvent = ({ nodeName }: Context, message: string) => nodeEvent(nodeName, nodeEvents.resolverLimits(message));

const checkLimits = s.enqueueActions(({ context, enqueue }) => {
  const exceeded = limitExceeded(context);
  if (exceeded === '') return;
  enqueue.sendTo(to('eventRecorder'), limitEvent(context, exceeded));
  enqueue(line('warn', ['Check limits for resolv.conf failed', { eventlog: exceeded }]));
});

export const resolverMachine = s.createMachine({
  id: 'resolver',
  context: ({ input }) => input,
  initial: 'choosing',
  states: {
    choosing: { always: [{ guard: 'hasFile', target: 'checking' }, { target: 'withoutFile' }] },
    withoutFile: {},
    checking: { entry: checkLimits, always: 'watching' },
    watching: {
      invoke: {
        id: 'watch',
        src: 'host.watchConfiguration',
        input: ({ context }) => ({ paths: [context.path], periodMs: CHECK_PERIOD_MS }),
        onDone: 'reopening',
        onError: {
          target: 'reopening',
          actions: line('error', ({ context, event }) => [
            'Cannot watch resolv.conf',
            { path: context.path, err: errorOf(event).message },
          ]),
        },
      },
      on: { 'configuration.changed': 'settling' },
    },
    reopening: { after: { reopen: 'watching' } },
    settling: { after: { settle: 'reading' } },
    reading: {
      meta: { waitsFor: "the node's resolv.conf" },
      invoke: {
        id: 'read',
        src: 'host.readFile',
        input: ({ context }) => ({ path: context.path, maxBytes: RESOLV_CONF_MAX_BYTES }),
        onDone: [
          {
            guard: ({ context, event }) => event.output.content === null || event.output.content === context.text,
            target: 'watching',
          },
          {
            target: 'checking',
            actions: [
              assign({ text: ({ event }) => required(event.output.content, 'the content of resolv.conf') }),
              sendParent(({ context }) => ({ type: 'resolver.changed', text: context.text })),
            ],
          },
        ],
        onError: {
          target: 'watching',
          actions: [
            sendTo(to('eventRecorder'), ({ context, event }) => limitEvent(context, errorOf(event).message)),
            line('warn', ({ event }) => [
              'Check limits for resolv.conf failed at file open',
              { err: errorOf(event).message },
            ]),
          ],
        },
      },
    },
  },
});
