/**
 * Configuration reload: reads the files and the command line again while the node runs.
 *
 * Decides: when the configuration is read again, and which fields of the new one replace the old ones.
 * Owns: nothing; the current configuration is the supervisor's and part of this actor's input.
 * Hears: `reload.requested` from the supervisor (SIGHUP), `configuration.changed` from the watch of the files.
 * Asks: `host.watchConfiguration`, and the config loader, which reads everything and resolves it as at the start.
 * Sends: the supervisor `configReload.applied`; `eventRecorder` which fields were changed and which were refused.
 * Invariants:
 *   R1 the current configuration is always complete and valid: a rejected one changes nothing.
 *   R2 a field that cannot change while the node runs keeps its value and is reported, once for each new content.
 *   R3 flags override the files, as at the start.
 * Seeds: S024, S109. Upstream, until 1.23: pkg/kubelet/kubeletconfig (it restarted the process).
 */

import {
  assign,
  enqueueActions,
  errorOf,
  failureLine,
  type ItemOf,
  line,
  pick,
  sendTo,
  setup,
  to,
  typed,
} from '../../../kernel/xstate.ts';
import { type ConfigurationChange, changeOf } from '../../configuration/reloadable.ts';
import type { KubeletConfiguration } from '../../model/configuration/fields.ts';
import { operations } from '../../model/operations/index.ts';
import { nodeEvent } from '../../model/pods/pod-messages.ts';
import { nodeEvents } from '../../model/reasons/reasons.ts';
import type { ConfigReloadApplied } from '../context/types.ts';
import { configLoaderMachine } from './config-loader.ts';

export interface ConfigReloadInput {
  readonly argv: readonly string[];
  readonly version: string;
  readonly nodeName: string;
  /** The paths of `--config` and `--config-dir`; empty without them. */
  readonly paths: readonly string[];
  /** The current configuration. */
  readonly config: KubeletConfiguration;
}

interface Context extends ConfigReloadInput {
  readonly change: ConfigurationChange | null;
  /** Why the last reading failed. */
  readonly error: string;
}

type Event =
  | { readonly type: 'reload.requested' }
  | ItemOf<(typeof operations)['host.watchConfiguration']>
  | { readonly type: 'xstate.done.actor.watch' };

/** The delay between a change of a file and reading all of them: editors and scripts often write more than once. */
const SETTLE_MS = 200;
/** The period of reading the files without a hint. */
const CHECK_PERIOD_MS = 10_000;
/** The pause before a broken watch is reopened. */
const REOPEN_MS = 10_000;

const CHANGED = 'The configuration was changed';
const NOT_NOW = 'These fields cannot change while the node runs and keep their values; restart it to change them';

export const configReloadMachine = setup({
  types: typed<{ input: ConfigReloadInput; context: Context; events: Event }>(),
  actors: { configLoader: configLoaderMachine, ...pick(operations, 'host.watchConfiguration') },
  guards: {
    hasFiles: ({ context }) => context.paths.length > 0,
    isRefused: ({ context }) => context.error !== '',
    isSame: ({ context: { change } }) => !change || change.changed.length + change.refused.length === 0,
    hasChanges: ({ context: { change } }) => change !== null && change.changed.length > 0,
    hasRefusals: ({ context: { change } }) => change !== null && change.refused.length > 0,
  },
  delays: { settle: SETTLE_MS, reopen: REOPEN_MS },
}).createMachine({
  id: 'configReload',
  context: ({ input }) => ({ ...input, change: null, error: '' }),
  initial: 'choosing',
  on: { 'reload.requested': '.loading' },
  states: {
    choosing: { always: [{ guard: 'hasFiles', target: 'watching' }, { target: 'idle' }] },
    /** No file to watch: only the command line, which does not change. */
    idle: {},
    watching: {
      invoke: {
        id: 'watch',
        src: 'host.watchConfiguration',
        input: ({ context }) => ({ paths: context.paths, periodMs: CHECK_PERIOD_MS }),
        onDone: 'reopening',
        onError: {
          target: 'reopening',
          actions: failureLine('error', 'Cannot watch the configuration; a change is noticed by SIGHUP only'),
        },
      },
      on: { 'configuration.changed': 'settling' },
    },
    reopening: { after: { reopen: 'watching' } },
    settling: { after: { settle: 'loading' } },
    loading: {
      meta: { waitsFor: 'flags, configuration file and drop-ins' },
      entry: line('info', 'Reading the configuration again'),
      invoke: {
        id: 'configLoader',
        src: 'configLoader',
        input: ({ context }) => ({ argv: context.argv, version: context.version }),
        onDone: {
          target: 'judging',
          actions: assign(({ context, event: { output } }) =>
            output.ok
              ? { change: changeOf(context.config, output.value.config), error: '' }
              : { change: null, error: output.message },
          ),
        },
        onError: {
          target: 'judging',
          actions: assign({ change: null, error: ({ event }) => errorOf(event).message }),
        },
      },
    },
    judging: {
      always: [
        { guard: 'isRefused', target: 'refused' },
        { guard: 'isSame', target: 'unchanged' },
        { guard: 'hasRefusals', target: 'namingRefusals' },
        { target: 'applying' },
      ],
    },
    refused: {
      entry: [
        line('error', ({ context }) => ['The new configuration is refused; the old one stays', { err: context.error }]),
        sendTo(to('eventRecorder'), ({ context }) =>
          nodeEvent(context.nodeName, nodeEvents.configurationRefused(context.error)),
        ),
      ],
      always: 'choosing',
    },
    unchanged: { entry: line('info', 'The configuration is unchanged'), always: 'choosing' },
    namingRefusals: {
      entry: enqueueActions(({ context: { change, nodeName }, enqueue }) => {
        const fields = change?.refused.join(', ');
        enqueue(line('error', [NOT_NOW, { fields }]));
        const text = nodeEvents.configurationRefused(`cannot change while the node runs: ${fields}`);
        enqueue.sendTo(to('eventRecorder'), nodeEvent(nodeName, text));
      }),
      always: [{ guard: 'hasChanges', target: 'applying' }, { target: 'choosing' }],
    },
    applying: {
      entry: enqueueActions(({ context: { change, nodeName }, enqueue }) => {
        if (change === null) return;
        const { config, changed, readers } = change;
        enqueue(line('info', [CHANGED, { fields: changed.join(', '), readers: readers.join(', ') }]));
        enqueue.sendTo(to('eventRecorder'), nodeEvent(nodeName, nodeEvents.configurationChanged(changed)));
        enqueue.sendParent({ type: 'configReload.applied', config, changed, readers } satisfies ConfigReloadApplied);
        enqueue.assign({ config });
      }),
      always: 'choosing',
    },
  },
});
