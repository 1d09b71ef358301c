/** Credentials on the command line, in each spelling of the flags that have them. */
import { describe, expect, it } from 'vitest';
import { maskedArguments } from '../../src/bin/effective-configuration.ts';
import { parseCommandLine } from '../../src/machines/configuration/flags/flags.ts';

describe('the arguments that are written down', () => {
  it.each([
    [['--manifest-url-header=Authorization:Bearer s3cret']],
    [['--manifest-url-header', 'Authorization:s3cret']],
    [['--manifest_url_header', 'Authorization:s3cret:with:colons']],
    [['--manifest-url_header=A:s3cret,B:s3cret', '-v', '2']],
    [['--v=2', '--manifest-url-header', 'A:s3cret', '--manifest-url-header=B:s3cret']],
  ])('%j have no secret, and mean the same otherwise', (argv) => {
    const masked = maskedArguments(argv);
    expect(JSON.stringify(masked)).not.toContain('s3cret');
    const [given, shown] = [argv, masked].map((each) => {
      const line = parseCommandLine(each, { version: '', raw: '' });
      if (line.kind !== 'run') throw new Error(line.kind);
      const headers = line.given['manifest-url-header'] as Record<string, string[]>;
      return { names: Object.keys(headers), counts: Object.values(headers).map(({ length }) => length) };
    });
    expect(shown).toEqual(given);
  });

  it.each([[['--manifest-url=http://me:s3cret@a:80/pods', '-v=2']], [['--manifest_url', 'https://s3cret@a/']]])(
    '%j have no login of the URL',
    (argv) => {
      const masked = maskedArguments(argv);
      expect(JSON.stringify(masked)).not.toContain('s3cret');
      expect(masked.join(' ')).toMatch(/https?:\/\/<masked>@a/);
    },
  );

  it('are left alone when they carry none', () => {
    const argv = ['--manifest-url=http://a:80/', '--node-ip', '::1', '--', '--manifest-url-headers=a:b'];
    expect(maskedArguments(argv)).toEqual(argv);
  });
});
