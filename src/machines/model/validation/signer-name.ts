/** Validates the name of a signer of certificates: a domain and a path. */
import { type FieldError, invalid, isLongName, isShortName, required, tooLong } from './field.ts';

const DOMAIN_MAX_BYTES = 253;
const PATH_MAX_BYTES = 317;

export function validateSignerName(name: string, path: string): FieldError[] {
  if (name === '') return [required(path)];
  const [domain = '', own = '', ...others] = name.split('/');
  if (!name.includes('/') || others.length > 0) {
    return [invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")];
  }
  const labels = domain.split('.');
  const limit = DOMAIN_MAX_BYTES + PATH_MAX_BYTES + 1;
  return [
    ...(domain.length > DOMAIN_MAX_BYTES ? [tooLong(path, DOMAIN_MAX_BYTES)] : []),
    ...firstFault(labels, isShortName, domain, path),
    ...(labels.length < 2
      ? [invalid(path, domain, 'should be a domain with at least two segments separated by dots')]
      : []),
    ...firstFault(own.split('.'), isLongName, own, path),
    ...(name.length > limit ? [tooLong(path, limit)] : []),
  ];
}

type Check = (label: string) => readonly string[];

/** The faults of the first faulty label: those of others would be the same. */
function firstFault(labels: readonly string[], check: Check, segment: string, path: string): FieldError[] {
  for (const label of labels) {
    const faults = check(label);
    if (faults.length > 0) {
      return faults.map((fault) => invalid(path, segment, `validating label ${JSON.stringify(label)}: ${fault}`));
    }
  }
  return [];
}
