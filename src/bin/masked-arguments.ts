/**
 * Takes the credentials out of a kubelet's arguments before they are written anywhere: the values of
 * `--manifest-url-header`, in each spelling that the flag has. Names of headers stay, and so does the number of
 * arguments.
 */
import { MASKED } from '../machines/startup/configuration/index.ts';

const FLAG = /^--manifest[-_]url[-_]header(=|$)/;

export function maskedArguments(argv: readonly string[]): string[] {
  let isValue = false;
  return argv.map((argument) => {
    if (isValue) {
      isValue = false;
      return maskedHeaders(argument);
    }
    const flag = FLAG.exec(argument);
    if (!flag) return argument;
    isValue = flag[1] === '';
    return flag[0] + maskedHeaders(argument.slice(flag[0].length));
  });
}

/** `name:value,name:value`; a value may itself hold a colon. */
const maskedHeaders = (text: string): string => text.replaceAll(/:[^,]*/g, `:${MASKED}`);
