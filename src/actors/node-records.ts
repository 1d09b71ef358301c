/**
 * Typed views of the kernel's records: operations by name, messages by type.
 *
 * The kernel knows neither names nor types; metrics need both. Invariant: machines write values of their declared
 * types, so the single cast in {@link nodeRecord} is valid.
 */
import type { PlainError } from '../kernel/json.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { InputOf, OutputOf } from '../kernel/operation.ts';
import type {
  EffectRecord,
  InputRecord,
  InRecord,
  KernelRecord,
  MessageRecord,
  ResultRecord,
} from '../kernel/records.ts';
import type { AllocationMessage, AllocationReport } from '../machines/model/allocation/messages.ts';
import type { CSIReleased, CSIWanted } from '../machines/model/csi/messages.ts';
import type { ClaimReport, ClaimRequest } from '../machines/model/dra/messages.ts';
import type { RegistrationItem } from '../machines/model/operations/devices.ts';
import type { Operations } from '../machines/model/operations/index.ts';
import type { ImageReport, ImageWanted } from '../machines/model/pods/image-messages.ts';
import type {
  EventRecorded,
  PodKill,
  PodKillWanted,
  SoftStateMessage,
  StatusMessage,
} from '../machines/model/pods/pod-messages.ts';
import type { ConfigMessage, StatusObserved } from '../machines/model/pods/source-messages.ts';

export type NodeMessage =
  | AllocationMessage
  | AllocationReport
  | ClaimReport
  | ClaimRequest
  | ConfigMessage
  | CSIReleased
  | CSIWanted
  | EventRecorded
  | ImageReport
  | SoftStateMessage
  | PodKill
  | PodKillWanted
  | StatusMessage
  | StatusObserved
  | { readonly type: 'container.refused'; readonly reason: string }
  | { readonly type: 'image.asked'; readonly request: ImageWanted }
  | ImageWanted;

type Outcome<Output> =
  | { readonly output: Output; readonly error?: undefined }
  | { readonly output?: undefined; readonly error: PlainError };

export type NodeEffect = {
  [Name in keyof Operations]: Omit<EffectRecord, 'name' | 'input'> & {
    readonly name: Name;
    readonly input: InputOf<Operations[Name]>;
  };
}[keyof Operations];

export type NodeResult = {
  [Name in keyof Operations]: Omit<ResultRecord, 'name' | 'output' | 'error'> & { readonly name: Name } & Outcome<
      OutputOf<Operations[Name]>
    >;
}[keyof Operations];

export interface NodeMessageRecord extends Omit<MessageRecord, 'event'> {
  readonly event: NodeMessage;
}

interface NodeInRecord extends Omit<InRecord, 'event'> {
  readonly event: RegistrationItem;
}

export type NodeRecord =
  | Exclude<KernelRecord, InputRecord | EffectRecord | MessageRecord>
  | Exclude<InputRecord, InRecord | ResultRecord>
  | NodeEffect
  | NodeInRecord
  | NodeMessageRecord
  | NodeResult;

export const nodeRecord = (record: KernelRecord): NodeRecord => record as NodeRecord;

/** The context of the actor at an address; `undefined` without an actor. `Context` is that of its machine. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller knows the machine at its address
export const contextOf = <Context>(kernel: Kernel, address: string): Context | undefined =>
  (kernel.snapshotOf(address) as { readonly context?: Context } | undefined)?.context;
