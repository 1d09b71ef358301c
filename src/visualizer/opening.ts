/** Opens a journal from files, from a folder, or from files dropped on the page. The files stay in the browser. */

import { messageOf } from '../kernel/thrown.ts';
import { byId, setText } from './dom.ts';
import type { Store } from './store.ts';
import type { Content } from './worker/node/fs.ts';

/** Maximum of dropped files; a journal has a few hundred. */
const FILES_MAX = 10_000;
/** Folders within each other: a journal has one. */
const DEPTH_MAX = 4;

type Take = (files: ReadonlyMap<string, Content>) => unknown;

export class OpeningDialog {
  readonly #store: Store;
  readonly #dialog = byId('opening', HTMLDialogElement);
  readonly #error = byId('open-error', HTMLElement);
  readonly #own = byId('open-served', HTMLElement);
  #take: Take;

  constructor(store: Store) {
    this.#store = store;
    this.#take = this.#open;
    byId('open', HTMLButtonElement).addEventListener('click', () => this.show());
    for (const id of ['open-files', 'open-folder']) {
      const input = byId(id, HTMLInputElement);
      input.addEventListener('change', () => void this.#given(filesOf(input.files ?? []), this.#take));
    }
    byId('open-own', HTMLButtonElement).addEventListener('click', () => void this.#openOwn());
    document.addEventListener('dragover', (event) => event.preventDefault());
    document.addEventListener('drop', (event) => void this.#dropped(event));
  }

  show(take: Take = this.#open): void {
    this.#take = take;
    this.#own.hidden = take !== this.#open || !this.#store.isLive;
    setText(this.#error, '');
    this.#dialog.showModal();
  }

  readonly #open: Take = (files) => this.#store.open({ from: 'files', files });

  async #openOwn(): Promise<void> {
    await this.#tried(() => this.#store.open({ from: 'server' }));
  }

  async #given(files: ReadonlyMap<string, Content>, take: Take): Promise<void> {
    if (files.size > 0) await this.#tried(() => take(files));
  }

  async #tried(work: () => unknown): Promise<void> {
    setText(this.#error, '');
    try {
      await work();
      this.#dialog.close();
    } catch (error) {
      setText(this.#error, messageOf(error));
      if (!this.#dialog.open) this.#dialog.showModal();
    }
  }

  async #dropped(event: DragEvent): Promise<void> {
    event.preventDefault();
    const dropped = [...(event.dataTransfer?.items ?? [])].map(
      (item) => [item.webkitGetAsEntry(), item.getAsFile()] as const,
    );
    const files = new Map<string, Content>();
    for (const [entry, file] of dropped) if (file && !entry?.isDirectory) files.set(file.name, file);
    const folders = dropped.flatMap(([entry]) => (entry?.isDirectory ? [entry] : []));
    if (files.size + folders.length === 0) return;
    await this.#tried(async () => {
      for (const folder of folders) await collect(folder, '', 0, files).catch(unread);
      if (files.size > 0) await this.#open(files);
    });
  }
}

/** Explains an unreadable file: a page loaded from disk may not read the files of a dropped folder. */
function unread({ message }: Error): never {
  throw new Error(
    `the folder that was dropped cannot be read (${message}): choose it by the button, or drop its files`,
  );
}

/** The files by name, with the folders above them where the browser names these. */
const filesOf = (list: Iterable<File>): ReadonlyMap<string, Content> =>
  new Map(Array.from(list, (file) => [file.webkitRelativePath || file.name, file]));

async function collect(
  entry: FileSystemEntry,
  folder: string,
  depth: number,
  files: Map<string, Content>,
): Promise<void> {
  if (files.size >= FILES_MAX || depth > DEPTH_MAX) return;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    files.set(`${folder}${entry.name}`, file);
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const each of some) await collect(each, `${folder}${entry.name}/`, depth + 1, files);
  }
}
