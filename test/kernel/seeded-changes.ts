/**
 * Changes of code that a replay must find, and refactorings that it must not report: changes of the shop's source, and
 * of one guard or delay of a node's machine. Each change is of another kind or place; `by` is the actor whose decision
 * differs.
 */
import { machinesOf } from '../../src/kernel/steps.ts';
import type { AnyStateMachine } from '../../src/kernel/xstate.ts';
import { kubeletMachine } from '../../src/machines/startup/kubelet.ts';
import type { Edit } from './journal/mutated-shop.ts';

export interface ShopChange {
  readonly name: string;
  readonly by: RegExp;
  readonly edits: readonly Edit[];
}

const CLERK = /^shop\/clerk-[abc]$/;
const SHOP = /^shop$/;

const change = (name: string, by: RegExp, ...edits: readonly Edit[]): ShopChange => ({ name, by, edits });

/** Replaces one part. */
const edit = (from: string, to: string): Edit => [from, to];

export const SHOP_CHANGES: readonly ShopChange[] = [
  change(
    'a guard that refuses a sale',
    CLERK,
    edit("{ target: 'selling', actions", "{ guard: () => false, target: 'selling', actions"),
  ),
  change(
    'a guard by what was sold',
    CLERK,
    edit(
      "{ target: 'selling', actions",
      "{ guard: ({ context }) => context.sold.length < 2, target: 'selling', actions",
    ),
  ),
  change(
    'a guard of the first sale',
    CLERK,
    edit(
      "{ target: 'selling', actions",
      "{ guard: ({ context }) => context.sold.length > 0, target: 'selling', actions",
    ),
  ),
  change(
    'a guard of a line',
    CLERK,
    edit('5_000: { actions', '5_000: { guard: ({ context }) => context.sold.length > 3, actions'),
  ),
  change(
    'a guard of hiring',
    SHOP,
    edit(
      "'clerk.hired': {\n      actions",
      "'clerk.hired': {\n      guard: ({ event }) => event.name !== 'b',\n      actions",
    ),
  ),
  change(
    'a guard of the bell',
    SHOP,
    edit("'bell.rang': { actions", "'bell.rang': { guard: ({ event }) => event.times !== 3, actions"),
  ),
  change('a shorter wait', CLERK, edit('{ after: { 1_000:', '{ after: { 999:')),
  change('a longer wait', CLERK, edit('{ after: { 1_000:', '{ after: { 6_000:')),
  change('a shorter idle time', CLERK, edit('5_000: {', '4_000: {')),
  change(
    'a wait that grows',
    CLERK,
    edit(
      "{ after: { 1_000: 'selling' } }",
      "{ after: [{ delay: ({ context }) => 1_000 + context.sold.length, target: 'selling' }] as never }",
    ),
  ),
  change(
    'one more timer',
    CLERK,
    edit("{ after: { 1_000: 'selling' } }", "{ after: { 1_000: 'selling', 90_000: 'idle' } }"),
  ),
  change('no timer', CLERK, edit("waiting: { after: { 1_000: 'selling' } }", 'waiting: {}')),
  change(
    'a message that is dropped',
    CLERK,
    edit(
      "sendParent(({ context, event }) => ({ type: 'item.sold', by: context.name, price: event.output.price })),",
      '',
    ),
  ),
  change('a message of another price', CLERK, edit('price: event.output.price', 'price: event.output.price + 1')),
  change(
    'a message of another name',
    CLERK,
    edit("type: 'item.sold', by: context.name", "type: 'item.sold', by: context.item"),
  ),
  change('a message of another type', CLERK, edit("({ type: 'item.sold', by", "({ type: 'item.gone', by")),
  change('a message to another', SHOP, edit('({ event }) => `clerk-${event.to}`,\n', '() => `clerk-a`,\n')),
  change('a message more', CLERK, edit('    waiting: {', "    waiting: { entry: sendParent({ type: 'clerk.waits' }),")),
  change(
    'a message of another item',
    SHOP,
    edit("({ type: 'sale.asked', item: event.item })", "({ type: 'sale.asked', item: event.item.trim() + '.' })"),
  ),
  change(
    'a message at the beginning',
    CLERK,
    edit('    idle: {', "    idle: { entry: sendParent({ type: 'clerk.idles' }),"),
  ),
  change(
    'an operation of another input',
    CLERK,
    edit('({ item: context.item })', '({ item: context.item.toUpperCase() })'),
  ),
  change(
    'an operation with one input more',
    SHOP,
    edit("input: { shelf: 'left' }", "input: { shelf: 'left', row: 1 } as never"),
  ),
  change('an operation of another shelf', SHOP, edit("input: { shelf: 'left' }", "input: { shelf: 'right' }")),
  change('an operation that is not cancelled', SHOP, edit("evening: '.closed'", 'evening: {}')),
  change(
    'an operation more',
    SHOP,
    edit(
      "invoke: { id: 'listen',",
      "entry: assign({}), invoke: [{ id: 'again', src: 'shop.look', input: { shelf: 'left' } }, { id: 'listen',",
    ),
    edit("onError: 'closed' } }", "onError: 'closed' }] }"),
  ),
  change('another order of operations', SHOP, edit("initial: 'opening'", "initial: 'open'")),
  change(
    'another end of an operation',
    SHOP,
    edit("onDone: 'open', onError: 'open'", "onDone: 'closed', onError: 'open'"),
  ),
  change('no second try', CLERK, edit("onError: 'waiting'", "onError: 'idle'")),
  change(
    'a second sale after the first',
    CLERK,
    edit("onDone: {\n          target: 'idle'", "onDone: {\n          target: 'waiting'"),
  ),
  change('a line of another level', CLERK, edit("line('info', ", "line('warn', ")),
  change('a line of other words', CLERK, edit("'nobody comes'", "'no one comes'")),
  change('a line without a field', CLERK, edit("['nobody comes', { clerk: context.name }]", "['nobody comes', {}]")),
  change('a line more', CLERK, edit('    waiting: {', "    waiting: { entry: line('warn', () => ['waits', {}]),")),
  change('context only: chance', CLERK, edit('luck: random(args)', 'luck: random(args) / 2')),
  change('context only: time', CLERK, edit('atMs: now(args)', 'atMs: now(args) + 1')),
  change(
    'context only: order',
    CLERK,
    edit('[...args.context.sold, args.context.item]', '[args.context.item, ...args.context.sold]'),
  ),
  change('context only: a sum', SHOP, edit('context.rang + event.times', 'context.rang - event.times')),
  change('context only: a first value', SHOP, edit('income: 0,', 'income: -1,')),
  change('an error that is swallowed', CLERK, edit("throw new Error('fainted');", 'return {};')),
  change(
    'an actor that stays',
    SHOP,
    edit("'clerk.left': { actions: stopChild(({ event }) => `clerk-${event.name}`) }", "'clerk.left': {}"),
  ),
];

/** One inverted guard, or one delay that is 5 s longer, of a machine that starts or runs the golden node. */
export interface NodeChange {
  readonly machine: string;
  readonly guard?: string;
  readonly delay?: string;
  readonly by: string;
}

const turned = (machine: string, guard: string, by = `kubelet/${machine}`): NodeChange => ({ machine, guard, by });
const IMAGE = 'kubelet/images/image-app%3A1';

export const NODE_CHANGES: readonly NodeChange[] = [
  turned('configLoader', 'isRefused'),
  turned('configLoader', 'hasFile'),
  turned('clientBuilder', 'isStandalone'),
  turned('auth', 'isBuildable'),
  turned('watchdog', 'isMisconfigured'),
  turned('watchdog', 'isWanted'),
  turned('resolver', 'hasFile'),
  turned('configReload', 'hasFiles'),
  turned('runtimeService', 'isNamed'),
  turned('runtimeState', 'isUp'),
  turned('containerManager', 'isRefused'),
  turned('containerManager', 'usesCgroups'),
  turned('containerManager', 'isSetUp'),
  turned('containerManager', 'hasOrphans'),
  turned('containerManager', 'hasLevels'),
  turned('containerManager', 'hasStaleFile'),
  turned('softState', 'isDirty'),
  turned('softState', 'isUrgent'),
  turned('image', 'hasNoRequests', IMAGE),
  turned('image', 'verifies', IMAGE),
  turned('image', 'mustRecordCredential', IMAGE),
  { machine: 'image', delay: 'idle', by: IMAGE },
];

/** Whether messages, states and contexts stay the same, too. */
export interface Refactoring {
  readonly name: string;
  readonly isExact: boolean;
  readonly edits: readonly Edit[];
}

const exact = (name: string, ...edits: readonly Edit[]): Refactoring => ({ name, isExact: true, edits });
const inner = (name: string, ...edits: readonly Edit[]): Refactoring => ({ name, isExact: false, edits });

export const REFACTORINGS: readonly Refactoring[] = [
  exact('a comment', edit('const clerkMachine', '/** Sells. */\nconst clerkMachine')),
  exact(
    'a constant for a delay',
    edit('const clerkMachine', 'const IDLE_MS = 5_000;\nconst clerkMachine'),
    edit('after: { 5_000:', 'after: { [IDLE_MS]:'),
  ),
  exact(
    'a function for an input',
    edit(
      'const clerkMachine',
      'const itemOf = ({ context }: { context: { item: string } }) => ({ item: context.item });\nconst clerkMachine',
    ),
    edit('input: ({ context }) => ({ item: context.item }),', 'input: itemOf,'),
  ),
  exact(
    'another name of a parameter',
    edit('assign({ item: ({ event }) => event.item })', 'assign({ item: (given) => given.event.item })'),
  ),
  exact(
    'a guard that always holds',
    edit("{ target: 'selling', actions", "{ guard: () => true, target: 'selling', actions"),
  ),
  exact(
    'a list of one action',
    edit(
      '{ actions: assign({ rang: ({ context, event }) => context.rang + event.times }) }',
      '{ actions: [assign({ rang: ({ context, event }) => context.rang + event.times })] }',
    ),
  ),
  exact('a sum the other way round', edit('context.income + event.price', 'event.price + context.income')),
  exact(
    'one assign of a function',
    edit('assign({ list: ({ event }) => event.text })', 'assign(({ event }) => ({ list: event.text }))'),
  ),
  exact('a long form of a target', edit("onError: 'waiting'", "onError: { target: 'waiting' }")),
  exact('a list of transitions', edit("evening: '.closed'", "evening: [{ target: '.closed' }]")),
  exact(
    'an alternative that is never taken',
    edit("onError: 'waiting'", "onError: [{ guard: () => false, target: 'idle' }, { target: 'waiting' }]"),
  ),
  exact(
    'concat for spread',
    edit('[...args.context.sold, args.context.item]', 'args.context.sold.concat(args.context.item)'),
  ),
  exact('another id of a request', edit("id: 'sell',", "id: 'sale',")),
  exact('another id of a stream', edit("id: 'listen',", "id: 'hear',")),
  inner(
    'another name of a state',
    edit('waiting: { after', 'pausing: { after'),
    edit("onError: 'waiting'", "onError: 'pausing'"),
  ),
  inner('another name of a machine', edit("id: 'clerk',\n  context", "id: 'assistant',\n  context")),
  inner('a member of a context more', edit("item: '', sold: []", "item: '', door: 'front', sold: []")),
  inner('a member of a message more', edit("type: 'item.sold', by", "type: 'item.sold', at: 'till', by")),
  inner(
    'another type of a message between two',
    edit("type: 'sale.asked', item: event.item }", "type: 'sale.wanted' as 'sale.asked', item: event.item }"),
    edit("on: { 'sale.asked'", "on: { ['sale.wanted' as 'sale.asked']"),
  ),
  exact(
    'a state between two that rests in none',
    edit('    waiting: {', "    between: { always: 'waiting' },\n    waiting: {"),
    edit("onError: 'waiting'", "onError: 'between'"),
  ),
];

/** All tests of a file share the machines: the change is undone. */
export function withNodeChange<T>({ machine, guard, delay }: Omit<NodeChange, 'by'>, run: () => T): T {
  const { guards, delays } = machinesOf(kubeletMachine as AnyStateMachine).get(machine)!.implementations;
  const table = (guard === undefined ? delays : guards) as Record<string, unknown>;
  const name = (guard ?? delay)!;
  const before = table[name];
  const answer = (...args: unknown[]): unknown =>
    typeof before === 'function' ? (before as (...given: unknown[]) => unknown)(...args) : before;
  table[name] =
    guard === undefined
      ? (...args: unknown[]) => Number(answer(...args)) + 5_000
      : (...args: unknown[]) => !answer(...args);
  let isPending = false;
  const restore = (): void => void (table[name] = before);
  try {
    const result = run();
    isPending = result instanceof Promise;
    return result instanceof Promise ? (result.finally(restore) as T) : result;
  } finally {
    if (!isPending) restore();
  }
}
