/**
 * Takes the credentials out of a kubelet's arguments before they are written anywhere: the values of
 * `--manifest-url-header`, in each spelling that the flag has. Names of headers stay, and so does the number of
 * arguments. Where a vault stands by, the name of a handle takes the place of a value.
 */
import { MASKED } from '../machines/startup/configuration/index.ts';

const FLAG = /^--manifest[-_]url[-_]header(=|$)/;

export function maskedArguments(argv: readonly string[], hide: (value: string) => string = () => MASKED): string[] {
  let isValue = false;
  return argv.map((argument) => {
    if (isValue) {
      isValue = false;
      return maskedHeaders(argument, hide);
    }
    const flag = FLAG.exec(argument);
    if (!flag) return argument;
    isValue = flag[1] === '';
    return flag[0] + maskedHeaders(argument.slice(flag[0].length), hide);
  });
}

/** `name:value,name:value`; a value may itself hold a colon. */
const maskedHeaders = (text: string, hide: (value: string) => string): string =>
  text.replaceAll(/:([^,]*)/g, (_, value: string) => `:${hide(value.trim())}`);
