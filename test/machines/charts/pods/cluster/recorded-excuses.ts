/** The allowed differences of this agent, with a modelled runtime, from recordings, each with its reason. */
interface Excuse {
  /** Why a recording cannot be played here. */
  readonly skip?: string;
  readonly differences?: readonly { readonly text: RegExp; readonly reason: string }[];
}

const PROBED = 'the model runs no processes that a probe could find wanting';
const EVICTED = 'the model has no disk that fills up';
const MOUNTS = 'the model has no disk whose files are of the wrong kind';

const runtimeText = (text: RegExp) => ({ text, reason: 'the words are those of the recorded containerd' });

export const excuses: Readonly<Record<string, Excuse>> = {
  'delete-while-pulling': { skip: 'the model has no registry that is slow' },
  'image-preloaded-repull': { skip: 'it is about records of pulls of the recorded agent' },
  'image-pull-notfound': { differences: [runtimeText(/Failed to pull image/)] },
  'image-pull-secret': { differences: [runtimeText(/Failed to pull image/)] },
  'kubelet-down-delete': {
    differences: [
      {
        text: /^missing event node1|kube-node-lease|resourceslices|POST .api.v1.nodes/,
        reason: 'a new agent speaks for its node',
      },
    ],
  },
  'poststart-fail': { skip: 'the model’s commands do not fail' },
  'prestop-too-long': {
    differences: [{ text: /FailedPreStopHook/, reason: 'the model’s commands end at once' }],
  },
  'probe-grpc': { skip: PROBED },
  'probe-http': { skip: PROBED },
  'probe-http-refused': { skip: PROBED },
  'probe-liveness-exec': { skip: PROBED },
  'probe-liveness-grace': { skip: PROBED },
  'probe-readiness-exec': { skip: PROBED },
  'probe-startup-exec': { skip: PROBED },
  'probe-startup-fail': { skip: PROBED },
  'probe-tcp': { skip: PROBED },
  'restart-onfailure-exit1': {
    differences: [{ text: /Killing/, reason: 'it was deleted while a container ran; here it waits for its back-off' }],
  },
  'run-error-command': { differences: [runtimeText(/OCI runtime create failed|StartError/)] },
  'run-error-command-never': { differences: [runtimeText(/OCI runtime create failed|StartError/)] },
  'runtimeclass-unknown-handler': { skip: 'the model has every handler' },
  'sandbox-killed': {
    differences: [{ text: /"exitCode":137/, reason: 'with its sandbox the model kills a container at once' }],
  },
  'sandbox-killed-never': {
    differences: [{ text: /Killing|"exitCode":137/, reason: 'with its sandbox the model kills a container at once' }],
  },
  'sc-seccomp-localhost-missing': { skip: 'the model reads no seccomp profiles' },
  'sidecar-startup-gate': { differences: [{ text: /Startup probe failed/, reason: PROBED }] },
  'static-pod': {
    differences: [
      {
        text: /^status <uid:st-node1>/,
        reason: 'the end of the old pod is shown before its mirror pod goes; the recorded agent hides it',
      },
    ],
  },
  'termination-message-file': {
    differences: [{ text: /^status/, reason: 'the model’s processes write no last words' }],
  },
  'vol-emptydir-evict': { skip: EVICTED },
  'vol-emptydir-evict-killed': { skip: EVICTED },
  'vol-hostpath-mismatch-blockdevice': { skip: MOUNTS },
  'vol-hostpath-mismatch-directory': { skip: MOUNTS },
};
