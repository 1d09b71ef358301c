import { BootNode, ok } from './boot-node.ts';
import { DOCUMENTS, checkOrder, missingSteps, CONTRADICTIONS, stepsTaken } from '../../../src/machines/startup/order/index.ts';
const node = new BootNode({argv: [...process.argv.slice(2)]}).boot().run(3000);
console.log(JSON.stringify(node.state()), JSON.stringify(node.ended), missingSteps(node.records));
for (const d of [...DOCUMENTS, ...CONTRADICTIONS.map(c=>({key:c.question, promises:c.kept}))]) console.log(d.key, d.promises.length, checkOrder(node.records, d.promises).map(v=>`${v.promise.before} (${v.before}) -> ${v.promise.after} (${v.after})`));
console.log([...stepsTaken(node.records)].sort((a,b)=>a[1]-b[1]).map(x=>x.join(' ')).join('\n'));
