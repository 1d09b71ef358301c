/** The words that a search looks for before it reads a record. */
import { expect, it } from 'vitest';
import { certainWords } from '../../../src/visualizer/worker/query.ts';

it.each([
  ['pullImage', ['pullImage']],
  ['/cri\\.(stop|start)/', ['cri.stop', 'cri.start']],
  ['/cri\\.(?:stop|start)Pod/', ['cri.stopPod', 'cri.startPod']],
  ['/pullx?Image/', ['Image']],
  ['/web-\\d+-three/', ['-three']],
  ['/ab+cdef/', ['cdef']],
  ['/abc+d/', ['abc']],
  ['/abc{0,2}d/', ['ab']],
  ['/a.b.cd/', ['cd']],
  ['/[abc]def[^x]/', ['def']],
  ['/[]a]bcd/', ['bcd']],
  ['/(stop|start)?ed/', ['ed']],
  ['/((a|b)c)def/', []],
  ['/one|other/', []],
  ['/(?i)word/', []],
  ['/\\x63ri/', []],
  ['/.*/', []],
  ['/(a|b)(c|d)(e|f)(g|h)word/', ['gword', 'hword']],
])('%s', (word, expected) => {
  expect(certainWords(word)).toEqual(expected);
});
