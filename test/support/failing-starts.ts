/** Starts that end with an error: its reason, the phase that detects it, and upstream's text. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface FailingStart {
  /** Receives the node's folder, for files that the flags name. */
  readonly flags?: (directory: string) => readonly string[];
  readonly configuration?: string;
  readonly podLogs?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly phase: string;
  /** The text of the last line; default: `command failed`. */
  readonly line?: string;
  readonly message: (directory: string) => string;
}

const RUN = 'failed to run Kubelet: ';

/** By what is wrong with the machine or its configuration; each of them ends the daemon with exit code 1. */
export const FAILING_STARTS: Readonly<Record<string, FailingStart>> = {
  'an invalid configuration': {
    configuration: 'maxPods: -1',
    phase: 'command.loadingConfiguration',
    message: () => 'maxPods (--max-pods) -1 must not be a negative number',
  },
  'a watchdog that cannot be understood': {
    environment: { WATCHDOG_USEC: 'soon' },
    phase: 'run.watchdog',
    message: () =>
      `${RUN}create health checker: configure watchdog: error converting WATCHDOG_USEC: strconv.Atoi: parsing "soon": ` +
      'invalid syntax',
  },
  'a lock file in a folder that is not there': {
    flags: (directory) => [`--lock-file=${directory}/none/lock`],
    phase: 'run.lockFile',
    message: (directory) => `${RUN}unable to acquire file lock on "${directory}/none/lock"`,
  },
  'a kubeconfig that is not there': {
    flags: (directory) => [`--kubeconfig=${directory}/kc`],
    phase: 'run.clients',
    message: (directory) => `${RUN}invalid kubeconfig: stat ${directory}/kc: no such file or directory`,
  },
  'authorities of clients that are not there': {
    flags: (directory) => [`--client-ca-file=${directory}/ca.crt`],
    phase: 'run.clientCA',
    message: (directory) => `${RUN}open ${directory}/ca.crt: no such file or directory`,
  },
  'webhook authentication without an API server': {
    flags: () => ['--authentication-token-webhook=true'],
    phase: 'run.auth',
    message: () => `${RUN}no client provided, cannot use webhook authentication`,
  },
  'a runtime that is not there': {
    flags: (directory) => [`--container-runtime-endpoint=unix://${directory}/no.sock`],
    phase: 'run.runtimeService',
    message: (directory) =>
      `${RUN}validate service connection: validate CRI v1 runtime API for endpoint "unix://${directory}/no.sock": ` +
      'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: ' +
      `dial unix ${directory}/no.sock: connect: no such file or directory"`,
  },
  'a key of its own without the certificate': {
    flags: (directory) => {
      mkdirSync(join(directory, 'pki'));
      writeFileSync(join(directory, 'pki/kubelet.key'), 'mine');
      return [`--cert-dir=${directory}/pki`];
    },
    phase: 'command.initializingTLS',
    message: (directory) =>
      `failed to construct kubelet dependencies: error reading ${directory}/pki/kubelet.crt, certificate and key must ` +
      'be supplied as a pair',
  },
  'a serving certificate that is none': {
    flags: (directory) => {
      for (const name of ['tls.crt', 'tls.key']) writeFileSync(join(directory, name), 'garbage');
      return [`--tls-cert-file=${directory}/tls.crt`, `--tls-private-key-file=${directory}/tls.key`];
    },
    phase: 'serving',
    line: 'Failed to listen and serve',
    message: (directory) => `tls: failed to find any PEM data in certificate input: ${directory}/tls.crt`,
  },
  'reserved CPUs that the machine does not have': {
    configuration: 'reservedSystemCPUs: 0-999',
    phase: 'run.containerManager',
    message: () => `${RUN}reserved-cpus: 0-999 is not a subset of online-cpus: `,
  },
  'a bad --node-ip': {
    flags: () => ['--node-ip=192.0.2.1,192.0.2.2'],
    phase: 'runKubelet.nodeIPs',
    message: () => `${RUN}bad --node-ip "192.0.2.1,192.0.2.2": must contain either a single IP or a dual-stack pair`,
  },
  'a folder of pod logs that cannot be made': {
    podLogs: '/proc/none/logs',
    phase: 'startKubelet.initializingModules',
    message: () => RUN,
  },
};
