/** The content type of a file without a known extension, by its first bytes: as Go's `DetectContentType` has it. */
import { open } from 'node:fs/promises';

/** As many bytes as Go looks at. */
const SNIFFED_BYTES = 512;

const SIGNATURES: readonly (readonly [bytes: string, type: string])[] = [
  ['\x1f\x8b\x08', 'application/x-gzip'],
  ['PK\x03\x04', 'application/zip'],
  ['%PDF-', 'application/pdf'],
  ['\x89PNG\r\n\x1a\n', 'image/png'],
  ['\xfe\xff', 'text/plain; charset=utf-16be'],
  ['\xff\xfe', 'text/plain; charset=utf-16le'],
];
const HTML =
  /^[\t\n\f\r ]*<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|!--)[ >]/i;
const XML = /^[\t\n\f\r ]*<\?xml/;
/** What no text has: control characters but those that lay it out, and the escape. */
const isBinary = (byte: number): boolean =>
  byte < SPACE && !(byte >= TAB && byte <= CARRIAGE_RETURN && byte !== VERTICAL_TAB) && byte !== ESCAPE;
const [TAB, VERTICAL_TAB, CARRIAGE_RETURN, ESCAPE, SPACE] = [0x09, 0x0b, 0x0d, 0x1b, 0x20];

export async function sniffedType(path: string): Promise<string> {
  const handle = await open(path);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(SNIFFED_BYTES), 0, SNIFFED_BYTES, 0);
    const first = buffer.toString('latin1', 0, bytesRead);
    const known = SIGNATURES.find(([bytes]) => first.startsWith(bytes));
    if (known) return known[1];
    if (HTML.test(first)) return 'text/html; charset=utf-8';
    if (XML.test(first)) return 'text/xml; charset=utf-8';
    return buffer.subarray(0, bytesRead).some(isBinary) ? 'application/octet-stream' : 'text/plain; charset=utf-8';
  } finally {
    await handle.close();
  }
}
