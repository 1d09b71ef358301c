/** The sequences of member names that the objects of a segment have, each with the last object that has it. */
import { escaped } from './references.ts';

/** Sequences that are kept; charts and runtimes have some thousand. */
const SHAPES_MAX = 16_384;

/** The member names of an object in order, as a path in the trie of all shapes. */
export interface Shape<Place> {
  /** The last name, in the forms of a line and of a JSON pointer in a line. */
  readonly name: string;
  readonly step: string;
  readonly next: Map<string, Shape<Place>>;
  /** The last object with exactly these members. */
  last: Place | undefined;
}

/** The name of a member in a JSON pointer in a line. */
export const jsonStep = (name: string): string => JSON.stringify(escaped(name)).slice(1, -1);

const shapeOf = <Place>(name: string): Shape<Place> => ({
  name: `${JSON.stringify(name)}:`,
  step: `/${jsonStep(name)}`,
  next: new Map(),
  last: undefined,
});

export class Shapes<Place> {
  /** The shape of an object without members. */
  root = shapeOf<Place>('');
  #count = 0;

  clear(): void {
    this.root = shapeOf('');
    this.#count = 0;
  }

  /** The shape of an object with the members of `before` and this one. */
  add(before: Shape<Place>, name: string): Shape<Place> {
    if (++this.#count > SHAPES_MAX) this.clear();
    const shape = shapeOf<Place>(name);
    before.next.set(name, shape);
    return shape;
  }
}
