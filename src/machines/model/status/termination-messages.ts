/** Shortens the termination messages of a pod, so that its status stays within the limit of the API server. */
import type { ContainerState, ContainerStatus, Pod, PodStatus } from '../api/pod.ts';
import { type Decider, hasBehavior } from '../settings/behaviors.ts';

/** Bytes of all termination messages of one pod, as upstream, in equal parts for its containers. */
const BUDGET_BYTES = 12_288;
/** Replaces an invalid byte. */
const REPLACEMENT = '\uFFFD';

const LISTS = ['initContainerStatuses', 'containerStatuses', 'ephemeralContainerStatuses'] as const;

export function withinBudget(node: Decider, { spec }: Pod, status: PodStatus): PodStatus {
  const ephemeral = hasBehavior(node, 'podLifeAsKubelet') ? (spec.ephemeralContainers ?? []) : [];
  const count = spec.containers.length + (spec.initContainers ?? []).length + ephemeral.length;
  const maxBytes = count === 0 ? BUDGET_BYTES : Math.floor(BUDGET_BYTES / count);
  const lists = LISTS.flatMap((name) =>
    status[name] === undefined ? [] : [[name, status[name].map((each) => shortened(each, maxBytes))] as const],
  );
  return { ...status, ...Object.fromEntries(lists) };
}

function shortened(status: ContainerStatus, maxBytes: number): ContainerStatus {
  const [state, lastState] = [status.state, status.lastState].map((each) => shortenedState(each, maxBytes));
  return state === status.state && lastState === status.lastState
    ? status
    : { ...status, ...(state ? { state } : {}), ...(lastState ? { lastState } : {}) };
}

function shortenedState(state: ContainerState | undefined, maxBytes: number): ContainerState | undefined {
  const message = state?.terminated?.message;
  if (state?.terminated === undefined || message === undefined) return state;
  const start = beginning(message, maxBytes);
  return start === message ? state : { ...state, terminated: { ...state.terminated, message: start } };
}

/** The first bytes of a text; a truncated character leaves one mark for each of its bytes. */
function beginning(text: string, maxBytes: number): string {
  // A UTF-16 unit has at most three bytes in UTF-8.
  if (text.length * 3 <= maxBytes) return text;
  let bytes = 0;
  let end = 0;
  for (const character of text) {
    const size = sizeOf(character.codePointAt(0) ?? 0);
    if (bytes + size > maxBytes) return text.slice(0, end) + REPLACEMENT.repeat(maxBytes - bytes);
    bytes += size;
    end += character.length;
  }
  return text;
}

/** UTF-8 bytes of one character. */
function sizeOf(codePoint: number): number {
  if (codePoint < 0x80) return 1;
  if (codePoint < 0x8_00) return 2;
  return codePoint < 0x1_00_00 ? 3 : 4;
}
