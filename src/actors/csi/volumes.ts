/**
 * `csi.*`: calls the drivers, and records their volumes.
 *
 * Decides: an existing mount is requested again, because its driver may have forgotten it, or lost its file system; a
 * definitely failed call leaves no record of a volume that was not mounted.
 * Invariants: the record is on disk before the driver is called, so that the next process can always remove the volume;
 * secrets and tokens are opened here, and never part of an error.
 */
import { open } from 'node:fs/promises';
import { isSecretHandle, type Vault } from '../../kernel/journal/secrets.ts';
import { OperationError } from '../../kernel/json.ts';
import type { InputOf } from '../../kernel/operation.ts';
import { messageOf } from '../../kernel/thrown.ts';
import type { SecretHandle } from '../../kernel/xstate.ts';
import type {
  csiOperations,
  NodeExpandRequest,
  NodePublishRequest,
  NodeStageRequest,
} from '../../machines/model/operations/csi.ts';
import type { Content, Unshared } from '../../machines/model/operations/volume.ts';
import { withoutSecrets, withoutTexts } from '../cri/secrets.ts';
import { FOLDER, openParent } from '../host/root-folder.ts';
import { called, methodOf } from '../plugins/connection.ts';
import { isMounted, type Mounter } from '../volume/mounter.ts';
import { unmountAll } from '../volume/tear-down.ts';
import { shareTree } from '../volume/tree.ts';
import { makeTarget, readRecord, removeRecord, writeRecord } from './record.ts';

/** Upstream's timeout of a call to a CSI driver. */
const TIMEOUT_MS = 120_000;
const SERVICE = 'csi.v1.Node';
/** gRPC's error for a socket without a listener. */
const NOT_FOUND_CODES = { name: 'RuntimeError', code: 'UNAVAILABLE', retriable: true };

/**
 * One call of a CSI driver's node service, with Go's gRPC text for each failure.
 *
 * Invariant: a socket without a listener costs no wait: as upstream, the call fails at once and the volume is retried
 * later.
 */
export async function callDriver<Reply>(
  endpoint: string | null,
  name: string,
  request: object,
  signal: AbortSignal,
): Promise<Reply> {
  if (endpoint === null) throw new OperationError('the driver is no longer registered on this node', NOT_FOUND_CODES);
  return await called(endpoint, methodOf<object, Reply>(SERVICE, name), request, { timeoutMs: TIMEOUT_MS, signal });
}

type Operations = typeof csiOperations;

const TARGET = 'mount';
const STAGING_TARGET = 'globalmount';
const TOKENS = 'csi.storage.k8s.io/serviceAccount.tokens';

/** Codes after which it is unknown whether the driver has done, or will still do, what was requested. */
const UNCERTAIN_CODES: ReadonlySet<string | undefined> = new Set([
  'CANCELLED',
  'DEADLINE_EXCEEDED',
  'UNAVAILABLE',
  'RESOURCE_EXHAUSTED',
  'ABORTED',
]);

interface CapabilitiesReply {
  readonly capabilities: readonly { readonly rpc?: { readonly type: string } | null }[];
}

export async function capabilities({ endpoint }: InputOf<Operations['csi.capabilities']>, signal: AbortSignal) {
  const reply = await callDriver<CapabilitiesReply>(endpoint, 'NodeGetCapabilities', {}, signal);
  return { capabilities: reply.capabilities.flatMap(({ rpc }) => (rpc ? [rpc.type] : [])).toSorted() };
}

export async function stage(
  { root, directory, endpoint, data, request }: InputOf<Operations['csi.stage']>,
  vault: Vault,
  signal: AbortSignal,
): Promise<null> {
  await writeRecord(root, directory, data);
  await makeTarget(root, `${directory}/${STAGING_TARGET}`);
  if (request === null) return null;
  await cleaningUp(root, directory, STAGING_TARGET, () => callNodeStage(endpoint, request, vault, signal));
  return null;
}

export const callNodeStage = (
  endpoint: string | null,
  request: NodeStageRequest,
  vault: Vault,
  signal: AbortSignal,
): Promise<void> =>
  redactingErrors(request, [], vault, (secrets) =>
    callDriver(endpoint, 'NodeStageVolume', { ...request, secrets } satisfies WithSecrets<NodeStageRequest>, signal),
  );

export async function unstage(
  { root, directory, endpoint, handle, isStaged }: InputOf<Operations['csi.unstage']>,
  signal: AbortSignal,
): Promise<null> {
  if ((await readRecord(root, directory)) === null) return null;
  const request = { volume_id: handle, staging_target_path: `${directory}/${STAGING_TARGET}` };
  if (isStaged) await callDriver(endpoint, 'NodeUnstageVolume', request, signal);
  await removeRecord(root, directory, STAGING_TARGET);
  return null;
}

export async function publish(
  input: InputOf<Operations['csi.publish']>,
  vault: Vault,
  signal: AbortSignal,
): Promise<Unshared | null> {
  const { root, directory, data, again } = input;
  await writeRecord(root, directory, data);
  if (again) await callNodePublish(input, vault, signal);
  else await cleaningUp(root, directory, TARGET, () => callNodePublish(input, vault, signal));
  return await share(input);
}

export async function expand(
  { endpoint, request }: InputOf<Operations['csi.expand']>,
  vault: Vault,
  signal: AbortSignal,
): Promise<null> {
  await redactingErrors(request, [], vault, (secrets) =>
    callDriver(endpoint, 'NodeExpandVolume', { ...request, secrets } satisfies WithSecrets<NodeExpandRequest>, signal),
  );
  return null;
}

type WithSecrets<Request> = Omit<Request, 'secrets'> & { readonly secrets: Readonly<Record<string, string>> };

export async function callNodePublish(
  { endpoint, request, tokens, tokensIn }: InputOf<Operations['csi.publish']>,
  vault: Vault,
  signal: AbortSignal,
): Promise<void> {
  const issued = Object.values(tokens).map(({ token }) => token);
  await redactingErrors(request, issued, vault, async (secrets) => {
    const opened: WithSecrets<NodePublishRequest> = { ...request, secrets };
    const shown = JSON.stringify(vault.openAll(tokens));
    const more = issued.length === 0 ? {} : { [tokensIn]: { ...opened[tokensIn], [TOKENS]: shown } };
    await callDriver(endpoint, 'NodePublishVolume', { ...opened, ...more }, signal);
  });
}

export async function unpublish(
  { root, podDirectory, directory, endpoint, handle }: InputOf<Operations['csi.unpublish']>,
  mounter: Mounter,
  signal: AbortSignal,
): Promise<null> {
  if ((await readRecord(root, directory)) === null) return null;
  await unmountAll(root, `${podDirectory}/volume-subpaths`, mounter);
  const request = { volume_id: handle, target_path: `${directory}/${TARGET}` };
  await callDriver(endpoint, 'NodeUnpublishVolume', request, signal);
  await removeRecord(root, directory, TARGET);
  return null;
}

/**
 * Runs a step. A step that definitely failed leaves no record; a step that may have succeeded, now or earlier, keeps
 * its record.
 */
async function cleaningUp(root: string, directory: string, target: string, work: () => Promise<void>): Promise<void> {
  const wasMounted = await isMounted(root, `${directory}/${target}`);
  await (wasMounted ? work() : undoOnFailure(work, () => removeRecord(root, directory, target)));
}

/** Undoes a step that definitely failed. */
export async function undoOnFailure(work: () => Promise<void>, undo: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const isCertain = !(error instanceof OperationError) || !UNCERTAIN_CODES.has(error.code);
    if (isCertain) await undo().catch(() => {});
    throw error;
  }
}

/** Opens the secrets of a request during `ask`, and removes them from the driver's errors. */
async function redactingErrors(
  { secrets }: { readonly secrets: Readonly<Record<string, Content>> },
  more: readonly SecretHandle[],
  vault: Vault,
  ask: (secrets: Readonly<Record<string, string>>) => Promise<unknown>,
): Promise<void> {
  const values = Object.entries(secrets).map(([key, content]) => [key, textOf(content, vault)] as const);
  try {
    await ask(Object.fromEntries(values));
  } catch (error) {
    const opened = values.map(([, text]) => text);
    throw withoutTexts(withoutSecrets(error, [...Object.values(secrets).flatMap(handlesOf), ...more], vault), opened);
  }
}

const valueOf = (content: Content) => ('text' in content ? content.text : content.base64);

const handlesOf = (content: Content): SecretHandle[] => {
  const value = valueOf(content);
  return isSecretHandle(value) ? [value] : [];
};

/** Drivers accept only text, converted as Go converts bytes. */
function textOf(content: Content, vault: Vault): string {
  const value = valueOf(content);
  const opened = isSecretHandle(value) ? vault.open(value) : value;
  return 'text' in content ? opened : Buffer.from(opened, 'base64').toString('utf8');
}

type Published = InputOf<Operations['csi.publish']>;

async function share({ root, directory, ownership, request }: Published): Promise<Unshared | null> {
  if (ownership === null) return null;
  const { groupId, onlyTop } = ownership;
  const path = `${directory}/${TARGET}`;
  const place = openParent(root, path);
  if (!place) return null;
  try {
    const folder = await open(place.path, FOLDER);
    try {
      return await shareTree(folder, { groupId, readOnly: false, always: !onlyTop }, path);
    } finally {
      await folder.close();
    }
  } catch (error) {
    const why = messageOf(error);
    throw new OperationError(`applyFSGroup failed for vol ${request.volume_id}: ${why}`, { retriable: true });
  } finally {
    place.folder.close();
  }
}
