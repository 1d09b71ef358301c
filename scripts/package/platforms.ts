/** The platforms that a package can be built for, and their native parts. */

export type Architecture = 'x64' | 'arm64';

export interface Platform {
  /** The architecture as Node and npm name it. */
  readonly arch: Architecture;
  /** The architecture as Debian names it. */
  readonly debian: string;
  /** The checksum of `bin/node` in the npm package `node-linux-<arch>`; the lock file has none for it. */
  readonly nodeSha256: string;
  /** The program that removes symbols, and Debian's package with it. */
  readonly strip: string;
  readonly stripPackage: string;
  /** The native part of `koffi`, an optional dependency in the lock file. */
  readonly koffi: string;
}

/** Changes together with the version of `node` in `package.json` and the checksums below. */
export const NODE_VERSION = '26.10.0';

export const PLATFORMS: Readonly<Record<Architecture, Platform>> = {
  x64: {
    arch: 'x64',
    debian: 'amd64',
    nodeSha256: 'ab9c8eecf9f82d6693cdc3accced17034065c8d96213b0aa76a7e803d20ae1da',
    strip: 'x86_64-linux-gnu-strip',
    stripPackage: 'binutils-x86-64-linux-gnu',
    koffi: '@koromix/koffi-linux-x64',
  },
  arm64: {
    arch: 'arm64',
    debian: 'arm64',
    nodeSha256: '71b004f18a82f3ea8f26109798564a12e5e4c7989a4c35b93851830b5815dd03',
    strip: 'aarch64-linux-gnu-strip',
    stripPackage: 'binutils-aarch64-linux-gnu',
    koffi: '@koromix/koffi-linux-arm64',
  },
};

/** `linux-x64` */
export const nameOf = ({ arch }: Platform): string => `linux-${arch}`;
