/** The files of the page: markup and styles from the sources, scripts from `npm run bundle`. */
import { readFile } from 'node:fs/promises';
import { PACKAGE_DIRECTORY } from '../../package-directory.ts';

const APP = `${PACKAGE_DIRECTORY}/src/visualizer`;
const SCRIPTS = `${PACKAGE_DIRECTORY}/dist`;
const DIAGRAMS = `${PACKAGE_DIRECTORY}/docs/diagrams`;

const TYPES: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  svg: 'image/svg+xml; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
};

/** A chart's own style is for readers of the file; the page has its own, and allows no other. */
const CHART_STYLE = /<style>[^<]*<\/style>\n?/;

export interface Asset {
  readonly type: string;
  readonly body: string;
}

/** A file of the page, or undefined if there is none of that name. */
export async function readAsset(name: string, directory?: string): Promise<Asset | undefined> {
  const extension = /^[\w-][\w.-]*\.(css|html|svg|js)$/.exec(name)?.[1];
  const type = extension === undefined ? undefined : TYPES[extension];
  if (type === undefined) return undefined;
  const folder = directory ?? (extension === 'js' ? SCRIPTS : APP);
  const body = await readFile(`${folder}/${name}`, 'utf8').catch(absent);
  return body === undefined ? undefined : { type, body };
}

/** A script of the page. If it is missing, rejects with the command that creates it. */
export async function readScript(name: string): Promise<string> {
  const asset = await readAsset(name);
  if (!asset) throw new Error(`${SCRIPTS}/${name} is missing; npm run bundle makes it`);
  return asset.body;
}

/** A chart for the page, or undefined if there is none of that name. */
export async function readChart(name: string, directory = DIAGRAMS): Promise<Asset | undefined> {
  const chart = await readAsset(name, directory);
  return chart && { ...chart, body: chart.body.replace(CHART_STYLE, '') };
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT') return undefined;
  throw error;
}
