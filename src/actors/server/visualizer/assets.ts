/**
 * The files of the page. The browser gets the sources themselves with their types taken away: there is no build, and
 * what one reads in the browser's tools is what is in the repository, line for line.
 */
import { readFile } from 'node:fs/promises';
import { stripTypeScriptTypes } from 'node:module';
import { pathToFileURL } from 'node:url';
import { PACKAGE_DIRECTORY } from '../../package-directory.ts';

const APP = pathToFileURL(`${PACKAGE_DIRECTORY}/src/visualizer/`);

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  svg: 'image/svg+xml; charset=utf-8',
  ts: 'text/javascript; charset=utf-8',
};

const DIAGRAMS = `${PACKAGE_DIRECTORY}/docs/diagrams`;
/** A chart's own style is for readers of the file; the page has its own, and allows no other. */
const CHART_STYLE = /<style>[^<]*<\/style>\n?/;

export interface Asset {
  readonly type: string;
  readonly body: string;
}

/** A file of the page, or undefined when there is none of that name. */
export async function readAsset(name: string, directory: URL = APP): Promise<Asset | undefined> {
  const extension = /^[\w-][\w.-]*\.(css|html|svg|ts)$/.exec(name)?.[1];
  if (extension === undefined) return undefined;
  const source = await readFile(new URL(name, directory), 'utf8').catch(absent);
  if (source === undefined) return undefined;
  return { type: TYPES[extension] as string, body: extension === 'ts' ? withoutTypes(source) : source };
}

/** A drawn chart as the page shows it, or undefined when there is none of that name. */
export async function readChart(name: string, directory = DIAGRAMS): Promise<Asset | undefined> {
  const chart = await readAsset(name, pathToFileURL(`${directory}/`));
  return chart && { ...chart, body: chart.body.replace(CHART_STYLE, '') };
}

/** Node says once in each process that this is an experiment of its own; it is no news for the log of a node. */
function withoutTypes(source: string): string {
  const emit = Object.getOwnPropertyDescriptor(process, 'emitWarning')!;
  Object.defineProperty(process, 'emitWarning', { ...emit, value: () => {} });
  try {
    return stripTypeScriptTypes(source);
  } finally {
    Object.defineProperty(process, 'emitWarning', emit);
  }
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT') return undefined;
  throw error;
}
