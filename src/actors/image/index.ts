/**
 * The ports of `images.*`: credentials for pulls, and records of pulls.
 *
 * Invariant: a password, a token and a hash of them leave this folder as handles only.
 */

import { createHash } from 'node:crypto';
import { accessSync, constants, statSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { steadyNow } from '../../kernel/clock.ts';
import type { Vault } from '../../kernel/journal/secrets.ts';
import { OperationError, toPlainError } from '../../kernel/json.ts';
import type { Ports } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { AuthConfig } from '../../machines/model/api/cri.ts';
import type {
  CredentialSource,
  imageOperations,
  PullCredential,
  PullingPod,
} from '../../machines/model/operations/image.ts';
import type { ConfigObject } from '../../machines/model/operations/volume.ts';
import { goJson } from '../../machines/model/spec/hash.ts';
import { valueIn } from '../../machines/model/values/tables.ts';
import {
  dockerConfigJson,
  dockercfg,
  Keyring,
  type Login,
  type Logins,
  nodeLogins,
  type StoredLogin,
} from './keyring.ts';
import { type OnPluginRun, Plugin } from './plugin.ts';
import { type Provider, readProviders } from './provider-config.ts';
import { recordPorts } from './pull-records.ts';
import type { ServiceAccounts } from './service-accounts.ts';

export interface CredentialOptions {
  readonly vault: Vault;
  /** Receives why a plugin provided nothing; the pull is tried without it. */
  readonly warn?: (message: string) => void;
  readonly workingDirectory?: string;
  readonly environment?: NodeJS.ProcessEnv;
  /** The clock, in milliseconds, for the lifetime of cached answers. */
  readonly now?: () => number;
  /** Absent on a standalone node. */
  readonly accounts?: ServiceAccounts;
  readonly onRun?: OnPluginRun;
}

type Source = CredentialSource | null;

export function credentialPorts(options: CredentialOptions): Ports<typeof imageOperations> {
  const { vault, warn = () => {}, environment = process.env, now = steadyNow } = options;
  const workingDirectory = options.workingDirectory ?? process.cwd();
  const accounts = options.accounts ? { accounts: options.accounts } : {};
  const onRun = options.onRun ? { onRun: options.onRun } : {};
  let plugins: readonly Plugin[] = [];
  return {
    ...recordPorts(vault),
    'images.registerProviders': async ({ input: { config, binDir, tokens } }) => {
      const providers = config === '' && binDir === '' ? [] : await readyProviders(config, binDir, tokens);
      plugins = providers.map((provider) => new Plugin(provider, { binDir, now, ...accounts, ...onRun }));
      return { usesAccounts: plugins.some(({ usesAccounts }) => usesAccounts) };
    },
    'images.credentials': async ({ input: { root, repository, secrets, pod }, signal }) => {
      const home = environment['HOME'] ?? '';
      const rings = [
        await secretsKeyring(secrets, vault),
        nodeKeyring(await nodeLogins({ root, workingDirectory, home })),
        await pluginsKeyring(plugins, { repository, pod, signal }, warn),
      ];
      const found = rings.flatMap((ring) => ring.lookup(repository));
      return { credentials: found.map((each) => sealed(each, vault)) };
    },
  };
}

async function readyProviders(config: string, binDir: string, tokens: boolean): Promise<readonly Provider[]> {
  if (binDir === '' || !statSync(binDir, { throwIfNoEntry: false })) {
    throw new OperationError(`plugin binary directory ${binDir} did not exist`, { code: 'ENOENT' });
  }
  const providers = await readProviders(config, tokens);
  for (const { name } of providers) requireExecutable(join(binDir, name));
  return providers;
}

/** Go's LookPath returns no path if it finds nothing: hence the two blanks. */
function requireExecutable(path: string): void {
  try {
    accessSync(path, constants.X_OK);
    if (statSync(path).isFile()) return;
  } catch (error) {
    const { code } = toPlainError(error);
    if (code === 'ENOENT') {
      throw new OperationError('plugin binary executable  did not exist', { code });
    }
  }
  const message = `error inspecting binary executable : exec: "${path}": permission denied`;
  throw new OperationError(message, { code: 'EACCES' });
}

const DECODERS: Readonly<Record<string, readonly [key: string, decode: (text: string) => Logins]>> = {
  'kubernetes.io/dockerconfigjson': ['.dockerconfigjson', dockerConfigJson],
  'kubernetes.io/dockercfg': ['.dockercfg', dockercfg],
};

/** A pod may name hundreds of secrets with thousands of registries each: the event loop runs in between. */
async function secretsKeyring(secrets: readonly ConfigObject[], vault: Vault): Promise<Keyring<Source>> {
  const ring = new Keyring<Source>();
  for (const [at, { namespace, name, uid = '', type = '', data }] of secrets.entries()) {
    if (at > 0) await setImmediate();
    const [key, decode] = valueIn(DECODERS, type) ?? [];
    const content = key === undefined ? undefined : data[key];
    if (content === undefined || decode === undefined) continue;
    const text = opened(content, vault);
    if (text === '') continue;
    try {
      ring.add(decode(text), { kind: 'Secret', namespace, name, uid });
    } catch (error) {
      const message = `pull secret ${namespace}/${name}: ${messageOf(error)}`;
      throw new OperationError(message, { code: 'INVALID_ARGUMENT' });
    }
  }
  return ring;
}

function opened(content: ConfigObject['data'][string], vault: Vault): string {
  const isText = 'text' in content;
  const value = isText ? content.text : content.base64;
  const text = typeof value === 'string' ? value : vault.open(value);
  return isText ? text : Buffer.from(text, 'base64').toString('utf8');
}

function nodeKeyring(logins: Logins): Keyring<Source> {
  const ring = new Keyring<Source>();
  ring.add(logins, null);
  return ring;
}

interface Lookup {
  readonly repository: string;
  readonly pod: PullingPod | null;
  readonly signal: AbortSignal;
}

/** A failed plugin is logged and skipped. */
async function pluginsKeyring(
  plugins: readonly Plugin[],
  { repository, pod, signal }: Lookup,
  warn: (message: string) => void,
) {
  const ring = new Keyring<Source>();
  for (const plugin of plugins) {
    try {
      const { logins, account } = await plugin.logins(repository, pod, signal);
      ring.add(logins, account && { kind: 'ServiceAccount', ...account });
    } catch (error) {
      warn(messageOf(error));
    }
  }
  return ring;
}

const authOf = ({ username, password }: Login): AuthConfig => ({
  ...(username === '' ? {} : { username }),
  ...(password === '' ? {} : { password }),
});

/** The hash is that of the kubelet's record of the login. */
function sealed({ login, source }: StoredLogin<Source>, vault: Vault): PullCredential {
  const auth = authOf(login);
  const { email } = login;
  const identity = goJson({ ...auth, ...(email === undefined ? {} : { email }) });
  const hash = createHash('sha256').update(identity).digest('hex');
  return { auth: vault.seal(JSON.stringify(auth)), hash: vault.seal(hash), source };
}
