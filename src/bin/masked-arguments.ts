/**
 * Takes the credentials out of a kubelet's arguments before they are written anywhere: the values of
 * `--manifest-url-header` and the login of `--manifest-url`, in each spelling that the flags have. Names of headers
 * stay, and so does the number of arguments. Where a vault stands by, the name of a handle takes the place of a value.
 */
import { withLogin } from '../actors/url-login.ts';
import { MASKED } from '../machines/configuration/index.ts';

const FLAG = /^--manifest[-_]url([-_]header)?(=|$)/;

export function maskedArguments(argv: readonly string[], hide: (value: string) => string = () => MASKED): string[] {
  let pending: Mask | undefined;
  return argv.map((argument) => {
    if (pending) {
      const mask = pending;
      pending = undefined;
      return mask(argument, hide);
    }
    const flag = FLAG.exec(argument);
    if (!flag) return argument;
    const mask = flag[1] === undefined ? withLogin : maskedHeaders;
    if (flag[2] === '') pending = mask;
    return flag[0] + mask(argument.slice(flag[0].length), hide);
  });
}

type Mask = (text: string, hide: (value: string) => string) => string;

/** `name:value,name:value`; a value may itself hold a colon. */
const maskedHeaders: Mask = (text, hide) =>
  text.replaceAll(/:([^,]*)/g, (_, value: string) => `:${hide(value.trim())}`);
