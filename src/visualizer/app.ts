/**
 * The visualizer's page: composes the views, routes what changed to them, and keeps the choice in the address, so that
 * a link shows the same actor and the same record.
 */
import { ChartView } from './chart.ts';
import { Details } from './details.ts';
import { byId, setText } from './dom.ts';
import { Events } from './events.ts';
import { bindKeys } from './keys.ts';
import { PhaseBars } from './phases.ts';
import { PodsPane } from './pods.ts';
import { RecordPane } from './record.ts';
import { sourceOf } from './source.ts';
import { type Part, Store } from './store.ts';
import { Tree } from './tree.ts';
import { sinceStart } from './words.ts';

const store = new Store(sourceOf(document));
const tree = new Tree(store);
const chart = new ChartView(store);
const details = new Details(store);
const events = new Events(store);
const record = new RecordPane(store);
const phases = new PhaseBars(store);
const pods = new PodsPane(store);

const CONNECTIONS = { connecting: 'connecting', live: 'live', lost: 'lost, trying again', journal: 'journal' } as const;

function updateBar(): void {
  const connection = byId('connection', HTMLElement);
  setText(connection, CONNECTIONS[store.connection]);
  connection.dataset['connection'] = store.connection;
  setText(byId('node', HTMLElement), store.node);
  setText(byId('counts', HTMLElement), `${store.actors.size} actors, turn ${store.moment?.turn ?? store.turn}`);
  setText(byId('note', HTMLElement), store.note ?? '');
}

const back = byId('moment', HTMLButtonElement);
back.addEventListener('click', () => store.chooseRecord(undefined));

function updateMoment(): void {
  const { moment } = store;
  back.hidden = moment === undefined;
  if (moment)
    setText(byId('moment-text', HTMLElement), `As after turn ${moment.turn}, ${sinceStart(moment.t, store.started)} s`);
}

function update(parts: ReadonlySet<Part>): void {
  const any = (...wanted: readonly Part[]): boolean => wanted.some((part) => parts.has(part));
  if (any('connection', 'actors', 'records', 'moment')) updateBar();
  if (any('moment', 'phases')) updateMoment();
  if (any('actors', 'phases')) tree.update();
  else if (any('choice')) tree.markChosen();
  if (any('actors', 'choice')) chart.update();
  if (any('actors', 'choice', 'detail')) details.update();
  else if (any('clock')) details.tick();
  if (any('records', 'choice', 'phases')) events.update();
  if (any('choice')) events.reveal();
  if (any('records', 'choice')) record.update();
  if (any('phases', 'moment')) phases.update();
  else if (any('clock')) phases.tick();
  if (any('pods', 'records', 'moment', 'clock')) pods.update();
  if (any('choice')) keepChoice();
}

function keepChoice(): void {
  const choice = new URLSearchParams();
  if (store.actor !== undefined) choice.set('actor', store.actor);
  if (store.record !== undefined) choice.set('record', String(store.record));
  if (store.pod !== undefined && pods.isOpen) choice.set('pod', store.pod);
  history.replaceState(null, '', `#${choice}`);
}

function restoreChoice(): void {
  const choice = new URLSearchParams(location.hash.slice(1));
  const n = choice.get('record');
  store.chooseActor(choice.get('actor') ?? undefined);
  const pod = choice.get('pod');
  if (pod !== null) store.choosePod(pod);
  if (pod !== null) pods.toggle(true);
  store.chooseRecord(n !== null && /^\d+$/.test(n) ? Number(n) : undefined);
}

bindKeys([
  { key: 't', does: 'Go to the actors', run: () => tree.element.focus() },
  { key: '/', does: 'Filter the actors', run: () => tree.filter.focus() },
  { key: 'g', does: 'Go to the chart; arrows scroll it', run: () => chart.sheet.focus() },
  { key: '+', does: 'Enlarge the chart', run: () => chart.zoomBy(1.25) },
  { key: '-', does: 'Reduce the chart', run: () => chart.zoomBy(0.8) },
  { key: '0', does: 'Fit the chart', run: () => chart.fit() },
  { key: 'd', does: "Go to the actor's details", run: () => details.element.focus() },
  { key: 'e', does: 'Go to the events', run: () => events.grid.focus() },
  { key: 's', does: 'Filter the events', run: () => events.search.focus() },
  { key: 'a', does: 'Events of the chosen actor only, or of all', run: () => events.toggleOwn() },
  { key: 'f', does: 'Follow the newest event, or stay', run: () => events.toggleFollow() },
  { key: 'o', does: 'Show the pods, or the actors again', run: () => pods.toggle() },
  { key: 'p', does: 'Fold or unfold the phases', run: () => phases.toggle() },
  { key: ',', does: 'Go to the moment one record before', run: () => events.step(-1) },
  { key: '.', does: 'Go to the moment one record later', run: () => events.step(1) },
  { key: 'Escape', does: 'Put the chosen record away: back to now', run: () => store.chooseRecord(undefined) },
  { key: 'c', does: 'In the events: go to the cause' },
  { key: 'Enter', does: "In the events: go to the record's actor" },
  { key: '↑ ↓', does: 'In the actors and events: choose another' },
  { key: '← →', does: 'In the actors: fold and unfold' },
]);

store.listen(update);
window.addEventListener('hashchange', restoreChoice);
restoreChoice();
await store.start();
