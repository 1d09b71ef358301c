/**
 * Config loader: computes the effective configuration from arguments and files.
 *
 * Decides: the effective configuration of flags, configuration file and drop-ins, in upstream's order of steps; the
 *   rules themselves are pure functions in `configuration/`.
 * Owns: nothing.
 * Hears: only the answers of its operations.
 * Asks: `host.readConfiguration`, `host.readDropIns`, `host.cgroups` (two rules depend on the cgroup version).
 * Answers: flags, configuration and gates, or upstream's error.
 * Invariants:
 *   F1 flags override drop-ins, drop-ins the file, the file the defaults.
 *   F2 nothing of the machine is changed before the answer is accepted.
 * Seeds: S006 to S025, S044, S045. Upstream: cmd/kubelet/app/server.go.
 */
import {
  assign,
  enqueueActions,
  errorOf,
  isObject,
  line,
  messageOf,
  pick,
  required,
  setup,
  typed,
} from '../../../kernel/xstate.ts';
import type { FeatureSettings } from '../../configuration/fields/feature-gates.ts';
import { hintForRefusal } from '../../configuration/flags/flag-table.ts';
import { type GivenFlags, type KubeletFlags, parseCommandLine } from '../../configuration/flags/flags.ts';
import { commandFailed, logEntries, type Resolution, resolveConfiguration } from '../../configuration/resolve.ts';
import type { KubeletConfiguration } from '../../model/configuration/fields.ts';
import type { ConfigurationSource, DropInListing } from '../../model/operations/host.ts';
import { operations } from '../../model/operations/index.ts';
import { millisecondsOf } from '../../model/values/time.ts';
import type { Failure } from '../context/types.ts';

export interface ConfigLoaderInput {
  readonly argv: readonly string[];
  /** The version that a refused `--version=…` is compared with. */
  readonly version: string;
}

export interface LoadedConfiguration {
  readonly flags: KubeletFlags;
  readonly config: KubeletConfiguration;
  readonly gates: FeatureSettings;
  /** Whether the runtime's endpoint was set by a flag or a file. */
  readonly endpointNamed: boolean;
  /** Whether the node creates its serving certificate itself. */
  readonly ownsCertificate: boolean;
  readonly requestTimeoutMs: number;
}

/** An error has the exit status and the lines that upstream prints at its end. */
export type ConfigLoaderAnswer =
  | { readonly ok: true; readonly value: LoadedConfiguration }
  | ({ readonly ok: false } & Required<Omit<Failure, 'phase'>>);

interface ConfigLoaderContext {
  readonly flags: KubeletFlags | null;
  readonly given: GivenFlags;
  readonly file: ConfigurationSource | null;
  readonly dropIns: DropInListing | null;
  readonly resolution: Resolution | null;
}

/** The daemon rejects a bad command line before there is a journal; the machine parses it again for its facts. */
function parsed({ argv, version }: ConfigLoaderInput): Pick<ConfigLoaderContext, 'flags' | 'given' | 'resolution'> {
  const line = parseCommandLine(argv, { version, raw: '' });
  if (line.kind === 'run') return { flags: line.flags, given: line.given, resolution: null };
  const error = line.kind === 'error' ? line.error : `${line.kind} is not a way to run`;
  return { flags: null, given: {}, resolution: { ...commandFailed(error), warnings: [] } };
}

const ENDPOINT = 'containerRuntimeEndpoint';

function namesEndpoint(source: ConfigurationSource | null): boolean {
  return source?.kind === 'document' && isObject(source.value) && source.value[ENDPOINT] !== undefined;
}

function endpointNamed({ given, file, dropIns }: ConfigLoaderContext): boolean {
  const dropped = dropIns?.kind === 'files' ? dropIns.files : [];
  return given['container-runtime-endpoint'] !== undefined || [file, ...dropped].some(namesEndpoint);
}

function answerOf(context: ConfigLoaderContext): ConfigLoaderAnswer {
  const { flags, resolution } = context;
  if (!flags || resolution?.kind !== 'resolved') {
    const failed = resolution?.kind === 'failed' ? resolution : commandFailed('the configuration was not resolved');
    return { ok: false, message: failed.error, exitCode: failed.exit, lines: failed.lines };
  }
  const config = resolution.configuration;
  return {
    ok: true,
    value: {
      flags,
      config,
      gates: resolution.gates,
      endpointNamed: endpointNamed(context),
      ownsCertificate: resolution.ownsCertificate,
      requestTimeoutMs: millisecondsOf(config.runtimeRequestTimeout),
    },
  };
}

const configFile = ({ flags }: ConfigLoaderContext): string => flags?.config ?? '';
const configDir = ({ flags }: ConfigLoaderContext): string => flags?.configDir ?? '';

const unreadable = (path: string, error: unknown) => ({ kind: 'unreadable', path, message: messageOf(error) }) as const;

export const configLoaderMachine = setup({
  types: typed<{ input: ConfigLoaderInput; context: ConfigLoaderContext; output: ConfigLoaderAnswer }>(),
  actors: pick(operations, 'host.readConfiguration', 'host.readDropIns', 'host.cgroups'),
  guards: {
    isRefused: ({ context }) => context.resolution !== null,
    hasFile: ({ context }) => configFile(context) !== '',
    hasDropIns: ({ context }) => configDir(context) !== '',
  },
}).createMachine({
  id: 'configLoader',
  context: ({ input }) => ({ file: null, dropIns: null, ...parsed(input) }),
  initial: 'parsingFlags',
  states: {
    parsingFlags: {
      always: [
        { guard: 'isRefused', target: 'answered' },
        { guard: 'hasFile', target: 'readingFile' },
        { target: 'choosingDropIns' },
      ],
    },
    readingFile: {
      meta: { waitsFor: 'the configuration file' },
      invoke: {
        id: 'readFile',
        src: 'host.readConfiguration',
        input: ({ context }) => ({ path: configFile(context) }),
        onDone: { target: 'choosingDropIns', actions: assign({ file: ({ event }) => event.output }) },
        onError: {
          target: 'choosingDropIns',
          actions: assign({ file: ({ context, event }) => unreadable(configFile(context), event.error) }),
        },
      },
    },
    choosingDropIns: { always: [{ guard: 'hasDropIns', target: 'readingDropIns' }, { target: 'inspectingHost' }] },
    readingDropIns: {
      meta: { waitsFor: 'the drop-ins below --config-dir' },
      invoke: {
        id: 'readDropIns',
        src: 'host.readDropIns',
        input: ({ context }) => ({ path: configDir(context) }),
        onDone: { target: 'inspectingHost', actions: assign({ dropIns: ({ event }) => event.output }) },
        onError: {
          target: 'inspectingHost',
          actions: assign({ dropIns: ({ context, event }) => unreadable(configDir(context), event.error) }),
        },
      },
    },
    inspectingHost: {
      meta: { waitsFor: 'the cgroup version of the machine' },
      invoke: {
        id: 'cgroups',
        src: 'host.cgroups',
        input: {},
        onDone: {
          target: 'answered',
          actions: assign({
            resolution: ({ context, event }) =>
              resolveConfiguration(
                required(context.flags, 'the flags'),
                context.given,
                { file: context.file, dropIns: context.dropIns },
                { cgroupVersion: event.output.version },
              ),
          }),
        },
        onError: {
          target: 'answered',
          actions: assign({
            resolution: ({ event }) => ({ ...commandFailed(errorOf(event).message), warnings: [] }),
          }),
        },
      },
    },
    answered: {
      type: 'final',
      entry: enqueueActions(({ context, enqueue }) => {
        for (const { text, klog } of logEntries(context.resolution?.warnings ?? [])) {
          enqueue(line('warn', [text, { klog }]));
        }
        const refusal = context.resolution?.kind === 'failed' ? hintForRefusal(context.resolution.error) : null;
        if (refusal !== null) enqueue(line('info', refusal));
      }),
    },
  },
  output: ({ context }) => answerOf(context),
});
