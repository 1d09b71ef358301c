/**
 * The components in the package that others have made: every dependency except those for development, and Node itself.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PLATFORMS, type Platform } from './platforms.ts';
import type { Source } from './tree.ts';

export interface Component {
  readonly name: string;
  readonly version: string;
  /** An SPDX expression. */
  readonly licence: string;
  /** Relative to the root of the checkout. */
  readonly path: string;
  /** The checksum of the published archive, as `sha512-…`. */
  readonly integrity: string;
  /** The component is loaded from its own files; all others are in the bundle. */
  readonly isRunFromDisk: boolean;
}

interface Locked {
  readonly version?: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** The packages that `scripts/bundle.ts` does not bundle: native code, and traces, which few nodes export. */
const OUTSIDE = [
  'koffi',
  '@opentelemetry/exporter-trace-otlp-grpc',
  '@opentelemetry/resources',
  '@opentelemetry/sdk-trace',
  '@opentelemetry/api',
];
const FOLDER = 'node_modules/';

type Lock = Readonly<Record<string, Locked>>;

/** In the order of their paths, without those for other platforms. */
export function componentsOf(root: string, platform: Platform): readonly Component[] {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as { readonly packages: Lock };
  const fromDisk = closureOf(packages, OUTSIDE);
  return Object.entries(packages)
    .filter(([path, { dev }]) => path !== '' && dev !== true && isOfPlatform(root, path, platform))
    .map(([path, { version = '', license = 'NOASSERTION', integrity = '' }]) => ({
      name: path.slice(path.lastIndexOf(FOLDER) + FOLDER.length),
      version,
      licence: license,
      path,
      integrity,
      isRunFromDisk: fromDisk.has(path),
    }))
    .toSorted((one, other) => (one.path < other.path ? -1 : 1));
}

const NATIVE = Object.values(PLATFORMS).map(({ koffi }) => koffi);

/** Of native parts, those for this platform; of all others, those that npm has installed here. */
function isOfPlatform(root: string, path: string, { koffi }: Platform): boolean {
  const native = NATIVE.find((name) => path === `${FOLDER}${name}`);
  return native === undefined ? existsSync(join(root, path)) : native === koffi;
}

/** The paths of these packages and of all that they need. Packages of types are not needed at run time. */
function closureOf(packages: Lock, names: readonly string[]): ReadonlySet<string> {
  const found = new Set<string>();
  const pending = names.map((name) => ({ from: '', name }));
  for (let next = pending.pop(); next; next = pending.pop()) {
    const path = resolved(packages, next.from, next.name);
    if (path === undefined || found.has(path) || next.name.startsWith('@types/') || next.name === 'undici-types')
      continue;
    found.add(path);
    const { dependencies = {}, optionalDependencies = {} } = packages[path]!;
    for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) pending.push({ from: path, name });
  }
  return found;
}

/** Finds a package as Node does: in the nearest `node_modules`, upwards. */
function resolved(packages: Lock, from: string, name: string): string | undefined {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf(`/${FOLDER}`)))) {
    const path = `${folder === '' ? '' : `${folder}/`}${FOLDER}${name}`;
    if (packages[path] !== undefined) return path;
    if (folder === '') return undefined;
  }
}

/** One text with the licences of all components, as Debian's policy requires. */
export function licencesText(root: string, components: readonly Component[]): string {
  const own = readFileSync(join(root, 'LICENSE'), 'utf8');
  const others = components.map((each) => {
    const title = `${each.name} ${each.version} (${each.licence})`;
    return `${'-'.repeat(78)}\n${title}\n\n${licenceOf(join(root, each.path)) || `Licence: ${each.licence}\n`}`;
  });
  return `Statelet\n\n${own}\n\nThe package contains the following works of others.\n\n${others.join('\n')}`;
}

function licenceOf(folder: string): string {
  if (!existsSync(folder)) return '';
  const names = readdirSync(folder).filter((name) => /^(licen[cs]e|notice|copying)/i.test(name));
  return names
    .toSorted()
    .map((name) => readFileSync(join(folder, name), 'utf8').trimEnd())
    .map((text) => `${text}\n`)
    .join('\n');
}

/** SPDX 2.3 as JSON. Places to download are omitted: checksum and package URL identify each component. */
export function spdxDocument({ version, commit, epoch }: Source, components: readonly Component[]): string {
  const created = new Date(epoch * 1_000).toISOString().replace('.000Z', 'Z');
  const own = {
    SPDXID: 'SPDXRef-statelet',
    name: 'statelet',
    versionInfo: version,
    downloadLocation: 'NOASSERTION',
    licenseConcluded: 'Apache-2.0',
    licenseDeclared: 'Apache-2.0',
    copyrightText: 'NOASSERTION',
    filesAnalyzed: false,
  };
  const packages = components.map((each) => spdxPackage(each));
  const contains = packages.map(({ SPDXID }) => ({
    spdxElementId: own.SPDXID,
    relationshipType: 'CONTAINS',
    relatedSpdxElement: SPDXID,
  }));
  const document = {
    spdxVersion: 'SPDX-2.3',
    dataLicense: 'CC0-1.0',
    SPDXID: 'SPDXRef-DOCUMENT',
    name: `statelet-${version}`,
    documentNamespace: `urn:statelet:${version}:${commit}`,
    creationInfo: { created, creators: ['Tool: statelet-package'] },
    packages: [own, ...packages],
    relationships: [
      { spdxElementId: 'SPDXRef-DOCUMENT', relationshipType: 'DESCRIBES', relatedSpdxElement: own.SPDXID },
      ...contains,
    ],
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

function spdxPackage({ name, version, licence, integrity, path }: Component) {
  const [algorithm, sum = ''] = integrity.split('-', 2);
  const checksumValue = Buffer.from(integrity.slice(integrity.indexOf('-') + 1), 'base64').toString('hex');
  return {
    SPDXID: `SPDXRef-${createHash('sha256').update(path).digest('hex').slice(0, 16)}`,
    name,
    versionInfo: version,
    downloadLocation: 'NOASSERTION',
    licenseConcluded: licence,
    licenseDeclared: licence,
    copyrightText: 'NOASSERTION',
    filesAnalyzed: false,
    ...(sum === '' ? {} : { checksums: [{ algorithm: algorithm!.toUpperCase(), checksumValue }] }),
    externalRefs: [
      {
        referenceCategory: 'PACKAGE-MANAGER',
        referenceType: 'purl',
        referenceLocator: `pkg:npm/${name.replace('@', '%40')}@${version}`,
      },
    ],
  };
}
