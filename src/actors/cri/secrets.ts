/**
 * Values of Secrets on their way to the runtime: where a machine wrote a handle's name, the value leaves.
 *
 * Invariants: only the handles that a call names are opened, so a text that merely looks like one stays as it is; what
 * the runtime says about a container is told without the values that it was given.
 */
import { isSecretHandle, type SecretHandle, type Vault } from '../../kernel/journal/index.ts';
import { OperationError } from '../../kernel/json.ts';
import type { ContainerConfig } from '../../machines/api/cri.ts';

/** A copy of the configuration with the values in variables, command and arguments. */
export function withSecrets(config: ContainerConfig, handles: readonly SecretHandle[], vault: Vault): ContainerConfig {
  if (handles.length === 0) return config;
  const values = handles.filter(isSecretHandle).map((handle) => [handle.$secret, vault.open(handle)] as const);
  const opened = (text: string): string => values.reduce((so, [name, value]) => so.replaceAll(name, () => value), text);
  return {
    ...config,
    envs: (config.envs ?? []).map(({ key = '', value = '' }) => ({ key, value: opened(value) })),
    ...(config.command === undefined ? {} : { command: config.command.map(opened) }),
    ...(config.args === undefined ? {} : { args: config.args.map(opened) }),
  };
}

/** Shorter values stand in every message by accident; nothing is hidden by removing them. */
const REDACTED_MIN_LENGTH = 4;

/** The same error without the values. */
export function withoutSecrets(error: unknown, handles: readonly SecretHandle[], vault: Vault): unknown {
  if (!(error instanceof OperationError) || handles.length === 0) return error;
  const message = handles.reduce((text, handle) => {
    const value = vault.open(handle);
    return value.length < REDACTED_MIN_LENGTH ? text : text.replaceAll(value, handle.$secret);
  }, error.message);
  const { name, code, retriable } = error;
  return new OperationError(message, { name, retriable, ...(code === undefined ? {} : { code }) });
}
