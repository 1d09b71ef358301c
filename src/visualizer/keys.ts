/** The keys of the page: one table, used by the keyboard and printed by `?`. */
import { byId, el } from './dom.ts';

export interface Key {
  readonly key: string;
  readonly does: string;
  /** Absent for keys that a focused part handles itself and that are only printed here. */
  readonly run?: () => void;
}

export class Keys {
  private readonly dialog = byId('keys', HTMLDialogElement);
  private readonly table: ReadonlyMap<string, Key>;

  constructor(keys: readonly Key[]) {
    const help: Key = { key: '?', does: 'Show the keys', run: () => this.dialog.showModal() };
    const all = [...keys, help];
    this.table = new Map(all.filter((key) => key.run).map((key) => [key.key, key]));
    byId('key-list', HTMLElement).append(
      ...all.flatMap(({ key, does }) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, does)]),
    );
    byId('help', HTMLButtonElement).addEventListener('click', () => this.dialog.showModal());
    document.addEventListener('keydown', (event) => this.pressed(event));
  }

  private pressed(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || this.dialog.open) return;
    if (event.target instanceof HTMLInputElement && event.target.type === 'search') return;
    const key = this.table.get(event.key);
    if (!key) return;
    event.preventDefault();
    key.run?.();
  }
}
