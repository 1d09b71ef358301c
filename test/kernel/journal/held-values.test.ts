import { describe, expect, it } from 'vitest';
import type { HoldingLimits } from '../../../src/kernel/journal/held-values.ts';
import { type SecretHandle, Vault } from '../../../src/kernel/journal/secrets.ts';

const vaultOf = (limits: Partial<HoldingLimits> = {}) => new Vault(Buffer.alloc(32), { limits });
const FORGOTTEN = expect.objectContaining({ code: 'SECRET_NOT_HELD' });

function held(vault: Vault, id: string, values: readonly string[], namespace = 'default'): SecretHandle[] {
  return vault.hold({ namespace, id }, () => values.map((value) => vault.seal(value)));
}

const opened = (vault: Vault, handles: readonly SecretHandle[]) => handles.map((handle) => vault.open(handle));

describe('the values of a document', () => {
  it('are held however many come and go', () => {
    const vault = vaultOf({ releasedBytes: 10_000, looseBytes: 10_000 });
    const own = held(vault, 'pods/mine', ['a', 'b']);
    for (let i = 0; i < 1_000; i++) {
      held(vault, `pods/${i}`, [`${i}`, 'b']);
      vault.release(`pods/${i}`);
      vault.seal(`loose ${i}`);
    }
    expect(opened(vault, own)).toEqual(['a', 'b']);
  });

  it('are those of its last sealing; the ones before are forgotten first', () => {
    const vault = vaultOf({ releasedBytes: 300 });
    const [before] = held(vault, 'pods/mine', ['old']);
    const [after] = held(vault, 'pods/mine', ['new']);
    expect(vault.open(before!)).toBe('old');
    held(vault, 'pods/mine', ['newest']);
    expect(vault.open(after!)).toBe('new');
    expect(() => vault.open(before!)).toThrow(FORGOTTEN);
  });

  it('stay as they were if it cannot be sealed', () => {
    const vault = vaultOf({ releasedBytes: 0, looseBytes: 0 });
    const own = held(vault, 'pods/mine', ['a']);
    const fail = () => {
      vault.seal('b');
      throw new Error('malformed');
    };
    expect(() => vault.hold({ namespace: '', id: 'pods/mine' }, fail)).toThrow('malformed');
    expect(opened(vault, own)).toEqual(['a']);
    expect(() => vault.open(vault.seal('loose'))).toThrow(FORGOTTEN);
  });

  it('are released with it, and those of its parts; what another one has stays', () => {
    const vault = vaultOf({ releasedBytes: 0 });
    const [shared] = held(vault, 'pods/a', ['shared']);
    const [token] = held(vault, 'pods/a/tokens/default', ['token']);
    const [other] = held(vault, 'pods/ab', ['shared', 'other']).slice(1);
    vault.release('pods/a');
    expect(() => vault.open(token!)).toThrow(FORGOTTEN);
    expect(opened(vault, [shared!, other!])).toEqual(['shared', 'other']);
    vault.releaseOthers('pods/', new Set());
    expect(() => vault.open(shared!)).toThrow(FORGOTTEN);
  });

  it('are sealed once while its digest stays the same, and again if they were lost', () => {
    const vault = vaultOf({ heldBytes: 1_000, releasedBytes: 0 });
    let sealings = 0;
    const seal = (digest: string) =>
      vault.hold({ namespace: 'default', id: 'pods/mine', digest }, () => ({ n: ++sealings, of: vault.seal('own') }));
    const first = seal('1');
    expect(seal('1')).toBe(first);
    expect(vault.open(first.of)).toBe('own');
    expect(seal('2')).toMatchObject({ n: 2 });
    held(vault, 'pods/other', ['x'.repeat(900)]);
    expect(() => vault.open(first.of)).toThrow(FORGOTTEN);
    expect(seal('2')).toMatchObject({ n: 3 });
  });

  it('of a namespace with too many are lost to it alone, the least recently sealed first', () => {
    const vault = vaultOf({ heldBytes: 10_000, releasedBytes: 0 });
    const own = held(vault, 'pods/mine', ['a', 'b', 'c'], 'mine');
    const theirs = Array.from({ length: 100 }, (_, i) => held(vault, `pods/${i}`, [`${i}`], 'attacker'));
    expect(opened(vault, own)).toEqual(['a', 'b', 'c']);
    expect(vault.open(theirs[99]![0]!)).toBe('99');
    expect(() => vault.open(theirs[0]![0]!)).toThrow(FORGOTTEN);
  });

  it('take no memory without limit', () => {
    const vault = vaultOf();
    const large = 'x'.repeat(1024 * 1024);
    const handles = Array.from({ length: 80 }, (_, i) => held(vault, `pods/${i}`, [`${i}${large}`])[0]!);
    for (let i = 0; i < 80; i++) vault.release(`pods/${i}`);
    const isHeld = (handle: SecretHandle) => {
      try {
        return vault.open(handle) !== '';
      } catch {
        return false;
      }
    };
    expect(handles.filter(isHeld).length).toBeLessThan(64);
  });
});
