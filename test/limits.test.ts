/** The page of limits has the values of the source, and every limit that input from outside can reach. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '..');
const page = readFileSync(join(root, 'docs/limits.md'), 'utf8');

interface Row {
  readonly name: string;
  /** The value as in the source, or words if it is computed. */
  readonly value: string;
  readonly path: string;
}

const ROWS: readonly Row[] = [...page.matchAll(/^\| `(\w+)` \| (.*?) \| `(.*?)` \| .* \|$/gm)].map(
  ([, name, value, path]) => ({ name: name!, value: value!, path: path! }),
);

const source = (path: string): string => readFileSync(join(root, 'src', path), 'utf8');

/** The folders that read bytes from outside. The visualizer's limits are for its output, not for its input. */
const REACHED = ['actors/server', 'actors/spdy', 'actors/host/manifests', 'actors/kube', 'actors/probe'];
const NOT_REACHED: Readonly<Record<string, string>> = {
  'actors/server/visualizer/': 'bounds what is shown',
  'actors/server/thread/host.ts': 'of the thread itself',
  ITEMS_MAX: 'of what the thread sends',
  PODS_MAX: 'of what the thread is sent at once',
  SEGMENT_MAX_CHARS: 'the same as HEADER_MAX_BYTES',
  INT64_MAX: 'a bound of a type',
  PORT_MAX: 'a bound of a type',
  PATH_MAX_BYTES: 'of a path that the operator gives',
  DATA_MAX_BYTES: 'of what is sent',
  STORED_MAX_BYTES: 'of what is sent',
};

describe('docs/limits.md', () => {
  it.each(ROWS)('$name of $path', ({ name, value, path }) => {
    const declared = new RegExp(`^(?:export )?const ${name} = (.*);$`, 'm').exec(source(path))?.[1];
    expect(declared, `const ${name} in src/${path}`).toBeDefined();
    expect(value.startsWith('`') ? `\`${declared}\`` : value).toBe(value);
  });

  it('has every limit that input from outside can reach', () => {
    const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', ...REACHED], {
      cwd: join(root, 'src'),
      encoding: 'utf8',
    });
    const declared = files
      .split('\n')
      .filter((path) => path.endsWith('.ts'))
      .flatMap((path) =>
        [...source(path).matchAll(/^(?:export )?const ((?:\w+_)?MAX(?:_\w+)?) = /gm)].map(([, name]) => ({
          path,
          name: name!,
        })),
      );
    const missing = declared
      .filter(({ path, name }) => !ROWS.some((row) => row.path === path && row.name === name))
      .filter(({ path, name }) => !Object.keys(NOT_REACHED).some((each) => each === name || path.startsWith(each)));
    expect(missing).toEqual([]);
  });
});
