/** `statelet export JOURNAL --to FORM` and `statelet plot JOURNAL`: a start for other tools. */
import { exitCodes } from '../exit-codes.ts';
import { insight, refuse, startIsGone } from '../insight/command.ts';
import { chromeOf, otlpOf } from '../insight/export.ts';
import { plotOf } from '../insight/plot.ts';
import { printableJson } from '../printable.ts';

interface Chosen {
  readonly incarnation?: string;
}

const FORMS = { otlp: otlpOf, chrome: chromeOf } as const;

const isForm = (name: string): name is keyof typeof FORMS => Object.hasOwn(FORMS, name);

export function exportCommand(log: string, { to, ...chosen }: Chosen & { readonly to: string }): number {
  if (!isForm(to)) return refuse('export', `--to is ${Object.keys(FORMS).join(' or ')}, not ${to}`, exitCodes.usage);
  return insight('export', [log], { ...chosen, format: 'text' }, (story) => {
    return { json: null, text: `${printableJson(FORMS[to](story))}\n` };
  });
}

export const plotCommand = (log: string, chosen: Chosen): number =>
  insight('plot', [log], { ...chosen, format: 'text' }, (story) => {
    const gone = startIsGone(story);
    return gone ?? { json: null, text: plotOf(story) };
  });
