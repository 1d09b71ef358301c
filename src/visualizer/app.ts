/**
 * The visualizer's page: composes the views, passes changes to them, and keeps the choice in the address, so that a
 * link shows the same view, actor, record and search.
 */
import { ChartView } from './chart.ts';
import { ComparePane } from './compare.ts';
import { Details } from './details.ts';
import { byId, el, paced, setText } from './dom.ts';
import { Events } from './events.ts';
import { HealthPane } from './health.ts';
import { Link, placeOf } from './link.ts';
import { OpeningDialog } from './opening.ts';
import { PhaseBars } from './phases.ts';
import { PodsPane } from './pods.ts';
import { RecordPane } from './record.ts';
import { StartReports } from './start.ts';
import { type Part, Store, VIEWS, type View } from './store.ts';
import { Travel } from './travel.ts';
import { Tree } from './tree.ts';

/** Milliseconds between two addresses. */
const ADDRESS_MS = 300;

const place = await placeOf(document);
const store = new Store();
store.connect(new Link(place.worker, (notice) => store.take(notice)));

const tree = new Tree(store);
const chart = new ChartView(store, place.chart);
const details = new Details(store);
const events = new Events(store);
const record = new RecordPane(store);
const start = new StartReports(store, () => phases.drawLinks());
const phases = new PhaseBars(store, start);
const pods = new PodsPane(store);
const travel = new Travel(store);
const health = new HealthPane(store);
const opening = new OpeningDialog(store);
const compare = new ComparePane(store, (take) => opening.show(take));

const TITLES: Readonly<Record<View, string>> = {
  start: 'Start',
  actors: 'Actors',
  pods: 'Pods',
  records: 'Records',
  compare: 'Compare',
  health: 'Health',
};

const tabs = new Map(
  VIEWS.map((view, at) => {
    const tab = el('button', { type: 'button' }, TITLES[view], ' ', el('kbd', {}, String(at + 1)));
    tab.addEventListener('click', () => store.show(view));
    return [view, tab] as const;
  }),
);
byId('views', HTMLElement).append(...tabs.values());

/** Parts that several views show move to the one that is open. */
function showView(): void {
  document.body.dataset['view'] = store.view;
  for (const [view, tab] of tabs) {
    if (view === store.view) tab.setAttribute('aria-current', 'page');
    else tab.removeAttribute('aria-current');
  }
  for (const part of document.querySelectorAll<HTMLElement>('[data-views]'))
    part.hidden = !(part.dataset['views'] ?? '').split(' ').includes(store.view);
}

const CONNECTIONS = {
  connecting: 'connecting',
  live: 'live',
  lost: 'lost, trying again',
  journal: 'journal',
  failed: 'not open',
} as const;

function updateBar(): void {
  const { facts } = store;
  const connection = byId('connection', HTMLElement);
  setText(connection, facts.isReading ? `reading, ${facts.records} records` : CONNECTIONS[facts.connection]);
  connection.dataset['connection'] = facts.connection;
  setText(byId('node', HTMLElement), facts.node);
  setText(byId('counts', HTMLElement), `${store.actors.size} actors, turn ${store.moment?.turn ?? facts.turn}`);
  setText(byId('note', HTMLElement), facts.connection === 'failed' ? '' : (facts.note ?? ''));
}

type Any = (...wanted: readonly Part[]) => boolean;

/** Parts that are out of sight are not drawn. */
function updateActors(any: Any): void {
  if (any('actors', 'phases', 'choice')) tree.update();
  if (any('actors', 'choice')) chart.update();
  if (any('detail')) chart.showStep();
  if (any('actors', 'choice', 'detail')) details.update();
  else if (any('clock')) details.tick();
}

function updateRecords(any: Any): void {
  if (any('records', 'choice', 'phases', 'inspection')) events.update(any('choice', 'inspection'));
  if (any('record')) void events.locate();
  if (any('inspection', 'choice', 'moment')) record.update();
}

function updateStart(any: Any): void {
  if (any('facts')) phases.summarize();
  if (any('phases', 'choice')) phases.update();
  else if (any('moment')) phases.markMoment();
  else if (any('clock')) phases.tick();
}

function update(parts: ReadonlySet<Part>): void {
  const any: Any = (...wanted) => wanted.some((part) => parts.has(part));
  if (any('choice')) showView();
  if (any('facts', 'actors', 'moment')) updateBar();
  if (any('facts', 'moment', 'choice', 'record')) travel.update();
  // The records are updated first: scrolling them is cheap only before other parts have changed.
  if (store.view === 'actors' || store.view === 'records') updateRecords(any);
  if (store.view === 'actors') updateActors(any);
  updateStart(any);
  if (any('facts', 'choice', 'clock')) start.update();
  if (any('pods', 'moment', 'choice', 'clock')) pods.update();
  if (any('facts', 'choice')) compare.update();
  if (any('choice', 'clock', 'facts')) health.update();
  if (any('choice')) keepChoice();
  else if (any('record')) keepSoon();
}

/** The address that this page has written, or taken its choice from. */
let kept = location.hash;
/** The address does not change with each step, because a browser loads the icon again with each new address. */
const keepSoon = paced(keepChoice, ADDRESS_MS);

function keepChoice(): void {
  // The user chose another address, which has not been read yet.
  if (location.hash !== kept) return;
  const choice = new URLSearchParams();
  if (store.view !== 'start') choice.set('view', store.view);
  if (store.actor !== undefined) choice.set('actor', store.actor);
  if (store.record !== undefined) choice.set('record', String(store.record));
  if (store.pod !== undefined && pods.isOpen) choice.set('pod', store.pod);
  if (events.search.value !== '') choice.set('search', events.search.value);
  if (events.group.value !== '') choice.set('group', events.group.value);
  if (location.hash !== `#${choice}`) history.replaceState(null, '', `#${choice}`);
  kept = location.hash;
}

function restoreChoice(): void {
  kept = location.hash;
  const choice = new URLSearchParams(location.hash.slice(1));
  const view = VIEWS.find((each) => each === choice.get('view'));
  const [n, pod] = [choice.get('record'), choice.get('pod')];
  store.chooseActor(choice.get('actor') ?? undefined);
  if (pod !== null) store.choosePod(pod);
  store.show(view ?? (pod === null ? 'start' : 'pods'));
  events.restore((choice.get('search') ?? '').slice(0, 500), choice.get('group') ?? '');
  store.chooseRecord(n !== null && /^\d{1,15}$/.test(n) ? Number(n) : undefined);
}

const go = (view: View, element: HTMLElement): void => {
  store.show(view);
  showView();
  element.focus();
};

/** The first element of a list that Enter works on. */
const firstOf = (body: HTMLElement): HTMLElement => body.querySelector<HTMLElement>('button') ?? body;

bindKeys([
  { key: 'w', does: 'Go to the record that the first line speaks of', run: () => phases.showRecord() },
  ...VIEWS.map((view, at) => ({ key: String(at + 1), does: `Show: ${TITLES[view]}`, run: () => store.show(view) })),
  { key: 'p', does: 'Go to the phases of the start', run: () => go('start', firstOf(phases.list)) },
  { key: 'b', does: 'Go to the slowest requests of the start', run: () => go('start', firstOf(start.blame)) },
  { key: 'k', does: 'Go to the critical chain of the start', run: () => go('start', firstOf(start.chain)) },
  { key: 't', does: 'Go to the actors', run: () => go('actors', tree.element) },
  { key: '/', does: 'Filter the actors', run: () => go('actors', tree.filter) },
  { key: 'g', does: 'Go to the chart; arrows scroll it', run: () => go('actors', chart.sheet) },
  { key: '+', does: 'Enlarge the chart', run: () => chart.zoomBy(1.25) },
  { key: '-', does: 'Reduce the chart', run: () => chart.zoomBy(0.8) },
  { key: '0', does: 'Fit the chart', run: () => chart.fit() },
  { key: 'd', does: "Go to the actor's details", run: () => go('actors', details.element) },
  { key: 'o', does: 'Go to the pods', run: () => pods.open() },
  { key: 'e', does: 'Go to the records', run: () => go(store.view === 'actors' ? 'actors' : 'records', events.grid) },
  {
    key: 's',
    does: 'Search the records',
    run: () => go(store.view === 'actors' ? 'actors' : 'records', events.search),
  },
  { key: 'i', does: 'Go to the inspector of the chosen record', run: () => go('records', firstOf(record.body)) },
  { key: 'a', does: 'Records of the chosen actor only, or of all', run: () => events.toggleOwn() },
  { key: 'f', does: 'Follow the newest record, or stay', run: () => events.toggleFollow() },
  { key: 'y', does: 'Take the chosen actor into the sequence, or out of it', run: () => store.toggleSequenced() },
  { key: 'x', does: 'Go to what differs from another start', run: () => go('compare', firstOf(compare.body)) },
  { key: ',', does: 'Go to the moment one record before', run: () => void store.step('record', -1) },
  { key: '.', does: 'Go to the moment one record later', run: () => void store.step('record', 1) },
  { key: '[', does: 'Go to the moment one turn before', run: () => void store.step('turn', -1) },
  { key: ']', does: 'Go to the moment one turn later', run: () => void store.step('turn', 1) },
  { key: 'm', does: 'Go to the slider of moments', run: () => travel.slider.focus() },
  { key: 'j', does: 'Open a journal', run: () => opening.show() },
  { key: 'Escape', does: 'Choose no record: back to the end', run: () => store.chooseRecord(undefined) },
  { key: 'c', does: 'In the records: go to the cause' },
  { key: 'Enter', does: "In the records: go to the record's actor" },
  { key: '↑ ↓', does: 'In lists: choose another' },
  { key: '← →', does: 'In the actors: fold and unfold' },
]);

store.listen(update);
window.addEventListener('hashchange', restoreChoice);
document.addEventListener('change', ({ target }) => {
  if (target === events.search || target === events.group) keepChoice();
});
showView();
restoreChoice();
if (place.opening) {
  await store.open(place.opening).catch((error: Error) => store.fail(error.message));
} else opening.show();

/** A row of the table that the keyboard uses and `?` prints. */
interface Key {
  readonly key: string;
  readonly does: string;
  /** Absent for keys that a focused part handles itself and that are only printed here. */
  readonly run?: () => void;
}

/** Makes the keys work, and prints them in the page's dialog. */
function bindKeys(keys: readonly Key[]): void {
  const dialog = byId('keys', HTMLDialogElement);
  // The focus is on the button at the end of the list.
  const show = (): void => {
    dialog.showModal();
    dialog.scrollTop = 0;
  };
  const all: readonly Key[] = [...keys, { key: '?', does: 'Show the keys', run: show }];
  byId('key-list', HTMLElement).append(
    ...all.flatMap(({ key, does }) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, does)]),
  );
  byId('help', HTMLButtonElement).addEventListener('click', show);
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.target instanceof HTMLInputElement && event.target.type === 'search') return;
    const run = all.find((key) => key.key === event.key)?.run;
    if (!run) return;
    event.preventDefault();
    run();
  });
}
