/** Which certificate a server uses: one in its configuration, or one that the cluster issues. */
import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadMaterial, type MaterialFiles, watchMaterial } from '../../../../src/actors/server/tls/material.ts';
import { Authority } from '../../../fakes/api-server/pki.ts';
import { temporaryFolder } from '../../../support/host-ports.ts';

/** A node with a configured certificate; `issue` is the cluster's answer to its request for another one. */
async function node() {
  const folder = await temporaryFolder();
  const authority = await Authority.create('cluster');
  const place = (name: string) => join(folder, name);
  const issued = async (commonName: string) => await authority.issue({ commonName, usages: ['server auth'] });
  const { cert, key } = await issued('configured');
  writeFileSync(place('tls.crt'), cert);
  writeFileSync(place('tls.key'), key);
  const files: MaterialFiles = {
    certFile: place('tls.crt'),
    keyFile: place('tls.key'),
    issuedFile: place('issued.pem'),
    clientCAFile: '',
  };
  const issue = async (commonName: string) => {
    const pair = await issued(commonName);
    writeFileSync(place('issued.pem'), `${pair.cert}\n${pair.key}\n`);
  };
  return { files, issue };
}

const nameIn = ({ cert }: { readonly cert: Buffer }): string => new X509Certificate(cert).subject;

describe('the certificate of a server', () => {
  it('is that of its configuration until another one is issued', async () => {
    const { files, issue } = await node();
    expect(nameIn(await loadMaterial(files))).toBe('CN=configured');
    await issue('issued');
    expect(nameIn(await loadMaterial(files))).toBe('CN=issued');
  });

  it('changes when the first one is issued', async () => {
    const { files, issue } = await node();
    const end = new AbortController();
    const names: string[] = [];
    const watching = watchMaterial(
      files,
      await loadMaterial(files),
      end.signal,
      ({ material }) => names.push(nameIn(material)),
      (why) => names.push(why),
    );
    await issue('issued');
    await expect.poll(() => names.at(-1), { timeout: 30_000 }).toBe('CN=issued');
    end.abort();
    await watching;
  });
});
