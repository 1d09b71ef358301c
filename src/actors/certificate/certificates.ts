/** The ports of `certificate.*`: requests, files of pairs, and the kubeconfig written by a bootstrap. */
import { statSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { stringify } from 'yaml';
import type { Vault } from '../../kernel/journal/index.ts';
import { toPlainError } from '../../kernel/json.ts';
import type { Ports } from '../../kernel/operation.ts';
import { type certificateOperations, currentPair } from '../../machines/model/operations/certificate.ts';
import { type Kubeconfig, loadKubeconfig, type Pem } from '../kube/kubeconfig.ts';
import { certificatesOf, loadPair, storePair } from './certificate-store.ts';

const KUBECONFIG_MODE = 0o600;
const DIRECTORY_MODE = 0o755;

export function certificatePorts({ vault }: { readonly vault: Vault }): Ports<typeof certificateOperations> {
  return {
    'certificate.load': async ({ input }) => ({ certificate: await loadPair(input, input) }),
    'certificate.request': async ({ input }) => {
      const { createRequest } = await import('./certificate-request.ts');
      const { request, key } = await createRequest(input);
      return { request: Buffer.from(request).toString('base64'), key: vault.seal(key) };
    },
    'certificate.podKey': async ({ input }) => {
      const { createPodRequest } = await import('./certificate-request.ts');
      const { request, key } = await createPodRequest(input.keyType);
      return { request: request.toString('base64'), key: vault.seal(key) };
    },
    'certificate.store': ({ input }) =>
      storePair(input, Buffer.from(input.certificate, 'base64').toString(), vault.open(input.key)),
    'certificate.checkKubeconfig': ({ input }) => checkKubeconfig(input.kubeconfig),
    'certificate.writeKubeconfig': async ({ input }) => {
      await writeKubeconfig(input.kubeconfig, loadKubeconfig(input.bootstrapKubeconfig), currentPair(input.place));
      return null;
    },
  };
}

async function checkKubeconfig(path: string): Promise<{ isValid: boolean; problem: string }> {
  const refused = (problem: string) => ({ isValid: false, problem });
  if (!statSync(path, { throwIfNoEntry: false })) return refused('');
  try {
    const { certificate } = loadKubeconfig(path).user;
    const certificates = certificate === undefined ? [] : certificatesOf(await textOf(certificate));
    if (certificates.length === 0) {
      const why = 'data does not contain any valid RSA or ECDSA certificates';
      return refused(`unable to load TLS certificates from existing bootstrap client config read from ${path}: ${why}`);
    }
    const expired = certificates.find(({ validToDate }) => validToDate.getTime() < Date.now());
    if (!expired) return { isValid: true, problem: '' };
    const time = expired.validToDate.toISOString().replace('T', ' ').replace('.000Z', ' +0000 UTC');
    return refused(`part of the existing bootstrap client certificate in ${path} is expired: ${time}`);
  } catch (error) {
    return refused(`unable to read existing bootstrap client config from ${path}: ${toPlainError(error).message}`);
  }
}

const textOf = async (pem: Pem): Promise<string> =>
  'data' in pem ? pem.data.toString() : await readFile(pem.file, 'utf8');

async function writeKubeconfig(path: string, bootstrap: Kubeconfig, pair: string): Promise<void> {
  const { server, insecure, ca } = bootstrap;
  const cluster = {
    ...(ca === undefined ? {} : authorityOf(ca)),
    ...(insecure ? { 'insecure-skip-tls-verify': true } : {}),
    server,
  };
  const config = {
    apiVersion: 'v1',
    clusters: [{ cluster, name: 'default-cluster' }],
    contexts: [
      { context: { cluster: 'default-cluster', namespace: 'default', user: 'default-auth' }, name: 'default-context' },
    ],
    'current-context': 'default-context',
    kind: 'Config',
    users: [{ name: 'default-auth', user: { 'client-certificate': pair, 'client-key': pair } }],
  };
  await mkdir(dirname(path), { recursive: true, mode: DIRECTORY_MODE });
  await writeFile(`${path}.updating`, stringify(config, { indentSeq: false, lineWidth: 0 }), { mode: KUBECONFIG_MODE });
  await rename(`${path}.updating`, path);
}

const authorityOf = (ca: Pem): Record<string, string> =>
  'data' in ca ? { 'certificate-authority-data': ca.data.toString('base64') } : { 'certificate-authority': ca.file };
