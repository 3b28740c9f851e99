// A holder of node-redlock: it is told what to do by JSON lines, and writes what it
// believes as JSON lines, as the holders in Go do (holder.go).
import { createInterface } from "node:readline";
import Redis from "ioredis";
import Redlock from "redlock";

const lease = 3000;
const lookEvery = 10;
const part = JSON.parse(process.env.REDLOCK_CONTENDERS_HOLDER);

// now is CLOCK_MONOTONIC, which processes of a machine share.
const now = () => process.hrtime.bigint();
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const say = (kind, text = "", at = now()) => // JSON has no bigint
  process.stdout.write(`{"at":${at},${JSON.stringify({ client: part.Who, kind, text }).slice(1)}\n`);

const clients = part.Addrs.map((addr) => {
  const at = addr.lastIndexOf(":");
  const client = new Redis(Number(addr.slice(at + 1)), addr.slice(0, at));
  client.on("error", () => {}); // what a holder is told is in its records
  return client;
});
const redlock = new Redlock(clients);

let hold; // { signal, letGo, over }

// take is resolved when the routine of using runs: with the hold, or with undefined, if
// the caller has given up by then.
const take = (name, wanted) =>
  new Promise((got, failed) => {
    const mine = {};
    mine.over = redlock.using([name], lease, async (signal) => {
      if (!wanted()) return got();
      mine.signal = signal;
      const gone = new Promise((letGo) => (mine.letGo = letGo));
      got(mine);
      await gone;
    });
    mine.over.catch(failed);
  });

// acquire asks again where the library gives up. The library takes nothing that would
// end a call, so the bound is the caller's own.
async function acquire({ Name, Bound }) {
  say("asked");
  let wanted = true;
  let last = "";
  const bound = setTimeout(() => {
    wanted = false;
    say("quit", last);
  }, Bound / 1e6);
  while (wanted) {
    try {
      const mine = await take(Name, () => wanted);
      if (mine) {
        clearTimeout(bound);
        watch(mine);
      }
      return;
    } catch (e) {
      last = String(e.message);
    }
    await sleep(2 * lookEvery);
  }
}

// watch tells what the holder believes: that it holds, as long as the signal is not
// aborted.
function watch(mine) {
  hold = mine;
  say("held");
  mine.signal.addEventListener("abort", () => mine.watch && say("told", "library"));
  mine.watch = setInterval(() => {
    const from = now();
    if (!mine.signal.aborted) say("extended", "", from);
  }, lookEvery);
}

async function release() {
  if (!hold) return say("noted", "nothing to release");
  const mine = hold;
  hold = undefined;
  clearInterval(mine.watch);
  mine.watch = undefined;
  say("released");
  mine.letGo();
  await mine.over.then(() => say("returned"), (e) => say("returned", String(e.message)));
}

// There is no call that asks the servers; the signal is what there is.
function ask() {
  if (!hold) return say("noted", "nothing to ask for");
  say("answered", hold.signal.aborted ? "lost" : "held");
}

// A lock of its own first, so that its connections are open and its scripts loaded.
await redlock.using([`warm-${part.Who}`], lease, async () => {});
say("ready");

let turn = Promise.resolve(); // one command at a time
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  const act = { acquire, release, ask }[command.Do];
  turn = turn.then(() => act(command));
}
process.exit(0);
