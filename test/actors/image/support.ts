/** The ports of credentials in folders of a test, and plugins as programs. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type CredentialOptions, credentialPorts } from '../../../src/actors/image/index.ts';
import { Vault } from '../../../src/kernel/journal/secrets.ts';
import type { PullCredential, PullingPod } from '../../../src/machines/model/operations/image.ts';
import type { ConfigObject } from '../../../src/machines/model/operations/volume.ts';
import { perform, temporaryFolder } from '../../support/host-ports.ts';

export const API = 'credentialprovider.kubelet.k8s.io/v1';

export async function credentialsIn(options: Partial<CredentialOptions> = {}) {
  const folder = await temporaryFolder();
  const root = join(folder, 'root');
  const binDir = join(folder, 'bin');
  for (const each of [root, binDir]) mkdirSync(each);
  const vault = new Vault(Buffer.alloc(32, 7));
  const warnings: string[] = [];
  const ports = credentialPorts({
    vault,
    warn: (message) => warnings.push(message),
    workingDirectory: join(folder, 'nowhere'),
    environment: { HOME: join(folder, 'home') },
    ...options,
  });
  const login = ({ auth, source }: PullCredential) => {
    const { username = '', password = '' } = JSON.parse(vault.open(auth));
    return `${username}:${password}${source ? ` of ${source.namespace}/${source.name}` : ''}`;
  };
  const lookup = async (repository: string, secrets: readonly ConfigObject[] = [], pod: PullingPod | null = null) => {
    const { credentials } = await perform(ports['images.credentials'], { root, repository, secrets, pod });
    return credentials.map(login);
  };
  const secret = (name: string, logins: object, type = 'kubernetes.io/dockerconfigjson'): ConfigObject => {
    const isLegacy = type.endsWith('dockercfg');
    const key = isLegacy ? '.dockercfg' : '.dockerconfigjson';
    const text = JSON.stringify(isLegacy ? logins : { auths: logins });
    return { kind: 'Secret', namespace: 'ns', name, type, version: '1', data: { [key]: { text: vault.seal(text) } } };
  };
  return { folder, root, binDir, vault, warnings, ports, lookup, secret };
}

/** An executable in a folder of plugins; `script` is for sh. */
export function plugin(binDir: string, name: string, script: string): void {
  writeFileSync(join(binDir, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

export const response = (auth: object, more: object = {}) =>
  JSON.stringify({ kind: 'CredentialProviderResponse', apiVersion: API, cacheKeyType: 'Image', auth, ...more });

export function writeProviders(folder: string, providers: readonly object[]): string {
  const path = join(folder, 'providers.yaml');
  const config = { apiVersion: 'kubelet.config.k8s.io/v1', kind: 'CredentialProviderConfig', providers };
  writeFileSync(path, JSON.stringify(config));
  return path;
}
