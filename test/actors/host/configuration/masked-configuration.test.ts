/** Credentials in configuration files, at each place and in each spelling that a file allows. */
import { describe, expect, it } from 'vitest';
import { decodeSource } from '../../../../src/actors/host/configuration/configuration.ts';
import { masked, maskedDropIns } from '../../../../src/actors/host/configuration/masked-configuration.ts';
import { loadConfiguration } from '../../../../src/machines/configuration/load.ts';

const NAMED = 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n';
const decode = (text: string) => decodeSource('/k.yaml', new TextEncoder().encode(text));

describe('what machines are told of a configuration file', () => {
  it.each([
    ['a named document', `${NAMED}staticPodURLHeader: {Authorization: [s3cret, s3cret2]}\n`],
    ['a document that is quoted whole', 'staticPodURLHeader:\n  Authorization:\n  - s3cret\n'],
    ['a value in another YAML spelling', 'staticPodURLHeader: {A: ["s3c\\x72et", s3cret]}\n'],
    ['a field set twice', 'staticPodURLHeader: {A: [s3cret]}\nstaticPodURLHeader: {}\n'],
    ['an anchor', `${NAMED}providerID: &a s3cret\nstaticPodURLHeader: {A: [*a]}\n`],
    ['the wrong type', `${NAMED}staticPodURLHeader: s3cret\n`],
    ['the wrong case', `${NAMED}staticpodurlheader: {A: {B: s3cret}}\n`],
    ['a URL with a login', `${NAMED}staticPodURL: https://me:s3cret@a:80/pods\n`],
    ['JSON', '{"staticPodURLHeader":{"A":["s3cret"]}}'],
  ])('%s has no secret', (_, text) => {
    const source = masked(decode(text));
    expect(JSON.stringify(decode(text))).toContain('s3cret');
    expect(JSON.stringify(source)).not.toContain('s3cret');
    expect(JSON.stringify(maskedDropIns({ kind: 'files', files: [decode(text)] }))).not.toContain('s3cret');
    expect(JSON.stringify(loadConfiguration('k.yaml', source, {}))).not.toContain('s3cret');
  });

  it('keeps names, types and everything else', () => {
    const text = `${NAMED}maxPods: 7\nstaticPodURLHeader: {A: [one, two], B: 5}\n`;
    const value = { maxPods: 7, staticPodURLHeader: { A: ['<masked>', '<masked>'], B: 0 } };
    expect(masked(decode(text))).toMatchObject({ kind: 'document', value, text: null });
  });

  it('is the file as it is when it carries none', () => {
    const source = decode('maxPods: 7\n');
    expect(masked(source)).toBe(source);
  });
});
