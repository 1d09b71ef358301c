/** Messages between a container, its probes and its pod. */
import type { ContainerStatus } from '../api/cri.ts';
import type { Container, ObjectReference, RestartPolicy } from '../api/pod.ts';
import type { Header } from '../operations/probe.ts';

export type ContainerKind = 'init' | 'sidecar' | 'regular' | 'ephemeral';

/** A container's state as reported to its pod. `comesAgain`: it was stopped to be restarted, however it ends. */
export interface ContainerView {
  /**
   * `starting`: its process and its postStart hook run. It is not published as running before the hook has succeeded.
   */
  readonly phase: 'waiting' | 'starting' | 'running' | 'stopping' | 'ended';
  /** Reason and message of `state.waiting`; empty before the first attempt. */
  readonly reason: string;
  readonly message: string;
  /** Number of the instance that runs, has ended, or comes next. */
  readonly restartCount: number;
  /** The termination message of the newest instance that ended, by its id. */
  readonly ended: { readonly id: string; readonly message: string } | null;
  readonly comesAgain?: boolean;
}

/** Requests the configuration of a container; the answer is `container.permitted` or `container.refused`. */
export interface ContainerRequest {
  readonly restartCount: number;
  readonly image: { readonly ref: string; readonly uid: string | null; readonly username: string } | null;
}

export type ContainerReport =
  | {
      readonly type: 'container.changed';
      readonly name: string;
      readonly view: ContainerView;
      /** The runtime may differ from the last observation: the pod inspects it again. */
      readonly inspect: boolean;
      /** The instance in the answer to a call. */
      readonly seen?: ContainerStatus;
    }
  /**
   * The runtime does not show the container's new state yet: the pod inspects it again unless an inspection is in
   * progress.
   */
  | { readonly type: 'container.unseen' }
  | { readonly type: 'container.wanted'; readonly name: string; readonly request: ContainerRequest }
  /** The container needs its image; the pod requests it from `images`. */
  | {
      readonly type: 'container.imageWanted';
      readonly name: string;
      readonly image: string;
      readonly policy: ContainerWanted['imagePolicy'];
      readonly ref: ObjectReference;
    };

/** The wanted definition of a container. */
export interface ContainerWanted {
  readonly image: string;
  readonly imagePolicy: 'Always' | 'IfNotPresent' | 'Never';
  readonly hash: string;
  readonly restartPolicy: RestartPolicy;
  readonly restartPolicyRules: NonNullable<Container['restartPolicyRules']>;
  /** The grace period when it is replaced; a kill has its own. */
  readonly graceSeconds: number;
  readonly postStart: Hook | null;
  readonly preStop: Hook | null;
}

/** A GET request as in the spec, without the pod's address. */
export interface HttpRequest {
  readonly scheme: string;
  /** Empty for the pod's address. */
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly headers: readonly Header[];
}

/** A lifecycle hook with everything resolved. */
export type Hook =
  | { readonly kind: 'exec'; readonly command: readonly string[] }
  | { readonly kind: 'sleep'; readonly seconds: number }
  | ({ readonly kind: 'httpGet' } & HttpRequest)
  /**
   * `tcpSocket`, which was never a valid hook, or a port that the container does not have: it fails with this reason.
   */
  | {
      readonly kind: 'unsupported';
      /** The path of a request whose port does not exist; `null` if it is no request. */
      readonly path: string | null;
      readonly error: string;
    };

/** A verdict about one instance of a container. */
export interface ProberReport {
  readonly type: 'prober.judged';
  readonly container: string;
  readonly containerId: string;
  readonly kind: 'startup' | 'readiness' | 'liveness';
  readonly verdict: 'success' | 'failure';
}
