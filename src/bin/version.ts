/** Who we say we are: the kubelet whose behaviour is followed, and our own version. */
import packageJson from '../../package.json' with { type: 'json' };

export const STATELET_VERSION = packageJson.version;
/** The kubelet release that behaviour, texts and defaults follow. */
export const KUBELET_VERSION = 'v1.36.2';
/** As the node reports it. */
export const NODE_VERSION = `${KUBELET_VERSION}+statelet.${STATELET_VERSION}`;
