/**
 * The rules of the sources that a program can check: import layers, sizes, purity, headers, and that every machine has
 * a diagram and a test. A necessary exception is listed here, by name and with its reason.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { machinesOf } from '../src/kernel/steps.ts';
import { ROOT } from '../src/machines/model/pods/pod-messages.ts';
import { kubeletMachine } from '../src/machines/startup/kubelet.ts';
import { duplicates } from './support/duplicates.ts';

const root = join(import.meta.dirname, '..');
const FILE_LINES_MAX = 400;
const FUNCTION_LINES_MAX = 50;
const LINE_LENGTH_MAX = 120;
/** The limit of duplicated lines of code, without comments and imports. */
const DUPLICATE_LINES = 9;

const tracked = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', 'src', 'test', 'scripts', 'bench', 'proto'],
  {
    cwd: root,
    encoding: 'utf8',
  },
)
  .split('\n')
  .filter((path) => /\.(ts|js|proto|css|html)$/.test(path) && existsSync(join(root, path)));
const source = (path: string) => readFileSync(join(root, path), 'utf8');
const inRoom = (room: string) => tracked.filter((path) => path.startsWith(`${room}/`) && path.endsWith('.ts'));
const isGenerated = (path: string) => source(path).slice(0, 300).toLowerCase().includes('generated');

/** Every `from '…'` and `import('…')` of a file, relative ones as paths from the root of the repository. */
function imports(path: string): { target: string; typeOnly: boolean }[] {
  const found = source(path).matchAll(
    /(?:^|\n)\s*(import|export)(\s+type)?\b[^'"\n;]*?(?:\{[^}]*\}[^'"\n;]*?)?from\s+'([^']+)'|import\('([^']+)'\)/g,
  );
  return [...found].map(([, , type, from, dynamic]) => {
    const target = (from ?? dynamic)!;
    const resolved = target.startsWith('.') ? relative(root, join(root, dirname(path), target)) : target;
    return { target: resolved, typeOnly: type !== undefined };
  });
}

describe('import layers', () => {
  const facade = 'src/kernel/xstate.ts';
  const jsonTypes = 'src/kernel/json.ts';
  const wireTypes = { folder: 'src/machines/model/api/', target: '@kubernetes/client-node' };

  it('machines import machines and the facade of xstate, nothing else', () => {
    const wrong = inRoom('src/machines').flatMap((path) =>
      imports(path)
        .filter(({ target, typeOnly }) => {
          if (target.startsWith('src/machines/') || target === facade) return false;
          if (target === jsonTypes && typeOnly) return false;
          return !(path.startsWith(wireTypes.folder) && target === wireTypes.target && typeOnly);
        })
        .map(({ target }) => `${path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  /** Lower layers first; `configuration` is beside `startup` and imports no charts. */
  const floors = { model: ['model'], charts: ['model', 'charts'], configuration: ['model', 'configuration'] };

  it.each(Object.entries(floors))('machines: %s imports only %j', (floor, allowed) => {
    const wrong = inRoom(`src/machines/${floor}`).flatMap((path) =>
      imports(path)
        .filter(({ target }) => target.startsWith('src/machines/'))
        .filter(({ target }) => !allowed.some((each) => target.startsWith(`src/machines/${each}/`)))
        .map(({ target }) => `${path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  it('no folder of machines is in a circle of folders, types included', () => {
    const edges = new Map<string, Set<string>>();
    for (const path of inRoom('src/machines')) {
      const below = edges.get(dirname(path)) ?? new Set();
      edges.set(dirname(path), below);
      for (const { target } of imports(path)) if (target.startsWith('src/machines/')) below.add(dirname(target));
    }
    const reaches = (from: string, to: string, seen = new Set<string>()): boolean =>
      [...(edges.get(from) ?? [])].some((next) => {
        if (next === to) return true;
        if (next === from || seen.has(next)) return false;
        return reaches(next, to, seen.add(next));
      });
    const inCircle = [...edges.keys()].filter((folder) =>
      [...edges.get(folder)!].some((next) => next !== folder && reaches(next, folder)),
    );
    expect(inCircle).toEqual([]);
  });

  it('each family of operations has a folder of its name that implements it', () => {
    const families = inRoom('src/machines/model/operations')
      .map((path) => path.slice('src/machines/model/operations/'.length, -'.ts'.length))
      .filter(
        (family) =>
          family !== 'index' && source(`src/machines/model/operations/${family}.ts`).includes('Operations = {'),
      );
    expect(families.length).toBeGreaterThan(0);
    expect(families.filter((family) => !inRoom(`src/actors/${family}`).length)).toEqual([]);
  });

  it('actors import values of machines only from the model and the configuration, so no chart', () => {
    const shared = ['src/machines/model/', 'src/machines/configuration/'];
    const wrong = inRoom('src/actors').flatMap((path) =>
      imports(path)
        .filter(({ target, typeOnly }) => target.startsWith('src/machines/') && !typeOnly)
        .filter(({ target }) => !shared.some((folder) => target.startsWith(folder)))
        .map(({ target }) => `${path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
    expect(kubeletMachine.id).toBe(ROOT);
  });

  it('the kernel imports neither machines nor actors', () => {
    const wrong = inRoom('src/kernel').flatMap((path) =>
      imports(path)
        .filter(({ target }) => /^src\/(machines|actors|bin|visualizer)\//.test(target))
        .map(({ target }) => `${path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  it('nothing imports the programs of bin', () => {
    const wrong = ['kernel', 'machines', 'actors', 'simulation']
      .flatMap((room) => inRoom(`src/${room}`))
      .flatMap((path) =>
        imports(path)
          .filter(({ target }) => target.startsWith('src/bin/'))
          .map(({ target }) => `${path} imports ${target}`),
      );
    expect(wrong).toEqual([]);
  });

  it('only programs import the simulation', () => {
    const wrong = [...inRoom('src/kernel'), ...inRoom('src/machines'), ...inRoom('src/actors')].flatMap((path) =>
      imports(path)
        .filter(({ target }) => target.startsWith('src/simulation/'))
        .map(({ target }) => `${path} imports ${target}`),
    );
    expect(wrong).toEqual([]);
  });

  it('only the facade and the kernel know xstate', () => {
    const wrong = ['machines', 'actors', 'bin', 'simulation']
      .flatMap((room) => inRoom(`src/${room}`))
      .flatMap((path) =>
        imports(path)
          .filter(({ target }) => /^xstate(\/|$)/.test(target))
          .map(() => path),
      );
    expect(wrong).toEqual([]);
  });
});

describe('CONTRIBUTING answers where to change what', () => {
  const rows = source('CONTRIBUTING.md')
    .split('\n')
    .filter((line) => line.startsWith('| ') && line.includes('`src/'));
  const named = rows.flatMap((row) => [...row.matchAll(/`(src\/[^`]+)`/g)].map(([, path]) => path!));

  it('with files that there are', () => {
    expect(rows.length).toBeGreaterThanOrEqual(20);
    expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });

  /** By file of `src/machines`, the declaration in it that decides the answer. */
  const declared: Readonly<Record<string, string>> = {
    'model/configuration/fields.ts': 'kubeletConfigurationType',
    'configuration/fields/defaults.ts': 'applyDefaults',
    'configuration/flags/flag-table.ts': 'FLAGS',
    'configuration/flags/configuration-flags.ts': 'CONFIGURATION_FLAGS',
    'configuration/validation/validation.ts': 'validateConfiguration',
    'startup/kubelet.ts': 'kubeletMachine',
    'startup/run.ts': 'run',
    'model/validation/pod.ts': 'validatePod',
    'model/allocation/predicates.ts': 'checkPredicates',
    'model/reasons/reasons.ts': 'podEvents',
    'model/spec/container.ts': 'containerConfig',
    'model/spec/environment.ts': 'environment',
    'model/spec/qos.ts': 'podQOS',
    'model/cgroups/pod-cgroup.ts': 'podGroup',
    'model/spec/restart.ts': 'nextBackoff',
    'model/status/phase.ts': 'podPhase',
    'model/status/conditions.ts': 'podConditions',
    'charts/pods/prober/prober-policy.ts': 'firstDelay',
    'model/eviction/ranking.ts': 'rankedForEviction',
    'charts/images/image.ts': 'imageMachine',
    'charts/images/image-setup.ts': 'SHOW_ERROR_MS',
    'charts/pods/pleg.ts': 'RELIST_PERIOD_MS',
    'charts/node/object/conditions.ts': 'nodeConditions',
    'configuration/fields/feature-gate-table.ts': 'FEATURE_GATES',
    'model/pods/defaults.ts': 'withDefaults',
    'model/spec/hostname.ts': 'hostsFile',
    'model/spec/dns.ts': 'podDns',
    'model/images/image-choice.ts': 'imagesToRemove',
    'charts/node/shutdown/policy.ts': 'podsOfGroup',
    'charts/csi/mount.ts': 'csiMountMachine',
  };
  const inMachines = named.flatMap((path) =>
    path.startsWith('src/machines/') ? [path.slice('src/machines/'.length)] : [],
  );

  it.each(inMachines)('src/machines/%s declares what decides it', (path) => {
    expect(source(`src/machines/${path}`)).toMatch(new RegExp(`\\b(?:const|function) ${declared[path]}\\b`));
  });
});

describe('purity of machines', () => {
  const banned: readonly (readonly [RegExp, string])[] = [
    [/\bDate\.now\(/, 'now(args): the time of the turn'],
    [/\bnew Date\(\)/, 'now(args): the time of the turn'],
    [/\bMath\.random\(/, 'random(args): the seeded generator'],
    [/\bset(Timeout|Interval|Immediate)\(/, '`after` or a delayed send'],
    [/\bprocess\./, 'an operation'],
    [/\bconsole\./, 'line(level, text)'],
    [/\bfetch\(/, 'an operation'],
    [/\basync\b/, 'invoke an operation'],
    [/\bfrom(Promise|Callback|Observable)\b/, 'invoke an operation'],
    [/\.send\(/, 'sendTo'],
    [/\bsystem\.get\(/, "to('<systemId>')"],
  ];
  it.each(inRoom('src/machines'))('%s', (path) => {
    const code = source(path).replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, '');
    const found = banned
      .filter(([pattern]) => pattern.test(code))
      .map(([pattern, instead]) => `${pattern.source}: use ${instead}`);
    expect(found).toEqual([]);
  });
});

describe('sizes', () => {
  const checked = tracked.filter((path) => path.endsWith('.ts') && path.startsWith('src/') && !isGenerated(path));

  it(`no file is longer than ${FILE_LINES_MAX} lines`, () => {
    const long = checked
      .map((path) => [path, source(path).split('\n').length] as const)
      .filter(([, n]) => n > FILE_LINES_MAX);
    expect(long).toEqual([]);
  });

  it(`no line is longer than ${LINE_LENGTH_MAX} characters`, () => {
    // The formatter breaks code; longer lines contain texts that must stay in one piece.
    const exempt = /['"`].{60,}['"`]|https?:\/\//;
    const long = checked.flatMap((path) =>
      source(path)
        .split('\n')
        .flatMap((line, i) => (line.length > LINE_LENGTH_MAX && !exempt.test(line) ? [`${path}:${i + 1}`] : [])),
    );
    expect(long).toEqual([]);
  });

  it(`no function is longer than ${FUNCTION_LINES_MAX} lines`, () => {
    expect(checked.flatMap(longFunctions)).toEqual([]);
  });
});

describe('duplicates', () => {
  const lines = (from: number, count: number) => Array.from({ length: count }, (_, i) => `line(${from + i});`);
  const file = (path: string, ...parts: readonly string[][]) => ({ path, text: parts.flat().join('\n') });

  it('are found in two files and in one, once each', () => {
    const twice = [file('a.ts', lines(0, 12)), file('b.ts', lines(90, 3), lines(0, 12))];
    expect(duplicates(twice, 10)).toEqual(['a.ts:1 and b.ts:4']);
    expect(duplicates([file('a.ts', lines(0, 10), lines(50, 1), lines(0, 10))], 10)).toEqual(['a.ts:1 and a.ts:12']);
  });

  it('are not what is shorter, a comment, or an import', () => {
    const imports = Array.from({ length: 12 }, (_, i) => `import {\n  a${i},\n} from './a${i}.ts';`);
    const comment = ['/**', ...Array.from({ length: 12 }, () => ' * the same'), ' */'];
    const same = (path: string) => file(path, imports, comment, lines(0, 9));
    expect(duplicates([same('a.ts'), same('b.ts')], 10)).toEqual([]);
  });

  it(`src has none of ${DUPLICATE_LINES} lines`, () => {
    const checked = inRoom('src').filter((path) => !isGenerated(path));
    expect(
      duplicates(
        checked.map((path) => ({ path, text: source(path) })),
        DUPLICATE_LINES,
      ),
    ).toEqual([]);
  });
});

/** The faults of a machine's header: each kind of line once, in this order, and invariants `X1`, `X2`, one per line. */
function headerFaults(header: string): string[] {
  const kinds = [...header.matchAll(/^ \* (Decides|Owns|Hears|Asks|Sends|Answers|Invariants):/gm)].map(
    ([, kind]) => kind!,
  );
  const wanted = ['Decides', 'Owns', 'Hears', 'Asks', 'Sends', 'Answers', 'Invariants'].filter(
    (kind) => kinds.includes(kind) || (kind !== 'Sends' && kind !== 'Answers'),
  );
  const [, invariants = ''] = header.split('Invariants:\n');
  const numbers = [...invariants.matchAll(/^ \* {3}([A-Z])(\d+) /gm)].map(([, letter, number]) => `${letter}${number}`);
  const expected = numbers.map((_, at) => `${numbers[0]![0]}${at + 1}`);
  return [
    ...(kinds.join() === wanted.join() ? [] : [`has ${kinds.join()} instead of ${wanted.join()}`]),
    ...(numbers.length > 0 && numbers.join() === expected.join() ? [] : [`numbers its invariants ${numbers.join()}`]),
  ];
}

/** Functions and methods by their first and last line; the formatter's indentation shows where one ends. */
function longFunctions(path: string): string[] {
  const lines = source(path).split('\n');
  return lines.flatMap((line, start) => {
    const opening =
      /^(\s*)(?:export )?(?:default )?(?:async )?(?:function\*? ?(\w+)|(?:(?:private|public|protected|static|override|async|get|set|readonly) )*(\w+)\([^;]*\)[^;=]*\{$)/.exec(
        line,
      );
    const name = opening?.[2] ?? opening?.[3];
    if (!opening || !name || ['if', 'for', 'while', 'switch', 'catch', 'return'].includes(name)) return [];
    const end = lines.findIndex((other, i) => i > start && other.startsWith(`${opening[1]}}`));
    const length = end - start + 1;
    return length > FUNCTION_LINES_MAX ? [`${path}:${start + 1} ${name}: ${length} lines`] : [];
  });
}

describe('headers and leftovers', () => {
  const checked = tracked.filter((path) => path.endsWith('.ts') && !isGenerated(path));
  const programs = tracked.filter((path) => /\.(ts|js)$/.test(path) && !isGenerated(path));

  it('every source file begins with what it is', () => {
    const bare = checked.filter((path) => path.startsWith('src/') && !/^(#!.*\n)?\/\*\*/.test(source(path)));
    expect(bare).toEqual([]);
  });

  it('every machine says what it decides, owns, hears and asks, and numbers its invariants', () => {
    const bad = inRoom('src/machines')
      .filter((path) => /\.createMachine\(/.test(source(path)))
      .flatMap((path) =>
        headerFaults(source(path).slice(0, source(path).indexOf('*/'))).map((fault) => `${path}: ${fault}`),
      );
    expect(bad).toEqual([]);
  });

  it('comments name their subjects', () => {
    const vague = /\b(nobody|somebody|anybody|everybody|whoever|strangers?|bur(y|ied))\b/i;
    const comment = /\/\*[\s\S]*?\*\/|(?:^|[\s;])\/\/[^\n]*/g;
    const found = programs.flatMap((path) =>
      [...source(path).matchAll(comment)].flatMap(([text]) =>
        text.split('\n').flatMap((line) => (vague.test(line) ? [`${path}: ${line.trim()}`] : [])),
      ),
    );
    expect(found).toEqual([]);
  });

  it('no file needs rulers between its parts: each has one subject', () => {
    const ruler = /^\s*(\/\/|\/?\*)\s*([-=_*#~─━])\2{2}/m;
    expect(programs.filter((path) => ruler.test(source(path)))).toEqual([]);
  });

  it('every block comment of src is the header of its file or documents a symbol', () => {
    const alone = /^\/\*(?!\*)|\*\/\s*\n\s*\/\*/m;
    const afterHeader = (text: string) => text.slice(text.indexOf('*/') + 2);
    const found = inRoom('src').filter((path) => !isGenerated(path) && alone.test(afterHeader(source(path))));
    expect(found).toEqual([]);
  });

  it('nothing is left to do in the code', () => {
    const marker = new RegExp(['TO', 'DO|FIX', 'ME|XX', 'X'].join(''));
    expect(checked.filter((path) => marker.test(source(path)))).toEqual([]);
  });

  it('no test is focused', () => {
    const focused = new RegExp(String.raw`\b(it|test|describe)\.(only|todo)\(`);
    expect(checked.filter((path) => path.startsWith('test/') && focused.test(source(path)))).toEqual([]);
  });
});

describe('mirrors', () => {
  /** Folders of src whose code is tested elsewhere, with the place. */
  const elsewhere: Readonly<Record<string, string>> = {
    'simulation/api-server': 'the objects of the API server that test/contract/api-server*.test.ts asks',
    'simulation/world': 'the world of all tests of charts, and of test/simulation',
    'machines/configuration/fields':
      'a table of fields: test/machines/configuration has the corpus that all go through',
    'machines/model/operations': 'signatures of operations: the tests of the ports that implement them',
    'machines/model/settings': 'types of settings, which test/machines/startup/context derives',
  };
  const foldersOf = (room: string, end: string) =>
    new Set(inRoom(room).flatMap((path) => (path.endsWith(end) ? [dirname(path).slice(room.length + 1)] : [])));
  const tested = foldersOf('test', '.test.ts');
  const unmirrored = [...foldersOf('src', '.ts')].filter((folder) => !tested.has(folder));

  it('each folder of src has tests in the folder of its name, or is listed with its reason', () => {
    expect(unmirrored.filter((folder) => !Object.hasOwn(elsewhere, folder))).toEqual([]);
  });

  it('no folder is listed that has a mirror or is gone', () => {
    expect(Object.keys(elsewhere).filter((folder) => !unmirrored.includes(folder))).toEqual([]);
  });
});

describe('machines', () => {
  const machines = [...machinesOf(kubeletMachine).keys()];
  const tests = tracked.filter(
    (path) => path.startsWith('test/') && path.endsWith('.test.ts') && path !== 'test/tidy.test.ts',
  );
  const fileOf = (id: string) =>
    inRoom('src/machines').find((path) => new RegExp(`createMachine\\(\\{\\s*id: '${id}'`).test(source(path)));

  it.each(machines)('%s lives in a file of its own, has a diagram and a test', (id) => {
    const file = fileOf(id);
    expect(file, `the file of machine ${id}`).toBeDefined();
    expect(source(file!).match(/\bcreateMachine\(\{/g)).toHaveLength(1);
    expect(existsSync(join(root, `docs/diagrams/${id}.svg`)), `docs/diagrams/${id}.svg`).toBe(true);
    const exported = /export const (\w+Machine)\b/.exec(source(file!))?.[1];
    expect(exported, `${file} exports <noun>Machine`).toBeDefined();
    expect(
      tests.filter((path) => source(path).includes(exported!) || source(path).includes(`'${id}'`)),
      `a test of ${id}`,
    ).not.toEqual([]);
  });

  it('keep every unhandled crash of a child from climbing', () => {
    const bare = [...machinesOf(kubeletMachine)].flatMap(([id, machine]) =>
      statesOf(machine.root as unknown as StateNode).flatMap((state) =>
        state.invoke
          .filter((invoked) => !handlesError(state, invoked.id))
          .map((invoked) => `${id}: ${state.id} invokes ${invoked.id} without onError`),
      ),
    );
    expect(bare).toEqual([]);
  });
});

/** The part of XState's state nodes that these rules read. */
interface StateNode {
  readonly id: string;
  readonly parent: StateNode | undefined;
  readonly states: Readonly<Record<string, StateNode>>;
  readonly invoke: readonly { readonly id: string }[];
  readonly transitions: ReadonlyMap<string, unknown>;
}

const statesOf = (state: StateNode): StateNode[] => [state, ...Object.values(state.states).flatMap(statesOf)];

function handlesError(state: StateNode, id: string): boolean {
  for (let node: StateNode | undefined = state; node; node = node.parent) {
    if (node.transitions.has(`xstate.error.actor.${id}`) || node.transitions.has('xstate.error.actor.*')) return true;
  }
  return false;
}
