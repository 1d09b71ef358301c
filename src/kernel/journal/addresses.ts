/** The numbers that one segment gives to addresses of actors, for its writer. */
import type { Address } from '../address.ts';
import { ADDRESS_MAX_CHARS, ADDRESSES_MAX, NO_NUMBER } from './references.ts';

export class AddressNumbers {
  #numbers = new Map<Address, string>();

  clear(): void {
    this.#numbers = new Map();
  }

  /** The address as a line has it: its number, or the text that gives it one. */
  textOf(address: Address): string {
    const known = this.#numbers.get(address);
    if (known !== undefined) return known;
    if (address.length > ADDRESS_MAX_CHARS || /^\d/.test(address)) return JSON.stringify(`${NO_NUMBER}=${address}`);
    if (this.#numbers.size === ADDRESSES_MAX) this.clear();
    const number = String(this.#numbers.size + 1);
    const cut = address.lastIndexOf('/');
    const parent = cut === -1 ? undefined : this.#numbers.get(address.slice(0, cut));
    this.#numbers.set(address, number);
    return JSON.stringify(`${number}=${parent === undefined ? address : `${parent}${address.slice(cut)}`}`);
  }
}
