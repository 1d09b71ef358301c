/** The journal of the server of the page. */
import type { Content } from './node/fs.ts';

/** The files of the journal that the server of the page has. */
export async function servedFiles(): Promise<ReadonlyMap<string, Content>> {
  const answer = await fetch('../api/journal');
  if (!answer.ok) throw new Error(`the server has no journal: ${answer.status}`);
  const { files }: { readonly files: readonly string[] } = await answer.json();
  const found = new Map<string, Content>();
  for (const name of files) {
    const file = await fetch(`../journal/${name.split('/').map(encodeURIComponent).join('/')}`);
    if (!file.ok) throw new Error(`${name}: ${file.status} ${await file.text()}`);
    found.set(name, await file.blob());
  }
  return found;
}
