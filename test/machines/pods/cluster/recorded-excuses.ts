/** Where this agent, lived through under the model of the runtime, differs from a recording, and why it may. */
interface Excuse {
  /** Why the recording cannot be lived through here. */
  readonly skip?: string;
  readonly differences?: readonly { readonly text: RegExp; readonly reason: string }[];
}

export const excuses: Readonly<Record<string, Excuse>> = {};
