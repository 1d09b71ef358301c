/** The keys of the page: one table, used by the keyboard and printed by `?`. */
import { byId, el } from './dom.ts';

export interface Key {
  readonly key: string;
  readonly does: string;
  /** Absent for keys that a focused part handles itself and that are only printed here. */
  readonly run?: () => void;
}

/** Makes the keys work, and prints them in the page's dialog. */
export function bindKeys(keys: readonly Key[]): void {
  const dialog = byId('keys', HTMLDialogElement);
  const all: readonly Key[] = [...keys, { key: '?', does: 'Show the keys', run: () => dialog.showModal() }];
  byId('key-list', HTMLElement).append(
    ...all.flatMap(({ key, does }) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, does)]),
  );
  byId('help', HTMLButtonElement).addEventListener('click', () => dialog.showModal());
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.target instanceof HTMLInputElement && event.target.type === 'search') return;
    const run = all.find((key) => key.key === event.key)?.run;
    if (!run) return;
    event.preventDefault();
    run();
  });
}
