/**
 * The page's worker, and the source of its data: the server of the page, or a report, which contains worker, journal
 * and charts and needs no network.
 */
import type { FromWorker, Notice, Opening, RequestName, Requests } from './worker/requests.ts';

type Asked<Name extends RequestName> = Parameters<Requests[Name]>[0];
type Answer<Name extends RequestName> = Awaited<ReturnType<Requests[Name]>>;

interface Waiting {
  readonly resolve: (answer: never) => void;
  readonly reject: (error: Error) => void;
}

export class Link {
  private readonly worker: Worker;
  private readonly waiting = new Map<number, Waiting>();
  private nextId = 0;

  constructor(worker: Worker, onNotice: (notice: Notice) => void) {
    this.worker = worker;
    worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => {
      if ('notice' in data) return onNotice(data.notice);
      const waiting = this.waiting.get(data.id);
      this.waiting.delete(data.id);
      if ('error' in data) waiting?.reject(new Error(data.error));
      else waiting?.resolve(data.answer as never);
    });
  }

  ask<Name extends RequestName>(name: Name, asked: Asked<Name>): Promise<Answer<Name>> {
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, name, asked }, []);
    });
  }
}

/** Where the page was opened from. */
export interface Place {
  readonly worker: Worker;
  /** The first view; undefined: the user opens a journal. */
  readonly opening: Opening | undefined;
  /** A sheet of a machine's chart, the first by the machine's name; undefined: there is none. */
  readonly chart: (name: string) => Promise<SVGSVGElement | undefined>;
}

export async function placeOf(page: Document): Promise<Place> {
  const program = page.getElementById('worker')?.textContent;
  if (!program) return served();
  const script = URL.createObjectURL(new Blob([await unpacked(program)], { type: 'text/javascript' }));
  const packed = page.getElementById('journal')?.textContent;
  const charts: Readonly<Record<string, string>> = JSON.parse(
    new TextDecoder().decode(await unpacked(page.getElementById('charts')?.textContent ?? '')),
  );
  return {
    worker: newWorker(script, 'classic'),
    opening: packed ? { from: 'files', files: filesIn(await unpacked(packed)) } : undefined,
    chart: async (name) => chartIn(charts, name),
  };
}

/** The address of a file of the server: this program is in the folder `assets` of it. */
const own = (path: string): string => new URL(`../${path}`, import.meta.url).href;

async function served(): Promise<Place> {
  const worker = newWorker(own('assets/worker.js'), 'module');
  const answer = await fetch(own('api/use'));
  const { use }: { readonly use: 'daemon' | 'server' } = await answer.json();
  return { worker, opening: { from: use }, chart: servedChart };
}

/** The policy allows a page only workers of its own program. */
function newWorker(url: string, type: WorkerType): Worker {
  const { trustedTypes } = globalThis as { readonly trustedTypes?: TrustedTypes };
  const policy = trustedTypes?.createPolicy('statelet', { createScriptURL: (own) => own });
  return new Worker((policy?.createScriptURL(url) ?? url) as string, { type });
}

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL(url: string): string },
  ): { createScriptURL(url: string): unknown };
}

/** Data compressed by gzip, as base64: text that no HTML parser can misread. */
async function unpacked(data: string): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = Uint8Array.from(atob(data.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The files in the data: a line of JSON with each file's name and length, followed by their bytes. */
function filesIn(bytes: Uint8Array<ArrayBuffer>): ReadonlyMap<string, Uint8Array> {
  const end = bytes.indexOf(0x0a);
  const names: readonly (readonly [string, number])[] = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end)));
  let at = end + 1;
  return new Map(names.map(([name, length]) => [name, bytes.slice(at, (at += length))]));
}

/** Requests the parsed document, so that no text becomes markup in the page. */
function servedChart(name: string): Promise<SVGSVGElement | undefined> {
  const request = new XMLHttpRequest();
  request.open('GET', own(`diagrams/${encodeURIComponent(name)}.svg`));
  request.responseType = 'document';
  return new Promise((resolve) => {
    request.addEventListener('loadend', () =>
      resolve(request.status === 200 ? drawing(request.responseXML?.documentElement) : undefined),
    );
    request.send();
  });
}

function chartIn(charts: Readonly<Record<string, string>>, name: string): SVGSVGElement | undefined {
  const svg = charts[name];
  if (svg === undefined) return undefined;
  return drawing(new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement);
}

const drawing = (root: Element | null | undefined): SVGSVGElement | undefined =>
  root instanceof SVGSVGElement ? document.adoptNode(root) : undefined;
