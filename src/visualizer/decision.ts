/** How an actor decided in its last step: what it heard, the transitions that it considered, and what guards said. */
import { el } from './dom.ts';
import type { Store } from './store.ts';
import { eventText, lastOf } from './words.ts';
import type { EdgeView, StepView } from './worker/requests.ts';

const SIGNS = { taken: '✓ taken', no: '✗ guard says no', 'not reached': '· not asked' } as const;

export function decisionElements(store: Store, step: StepView | null | undefined): Node[] {
  if (!step || step.edges.length === 0) return [];
  const record = el('button', { type: 'button' }, `record ${step.n}`);
  record.addEventListener('click', () => store.chooseRecord(step.n));
  const head = el('p', {}, 'Heard ', el('code', {}, store.named(eventText(step.event))), ' in ', record);
  return [head, el('ol', {}, ...step.edges.map((edge) => el('li', { class: styleOf(edge) }, ...edgeElements(edge))))];
}

const styleOf = ({ result }: EdgeView): string => (result === 'not reached' ? 'unasked' : result);

function edgeElements({ source, targets, event, guard, result }: EdgeView): (Node | string)[] {
  const to = targets.length === 0 ? 'stays' : `→ ${targets.map(shortState).join(', ')}`;
  const condition = guard === undefined ? '' : ` if ${guard}`;
  return [
    el('span', { class: 'result' }, SIGNS[result]),
    el('code', {}, `${shortState(source)} ${to}`),
    el('span', { class: 'dim' }, ` on ${lastOf(eventText(event))}${condition}`),
  ];
}

/** Without the id of the machine. */
const shortState = (id: string): string => id.slice(id.indexOf('.') + 1);
