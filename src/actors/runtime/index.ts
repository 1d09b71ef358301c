/**
 * The connection to the container runtime: finds the socket, starts the embedded runtime if requested, and holds the
 * CRI connection of every `cri.*`.
 *
 * Invariants: before `runtime.connect` succeeded every `cri.*` fails with a clear text; connecting again replaces the
 * connection.
 */

import { accessSync, constants, statSync } from 'node:fs';
import type { Vault } from '../../kernel/journal/secrets.ts';
import { OperationError } from '../../kernel/json.ts';
import type { InputOf, Ports } from '../../kernel/operation.ts';
import { codeOf, messageOf } from '../../kernel/thrown.ts';
import { criOperations } from '../../machines/model/operations/cri.ts';
import type { RuntimeCondition, runtimeOperations } from '../../machines/model/operations/runtime.ts';
import { parseEndpoint } from '../../machines/model/values/paths.ts';
import type { OnRuntimeActivity } from '../cri/activity.ts';
import type { CriOptions } from '../cri/adapter.ts';
import type { RuntimeClient } from '../cri/client.ts';
import { type CriPorts, criPorts } from '../cri/ports.ts';
import type { EmbeddedRuntime, RuntimeLog } from '../embedded-runtime/embedded-runtime.ts';
import { watchChanges } from '../pause.ts';

type RuntimePorts = Ports<typeof runtimeOperations> & Ports<typeof criOperations>;

export interface RuntimeConnection {
  readonly ports: RuntimePorts;
  /** See {@link CriPorts.call}; fails with a clear text before the runtime is connected. */
  readonly call: RuntimeClient['call'];
  /** Closes the connection; an embedded runtime stops its containers too if `stopContainers` is set. */
  close(options: { stopContainers: boolean }): Promise<void>;
}

/** The path of an endpoint. Other protocols are errors with upstream's texts. */
function socketPath(endpoint: string): string {
  const { error, ...parsed } = { path: '', ...parseEndpoint(endpoint) };
  if (error === undefined) return parsed.path;
  throw new OperationError(error, { code: 'INVALID_ARGUMENT' });
}

const optionsOf = (
  input: InputOf<(typeof runtimeOperations)['runtime.connect']>,
  vault: Vault | undefined,
  onSeen: OnRuntimeActivity | undefined,
): CriOptions => ({
  endpoint: `unix://${socketPath(input.endpoint)}`,
  ...(input.imageEndpoint === '' ? {} : { imageEndpoint: `unix://${socketPath(input.imageEndpoint)}` }),
  requestTimeoutMs: input.requestTimeoutMs,
  ...(vault === undefined ? {} : { vault }),
  ...(onSeen === undefined ? {} : { onSeen }),
});

/** `vault` holds the values of Secrets that containers get; `onSeen` gets each call and inspection. */
export function connectRuntime(log: RuntimeLog, vault?: Vault, onSeen?: OnRuntimeActivity): RuntimeConnection {
  let connection: CriPorts | undefined;
  let embedded: EmbeddedRuntime | undefined;
  const current = (): CriPorts => {
    if (connection) return connection;
    throw new OperationError('the container runtime is not connected yet', { code: 'UNAVAILABLE', retriable: true });
  };
  const forward = (name: string) => (call: never) => {
    const ports = current().ports as Readonly<Record<string, (call: never) => Promise<unknown>>>;
    return ports[name]!(call);
  };
  const cri = Object.fromEntries(Object.keys(criOperations).map((name) => [name, forward(name)]));
  const runtime: Ports<typeof runtimeOperations> = {
    'runtime.exists': async ({ input }) => ({ exists: isUsableSocket(socketPath(input.endpoint)) }),
    'runtime.startEmbedded': async ({ input }) => {
      const { startEmbeddedRuntime } = await import('../embedded-runtime/embedded-runtime.ts');
      const rootDir = `${input.rootDir}/embedded`;
      embedded ??= await startEmbeddedRuntime({ rootDir, socket: `${rootDir}/cri.sock`, log });
      return { endpoint: embedded.endpoint };
    },
    'runtime.connect': async ({ input, signal }) => {
      if (socketPath(input.endpoint) === '') throw missingAddress(input.endpoint);
      const opened = criPorts(optionsOf(input, vault, onSeen));
      const version = await validated(opened, input.endpoint, signal);
      connection?.close();
      connection = opened;
      return version;
    },
    'runtime.watchStatus': ({ input, signal, ...call }) =>
      watchChanges({
        ask: () => status(current(), signal),
        periodMs: input.periodMs,
        signal,
        emit: (item) => call.emit(item),
      }),
  };
  return {
    ports: { ...runtime, ...(cri as Ports<typeof criOperations>) },
    call: async (name, request, options) => current().call(name, request, options),
    async close({ stopContainers }) {
      connection?.close();
      await embedded?.close({ stopContainers });
    },
  };
}

/** Whether this user may use the socket; a socket without permission counts as missing. */
function isUsableSocket(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return statSync(path).isSocket();
  } catch {
    return false;
  }
}

/** Without a path there is no socket: the text between `unix://` and the next slash is a host. */
const missingAddress = (endpoint: string): OperationError =>
  new OperationError(
    `validate service connection: validate CRI v1 runtime API for endpoint ${JSON.stringify(endpoint)}: ` +
      'rpc error: code = Unavailable desc = dns resolver: missing address',
    { code: 'INVALID_ARGUMENT' },
  );

async function validated(opened: CriPorts, endpoint: string, signal: AbortSignal) {
  try {
    return await opened.ports['cri.version'](callOf(signal));
  } catch (thrown) {
    opened.close();
    const code = codeOf(thrown);
    const why = messageOf(thrown);
    throw new OperationError(
      `validate service connection: validate CRI v1 runtime API for endpoint ${JSON.stringify(endpoint)}: ${why}`,
      code === undefined ? {} : { code },
    );
  }
}

async function status(connection: CriPorts, signal: AbortSignal) {
  try {
    const [{ conditions, ...abilities }, known] = await Promise.all([
      connection.ports['cri.status'](callOf(signal)),
      version(connection, signal),
    ]);
    const status = { conditions: conditions.map(plainCondition), ...abilities, ...known };
    return { type: 'runtime.statusChanged', ...status } as const;
  } catch (thrown) {
    return { type: 'runtime.statusFailed', message: messageOf(thrown) } as const;
  }
}

/** Nothing if the runtime does not answer: only its status decides whether it is up. */
const version = (connection: CriPorts, signal: AbortSignal): Promise<{ readonly version?: string }> =>
  connection.ports['cri.version'](callOf(signal)).then(
    (answer) => ({ version: answer.runtimeVersion }),
    () => ({}),
  );

function plainCondition(condition: Partial<RuntimeCondition>): RuntimeCondition {
  const { type = '', status = false, reason = '', message = '' } = condition;
  return { type, status, reason, message };
}

const callOf = (signal: AbortSignal) => ({
  id: 0,
  input: {},
  resume: false,
  signal,
  emit: (_item: never): void => {},
});
