/** Values that users write into pods: handles for the machines, the original pod for all other readers. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { openedPod, openedText, readablePod, sealedPod, valueNames } from '../../src/actors/pod-values.ts';
import { Vault } from '../../src/kernel/journal/secrets.ts';
import type { Json } from '../../src/kernel/json.ts';
import { expand } from '../../src/machines/model/spec/expansion.ts';

const vault = new Vault(Buffer.alloc(32, 1));
const header = { name: 'Authorization', value: 'Bearer canary-header' };
const httpGet = { port: 80, httpHeaders: [header] };
const pod: Json = {
  metadata: { name: 'web', annotations: { plain: 'kept' } },
  spec: {
    initContainers: [{ name: 'init', env: [{ name: 'A', value: 'canary-init' }] }],
    containers: [
      {
        name: 'app',
        env: [
          { name: 'PASSWORD', value: 'canary-password' },
          { name: 'URL', value: 'db://me:canary-url@$(HOST)/$$(x)' },
          { name: 'EMPTY', value: '' },
          { name: 'FROM', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
          { name: 'FOLDER', value: '$(PLACE)/logs' },
          { name: 'PLACE', value: 'here' },
        ],
        volumeMounts: [{ name: 'v', mountPath: '/v', subPathExpr: '$(FOLDER)' }],
        livenessProbe: { httpGet },
        lifecycle: { preStop: { httpGet }, postStart: { exec: { command: ['true'] } } },
      },
    ],
    ephemeralContainers: [{ name: 'debug', env: [{ name: 'B', value: 'canary-debug' }] }],
  },
};

describe('a pod', () => {
  const sealed = sealedPod(pod, vault);

  it('has no value that people wrote, and all of them again when it leaves', () => {
    expect(JSON.stringify(sealed)).not.toContain('canary');
    expect(openedPod(sealed, vault)).toEqual(pod);
  });

  it('keeps references, and what the name of a folder is made of', () => {
    const text = JSON.stringify(sealed);
    expect(text).toMatch(/"URL","value":"§[\w-]{22}\$\(HOST\)§[\w-]{22}\$\$§[\w-]{22}"/);
    expect(text).toContain('"value":"$(PLACE)/logs"');
    expect(text).toContain('"value":"here"');
  });

  it('is shown with handles where a value is not held any more', () => {
    expect(readablePod(sealed as object, new Vault(Buffer.alloc(32, 2)))).toBe(sealed);
  });

  it('names its handles, and no other that its author may have written elsewhere', () => {
    const foreign = vault.seal('of another pod').$secret;
    const written = { spec: { containers: [{ args: [foreign], env: [{ name: 'A', value: foreign }] }] } };
    const [name, ...others] = valueNames(sealedPod(written, vault));
    expect(others).toEqual([]);
    expect(openedText(name!, vault)).toBe(foreign);
  });

  it('tells nothing by the copy that kubectl keeps', () => {
    const metadata = {
      annotations: { 'kubectl.kubernetes.io/last-applied-configuration': JSON.stringify(pod), a: 'b' },
    };
    expect(sealedPod({ metadata, spec: {} }, vault)).toEqual({ metadata: { annotations: { a: 'b' } }, spec: {} });
  });

  it.each([null, 'text', [], {}, { spec: 7 }, { spec: { containers: [7, { env: 'x' }, { env: [7, { value: 8 }] }] } }])(
    'that is none stays what it is: %j',
    (value) => {
      expect(sealedPod(value as Json, vault)).toEqual(value);
    },
  );
});

it('expands sealed as it expands written', () => {
  const piece = fc.constantFrom('$', '$$', '$(A)', '$(B)', '$(', ')', 'text', '§', '$(§)', '$($(A)');
  const text = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(text, text, (a, b) => {
      const values: Record<string, string> = { A: a };
      const value = (written: string) => {
        const made = sealedPod({ spec: { containers: [{ env: [{ name: 'X', value: written }] }] } }, vault);
        return (made as { spec: { containers: { env: { value: string }[] }[] } }).spec.containers[0]!.env[0]!.value;
      };
      const sealedValues: Record<string, string> = { A: value(a) };
      const expanded = expand(value(b), (name) => sealedValues[name]);
      expect(openedText(expanded, vault)).toBe(expand(b, (name) => values[name]));
    }),
  );
});

it('with --journal-plain seals only what looks like the name of a handle', () => {
  const plain = new Vault(Buffer.alloc(32, 1), { isPlain: true });
  expect(sealedPod(pod, plain)).toEqual(pod);
  const foreign = plain.seal('of another pod').$secret;
  const written = { spec: { containers: [{ env: [{ name: 'A', value: foreign }] }] } };
  expect(JSON.stringify(sealedPod(written, plain))).not.toContain(foreign);
});
