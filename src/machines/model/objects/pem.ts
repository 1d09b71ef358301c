/** Certificates in PEM, read as Go reads them: text between the blocks is ignored. Pure. */
import { isBase64 } from '../values/go-text.ts';

const BEGIN = /^-----BEGIN ([^-]*)-----$/;
const LINE_CHARACTERS = 64;

/** The content of each block as canonical base64, in order; headers and broken blocks are left out. */
export function pemBlocks(text: string): readonly string[] {
  const blocks: string[] = [];
  let open: { readonly label: string; readonly lines: string[] } | null = null;
  for (const line of text.split('\n').map((each) => each.trimEnd())) {
    const label = BEGIN.exec(line)?.[1];
    if (label !== undefined) open = { label, lines: [] };
    else if (open !== null && line === `-----END ${open.label}-----`) {
      const content = contentOf(open.lines);
      if (content !== '') blocks.push(content);
      open = null;
    } else open?.lines.push(line);
  }
  return blocks;
}

/** Empty if the text is not base64. Bits beyond the last byte are ignored. */
function contentOf(lines: readonly string[]): string {
  const text = lines
    .filter((line) => !line.includes(':'))
    .join('')
    .replaceAll(/\s/g, '');
  return isBase64(text) ? btoa(atob(text)) : '';
}

/** Blocks of certificates, one after the other; empty for none. */
export const certificatesPem = (blocks: readonly string[]): string =>
  blocks
    .map((block) => {
      const lines = block.match(new RegExp(`.{1,${LINE_CHARACTERS}}`, 'g')) ?? [];
      return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
    })
    .join('');
