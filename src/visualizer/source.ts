/**
 * Where the page has its node from: the daemon or the journal that serves it, by HTTP, or the report that it is part of
 * (`statelet view JOURNAL --output report.html`), which needs no network and no server.
 */
import type {
  ActorDetail,
  PhasesView,
  PodView,
  RecordsView,
  ReportView,
  TreeView,
} from '../actors/server/visualizer/protocol.ts';
import { concerns } from './words.ts';

export interface Source {
  tree(): Promise<TreeView>;
  records(): Promise<RecordsView>;
  phases(): Promise<PhasesView>;
  pods(): Promise<readonly PodView[]>;
  /** `at`: after that record; absent: at the end. */
  actor(address: string, at: number | undefined): Promise<ActorDetail>;
  /** A sheet of a machine's chart, the first by the machine's name; undefined: there is none. */
  chart(name: string): Promise<SVGSVGElement | undefined>;
}

export const servedSource: Source = {
  tree: () => ask('/api/tree'),
  records: () => ask('/api/records'),
  phases: () => ask('/api/phases'),
  pods: () => ask('/api/pods'),
  chart: servedChart,
  actor: (address, at) =>
    ask(`/api/actor?address=${encodeURIComponent(address)}${at === undefined ? '' : `&at=${at}`}`),
};

async function ask<Answer>(path: string): Promise<Answer> {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as Answer;
}

/** Asks for the parsed document, so that no text becomes markup in the page. */
function servedChart(name: string): Promise<SVGSVGElement | undefined> {
  const request = new XMLHttpRequest();
  request.open('GET', `/diagrams/${encodeURIComponent(name)}.svg`);
  request.responseType = 'document';
  return new Promise((resolve) => {
    request.addEventListener('loadend', () =>
      resolve(request.status === 200 ? drawing(request.responseXML?.documentElement) : undefined),
    );
    request.send();
  });
}

const drawing = (root: Element | null | undefined): SVGSVGElement | undefined =>
  root instanceof SVGSVGElement ? document.adoptNode(root) : undefined;

/** Records of one actor in its details. */
const ACTOR_RECORDS = 100;

/** The source of this document: its own data where it is a report. */
export function sourceOf(page: Document): Source {
  const data = page.getElementById('report')?.textContent;
  return data ? reportSource(unpacked(data)) : servedSource;
}

function reportSource(data: Promise<ReportView>): Source {
  return {
    tree: async () => (await data).tree,
    records: async () => (await data).records,
    phases: async () => (await data).phases,
    pods: async () => (await data).pods,
    chart: async (name) => {
      const svg = (await data).charts[name];
      return svg === undefined
        ? undefined
        : drawing(new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement);
    },
    actor: async (address) => {
      const { actors, records } = await data;
      const detail = actors[address];
      if (!detail) throw new Error(`${address} is not in this report`);
      const own = records.records.filter((shown) => concerns(shown, address));
      return { ...detail, records: own.slice(-ACTOR_RECORDS) };
    },
  };
}

/** JSON, compressed by gzip, as base64: text that no parser of HTML can take for anything else. */
async function unpacked(data: string): Promise<ReportView> {
  const bytes = Uint8Array.from(atob(data.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return (await new Response(stream).json()) as ReportView;
}
