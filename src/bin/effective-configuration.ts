/**
 * The effective configuration of a kubelet with these arguments on this machine, determined without changes.
 *
 * The same pure functions as the config loader's, in the same order; files are read by the daemon's own port.
 * Credentials are masked before anything else is done.
 */
import { readConfiguration, readDropIns } from '../actors/host/configuration/configuration.ts';
import { masked, maskedDropIns } from '../actors/host/configuration/masked-configuration.ts';
import { readCgroups } from '../actors/host/machine.ts';
import { withLogin } from '../actors/urls.ts';
import { MASKED } from '../machines/configuration/fields/decode.ts';
import { type CommandLine, type KubeletFlags, parseCommandLine } from '../machines/configuration/flags/flags.ts';
import { type ConfigurationFiles, commandFailed, resolveConfiguration } from '../machines/configuration/resolve.ts';
import type { KubeletConfiguration } from '../machines/model/configuration/fields.ts';
import { buildAuth } from '../machines/startup/clients/auth.ts';
import { parseNodeIPs } from '../machines/startup/host/node-ip.ts';
import { KUBELET_VERSION, NODE_VERSION } from './version.ts';

type Given = Extract<CommandLine, { kind: 'run' }>;

export type Effective =
  | {
      readonly kind: 'effective';
      readonly configuration: KubeletConfiguration;
      readonly line: Given;
      readonly files: ConfigurationFiles;
      /** Warnings as klog prints them. */
      readonly warnings: readonly string[];
    }
  | { readonly kind: 'refused'; readonly lines: readonly string[]; readonly warnings: readonly string[] };

export const parseKubeletArguments = (argv: readonly string[]): CommandLine =>
  parseCommandLine(maskedArguments(argv), { version: KUBELET_VERSION, raw: NODE_VERSION });

export async function effectiveConfiguration(line: Given): Promise<Effective> {
  const { flags, given } = line;
  const files: ConfigurationFiles = {
    file: flags.config === '' ? null : masked(await readConfiguration(flags.config)),
    dropIns: flags.configDir === '' ? null : maskedDropIns(await readDropIns(flags.configDir)),
  };
  const { version: cgroupVersion } = await readCgroups('');
  const resolution = resolveConfiguration(flags, given, files, { cgroupVersion });
  const { warnings } = resolution;
  if (resolution.kind === 'failed') return { kind: 'refused', lines: resolution.lines, warnings };
  const { configuration } = resolution;
  const refusal = refusalOfRun(flags, configuration);
  if (refusal !== null) return { kind: 'refused', lines: refusal, warnings };
  return { kind: 'effective', configuration, line, files, warnings };
}

/**
 * The errors of `run()` that the configuration alone explains; with a kubeconfig, auth depends on more than the
 * configuration.
 */
function refusalOfRun(
  { kubeconfig, nodeIP, cloudProvider }: KubeletFlags,
  { authentication, authorization }: KubeletConfiguration,
): readonly string[] | null {
  const auth = buildAuth({
    anonymous: authentication.anonymous.enabled,
    webhookAuthentication: authentication.webhook.enabled,
    clientCAFile: authentication.x509.clientCAFile,
    authorizationMode: authorization.mode,
    hasClient: false,
  });
  const addresses = parseNodeIPs(nodeIP, cloudProvider);
  const refused = [...(kubeconfig === '' ? [auth] : []), addresses].find(({ ok }) => !ok);
  return refused && !refused.ok ? commandFailed(`failed to run Kubelet: ${refused.message}`).lines : null;
}

const FLAG = /^--manifest[-_]url([-_]header)?(=|$)/;

/**
 * Takes the credentials out of a kubelet's arguments before they are written anywhere: the values of
 * `--manifest-url-header` and the login of `--manifest-url`, in each spelling that the flags have. Names of headers
 * stay, and so does the number of arguments. Where a vault stands by, the name of a handle takes the place of a value.
 */
export function maskedArguments(argv: readonly string[], hide: (value: string) => string = () => MASKED): string[] {
  let pending: Mask | undefined;
  return argv.map((argument) => {
    if (pending) {
      const mask = pending;
      pending = undefined;
      return mask(argument, hide);
    }
    const flag = FLAG.exec(argument);
    if (!flag) return argument;
    const mask = flag[1] === undefined ? withLogin : maskedHeaders;
    if (flag[2] === '') pending = mask;
    return flag[0] + mask(argument.slice(flag[0].length), hide);
  });
}

type Mask = (text: string, hide: (value: string) => string) => string;

/** `name:value,name:value`; a value may itself hold a colon. */
const maskedHeaders: Mask = (text, hide) =>
  text.replaceAll(/:([^,]*)/g, (_, value: string) => `:${hide(value.trim())}`);
