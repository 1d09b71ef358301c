/**
 * How a request that is given up leaves an HTTP/2 connection that others use: as cancelled, as Go's client says it.
 *
 * The HTTP library closes its stream without a code, as if all was well, and destroys it at once. Node holds such a
 * reset back until the body has left; destroyed before that, it is never sent, and the next write on the connection
 * never ends: the process hangs, and takes gigabytes. With a code it is reset at once, and nothing waits.
 */
import { subscribe } from 'node:diagnostics_channel';
import { type ClientHttp2Stream, constants } from 'node:http2';

/** Of every stream that this process opens as a client; who closes one with a code of its own is not touched. */
export function cancelStreamsGivenUp(): void {
  subscribe('http2.client.stream.created', (message) => {
    const { stream } = message as { readonly stream: ClientHttp2Stream };
    const close = stream.close.bind(stream);
    stream.close = (code = constants.NGHTTP2_CANCEL, callback) => close(code, callback);
  });
}
