/** Owns what is known of a flag: its name and type, what it sets, how it is deprecated, and our sentence of help. */
import type { Json } from '../../../kernel/json.ts';
import type { FlagKind } from './flag-values.ts';

export interface FlagSpec {
  readonly name: string;
  readonly kind: FlagKind;
  readonly usage: string;
  readonly shorthand?: string;
  /** Upstream's sentence after `Flag --name has been deprecated, `. */
  readonly deprecated?: string;
  /** Dotted path in KubeletConfiguration. */
  readonly field?: string;
  /** Property of KubeletFlags. */
  readonly property?: string;
  /** Default of a flag that is no field of the configuration. */
  readonly default?: Json;
}
