/** Plays one case of the corpus: writes its files, and gives its command line to the pure pipeline. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { readConfiguration, readDropIns } from '../../../src/actors/host/configuration/configuration.ts';
import type { Json } from '../../../src/kernel/json.ts';
import { toServed } from '../../../src/machines/configuration/fields/decode.ts';
import { type KubeletFlags, parseCommandLine } from '../../../src/machines/configuration/flags/flags.ts';
import {
  type ConfigurationFiles,
  commandFailed,
  resolveConfiguration,
} from '../../../src/machines/configuration/resolve.ts';
import type { KubeletConfiguration } from '../../../src/machines/model/configuration/fields.ts';
import { buildAuth } from '../../../src/machines/startup/clients/auth.ts';
import { parseNodeIPs } from '../../../src/machines/startup/host/node-ip.ts';

export interface Case {
  readonly name: string;
  readonly argv: readonly string[];
  readonly files: Readonly<Record<string, string>>;
  readonly caveat?: string;
  readonly expect: Outcome & { readonly unstable?: boolean };
}

export interface Outcome {
  readonly exit: number | 'running';
  readonly stderr: readonly string[];
  readonly stdout: readonly string[];
  readonly configz: Json;
}

const CASES = new URL('../../golden/config/cases/', import.meta.url);
const VERSION = { version: 'v1.36.2', raw: 'version.Info{...}' };
/** The machine on which the corpus was recorded. */
const HOST = { cgroupVersion: 1 } as const;

const PLACEHOLDERS: Readonly<Record<string, string>> = {
  '${PORT10250}': '41250',
  '${PORT10255}': '41255',
  '${PORT10248}': '41248',
  '${HOSTNAME}': 'golden-host',
  '${CRI}': 'unix:///run/containerd/containerd.sock',
  '${CRI_PATH}': '/run/containerd/containerd.sock',
};

export function readCases(): Case[] {
  return readdirSync(CASES).map((file) => parseCase(readFileSync(new URL(file, CASES), 'utf8')));
}

/**
 * Runs a case in a directory of its own; `play` gets the case with its placeholders replaced. `places` replace other
 * texts of the case, too.
 */
export async function withCase<Result>(
  raw: Case,
  play: (filled: Case, directory: string) => Promise<Result>,
  places: Readonly<Record<string, string>> = {},
): Promise<Result> {
  const directory = mkdtempSync(join(tmpdir(), 'statelet-config-'));
  try {
    const filled = fill(raw, { ...PLACEHOLDERS, ...places, '${DIR}': directory });
    for (const [path, content] of Object.entries(filled.files)) writeCaseFile(join(directory, path), content);
    return await play(filled, directory);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function fill(raw: Case, placeholders: Readonly<Record<string, string>>): Case {
  let text = JSON.stringify(raw);
  for (const [placeholder, value] of Object.entries(placeholders)) {
    if (placeholder.startsWith('${PORT'))
      text = text.replaceAll(`: "${placeholder}"`, `: ${value}`).replaceAll(`":"${placeholder}"`, `":${value}`);
    text = text.replaceAll(placeholder, value);
  }
  return parseCase(text);
}

function parseCase(text: string): Case {
  const parsed: Case = JSON.parse(text);
  return parsed;
}

function writeCaseFile(path: string, content: string): void {
  if (path.endsWith('/')) {
    mkdirSync(path, { recursive: true });
    return;
  }
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}

export async function play({ argv }: Case, directory: string): Promise<Outcome> {
  const line = parseCommandLine(argv, VERSION);
  const nothing = { stdout: [], configz: null };
  if (line.kind === 'error') {
    return { ...nothing, exit: 1, stderr: [...line.notes, ...commandFailed(line.error).lines] };
  }
  if (line.kind !== 'run') {
    return { ...nothing, exit: 0, stderr: line.notes, stdout: line.text === '' ? [] : line.text.split('\n') };
  }
  const { config, configDir } = line.flags;
  const files: ConfigurationFiles = {
    file: config === '' ? null : await readConfiguration(resolve(directory, config)),
    dropIns: configDir === '' ? null : await readDropIns(resolve(directory, configDir)),
  };
  const resolution = resolveConfiguration(line.flags, line.given, files, HOST);
  const warnings = [...line.notes, ...resolution.warnings];
  if (resolution.kind === 'failed')
    return { ...nothing, exit: resolution.exit, stderr: [...warnings, ...resolution.lines] };
  const refused = laterRefusal(line.flags, resolution.configuration);
  if (refused !== null) return { ...nothing, exit: 1, stderr: [...warnings, ...commandFailed(refused).lines] };
  return { ...nothing, exit: 'running', stderr: warnings, configz: toServed(resolution.configuration) };
}

/** The pure decisions of the next parts; with an API client, authorization depends on more than the configuration. */
function laterRefusal(flags: KubeletFlags, { authentication, authorization }: KubeletConfiguration): string | null {
  const auth = buildAuth({
    anonymous: authentication.anonymous.enabled,
    webhookAuthentication: authentication.webhook.enabled,
    clientCAFile: authentication.x509.clientCAFile,
    authorizationMode: authorization.mode,
    hasClient: false,
  });
  const addresses = parseNodeIPs(flags.nodeIP, flags.cloudProvider);
  const refused = [...(flags.kubeconfig === '' ? [auth] : []), addresses].find(({ ok }) => !ok);
  return refused === undefined || refused.ok ? null : `failed to run Kubelet: ${refused.message}`;
}
