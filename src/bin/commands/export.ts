/** `statelet export JOURNAL --to FORM` and `statelet plot JOURNAL`: a start for other tools. */
import type { Journal } from '../../kernel/journal/index.ts';
import { exitCodes } from '../exit-codes.ts';
import { insight, journalAt, refuse, startIsGone } from '../insight/command.ts';
import { chromeOf, cloudEventsOf, otlpOf, plotOf } from '../insight/export.ts';
import type { Story } from '../insight/story.ts';
import { printableJson } from '../printable.ts';

interface Chosen {
  readonly incarnation?: string;
}

/** The text of each form: the spans of the start, or its records, one per line. */
const FORMS = {
  otlp: (story: Story) => `${printableJson(otlpOf(story))}\n`,
  chrome: (story: Story) => `${printableJson(chromeOf(story))}\n`,
  cloudevents: ({ header }: Story, { records }: Journal) =>
    Array.from(cloudEventsOf(header, records), (event) => `${printableJson(event)}\n`).join(''),
} as const;

const isForm = (name: string): name is keyof typeof FORMS => Object.hasOwn(FORMS, name);

export function exportCommand(log: string, { to, ...chosen }: Chosen & { readonly to: string }): number {
  if (!isForm(to)) return refuse('export', `--to is ${Object.keys(FORMS).join(', ')}, not ${to}`, exitCodes.usage);
  return insight('export', [log], { ...chosen, format: 'text' }, (story) => {
    return { json: null, text: FORMS[to](story, journalAt(log, chosen.incarnation)) };
  });
}

export const plotCommand = (log: string, chosen: Chosen): number =>
  insight('plot', [log], { ...chosen, format: 'text' }, (story) => {
    const gone = startIsGone(story);
    return gone ?? { json: null, text: plotOf(story) };
  });
