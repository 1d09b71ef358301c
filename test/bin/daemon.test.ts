import { describe, expect, it } from 'vitest';
import { pageAddress } from '../../src/bin/daemon.ts';

describe('the printed address of the page', () => {
  const url = 'http://127.0.0.1:10247/?token=s3cret';
  const tokenFile = '/var/lib/kubelet/visualizer.token';

  it('has its token for the user at a terminal', () => {
    expect(pageAddress(url, tokenFile, true)).toBe(url);
  });

  it('names the file of the token in a log', () => {
    expect(pageAddress(url, tokenFile, false)).toBe(
      `http://127.0.0.1:10247/ (needs ?token= and the content of ${tokenFile})`,
    );
  });

  it('is none while no page is served', () => {
    expect(pageAddress(null, tokenFile, false)).toBeNull();
  });
});
