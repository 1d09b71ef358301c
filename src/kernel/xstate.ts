/**
 * The only access to XState. Machines import only this file and each other, so the library can be replaced in one
 * place, and constructs that machines must not use (promises, callbacks, wall clocks) are not exported.
 */

export type { ActorRefFrom, AnyActorRef, AnyStateMachine, SnapshotFrom } from 'xstate';
export {
  assign,
  enqueueActions,
  raise,
  sendParent,
  sendTo,
  setup,
  stateIn,
  stopChild,
} from 'xstate';
export { AGENT_PHASE, type AgentFault } from './fault.ts';
export { errorIn, errorOf, line, now, outputOf, random, sha256, to, typed } from './helpers.ts';
export type { SecretHandle } from './journal/secrets.ts';
export { isObject, type JsonEvent, type JsonObject, type PlainError } from './json.ts';
export type { InputOf, ItemOf, OperationTable, OutputOf } from './operation.ts';
export { idempotent, once, pick, query, stream } from './operation.ts';
export type { LogLevel } from './records.ts';
export { messageOf, required } from './thrown.ts';
