/** Kubeconfigs for the users of a test cluster. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Authority } from './pki.ts';

const DAY_MS = 86_400_000;

interface ClusterPlace {
  readonly authority: Authority;
  /** The folder for kubeconfigs, certificates and keys. */
  readonly directory: string;
  readonly caFile: string;
  readonly url: string;
}

export interface ClusterUser {
  readonly groups?: readonly string[];
  /** A token that is used instead of a certificate. */
  readonly token?: string;
  readonly tokenFile?: string;
  readonly notAfter?: Date;
  readonly namespace?: string;
}

/**
 * Writes a kubeconfig for a user and returns its path. Users named `system:node:…` are members of `system:nodes`, all
 * others are administrators, unless `groups` says otherwise.
 */
export async function writeKubeconfig(place: ClusterPlace, user: string, options: ClusterUser): Promise<string> {
  const name = user.replaceAll(/[^\w.-]+/g, '-');
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster: { server: place.url, 'certificate-authority': place.caFile } }],
    users: [{ name, user: await credential(place, name, user, options) }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: name, namespace: options.namespace ?? 'default' } }],
    'current-context': 'test',
  };
  const path = join(place.directory, `${name}.kubeconfig`);
  writeFileSync(path, JSON.stringify(config, null, 2), { mode: 0o600 });
  return path;
}

async function credential({ authority, directory }: ClusterPlace, name: string, user: string, options: ClusterUser) {
  const { token, tokenFile, notAfter } = options;
  if (token !== undefined) return { token };
  if (tokenFile !== undefined) return { tokenFile };
  const { cert, key } = await authority.issue({
    commonName: user,
    organizations: options.groups ?? [user.startsWith('system:node:') ? 'system:nodes' : 'system:masters'],
    usages: ['client auth'],
    ...(notAfter ? { notAfter, notBefore: new Date(notAfter.getTime() - DAY_MS) } : {}),
  });
  const files = { 'client-certificate': join(directory, `${name}.crt`), 'client-key': join(directory, `${name}.key`) };
  writeFileSync(files['client-certificate'], cert);
  writeFileSync(files['client-key'], key, { mode: 0o600 });
  return files;
}
