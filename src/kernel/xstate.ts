/**
 * The only access to XState. Machines import from here and from each other, nothing else; so the library can be
 * replaced by its next major version in one place, and what may not be used in a machine (promises, callbacks, wall
 * clocks) is not offered.
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
