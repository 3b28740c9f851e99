-- hand: release n locks, and grant each to the first in line.
-- KEYS[1]   redlock:node
-- KEYS[2..] n resources
-- ARGV      epoch, n stripes, n owners, n hints; and of a process that has stood in
--           line for any of them, its id, its clock's reading (ms), n owners of the
--           attempts with which it goes on (empty: with none), and n owners of those
--           with which it stood (empty: with none)
-- returns 2n integers: n of the locks
--     0 not ours
--     1 deleted: nobody waits, or who does was called
--     2 granted to the first in line
--   then n of the next owners
--   > 0 in line: the place
--     0 not in line here
--   < 0 granted, and ours: less the token
-- atomic because an entry is an acquire that has not run yet, and this runs it: what
-- acquire.lua says of counter and key holds here. It is loaded where those are that
-- vote, since a grant is a vote.
-- Who waits is kept as ask.lua says. The head is told on redlock:wake:<id>:
--   redlock:push, epoch, token, its clock's reading, its owner, the name, each but
--   the last ended by a line feed
-- The reading is from its last sign of life, and it lies before the grant: the lease
-- of 3 s counts from there. The grant shortens that sign, as a call does: who did not
-- hear it learns of it by the next one (look.lua). An entry goes when it is granted.
-- Where nothing is granted, the line is called as release.lua does it: where the hint is -1
-- or this node's epoch is another, the head takes no push or heard none, the counter is at
-- its end, PUBLISH is refused, or who waits to share (share.lua) stands before the head. A head that does not hear keeps its place for 700 ms: its
-- connection may be broken only.
-- The next owner stands behind all that wait and above the counter; with a hint of -1 not
-- where nobody else waits: the name is free for all, then. This is its first ask, so a
-- tombstone keeps it out. Where the key is not ours, the entry with
-- which the process stood goes, and no other of ours: this may come late.
local call, pcall, n = redis.call, redis.pcall, #KEYS - 1
local id, sign, nexts = ARGV[2 + 3 * n], ARGV[3 + 3 * n], 3 + 3 * n
KEYS[n + 2] = 'redlock:waiting'
local val, out = call('MGET', unpack(KEYS, 2)), {}
if not val[n + 1] and not id then
  local ours = {}
  for i = 1, n do
    out[i], out[n + i] = 0, 0
    if val[i] == ARGV[1 + n + i] then
      ours[#ours + 1] = KEYS[1 + i]
      out[i] = 1
    end
  end
  if #ours > 0 then call('DEL', unpack(ours)) end
  return out
end
local rec = call('HMGET', KEYS[1], 'epoch', 'base', unpack(ARGV, 2, n + 1))
local base, votes, held, counted, alive = tonumber(rec[2] or 0), rec[1] == ARGV[1], {}, {}, false

-- include head.lua
-- include rouse.lua

for i = 1, n do
  local key, stripe, owner, after = KEYS[1 + i], ARGV[1 + i], ARGV[1 + n + i], id and ARGV[nexts + i] or ''
  local queue, holder = 'redlock:queue:' .. key, val[i]
  if held[key] ~= nil then holder = held[key] end
  local c = math.max(base, counted[stripe] or tonumber(rec[2 + i] or 0))
  local mine = votes and after ~= '' and id .. ' ' .. after
  local buried = mine and call('EXISTS', 'redlock:dead:' .. after) == 1
  local reply, more, there, calls = 0, 0, nil, ARGV[1 + 2 * n + i] == '-1'
  if holder == owner then
    local who, place, reading, with
    if votes then
      who, place, reading, with = first(queue, mine)
      local beside = sharer(key)
      if beside and not (place and place <= beside) then
        with = nil
      elseif not who and mine and not buried then
        who, place, with = id, 0, mine
      end
    end
    local to = math.max(c + 1, tonumber(ARGV[1 + 2 * n + i]), place or 0)
    if with and not calls and to < 9007199254740991 then
      local token = string.format('%.0f', to)
      call('HSET', KEYS[1], stripe, token)
      c = to
      holder = string.sub(with, #who + 2)
      call('SET', key, holder, 'PX', '3000')
      local heard = who == id or pcall('PUBLISH', 'redlock:wake:' .. who,
        'redlock:push\n' .. ARGV[1] .. '\n' .. token .. '\n' .. reading .. '\n' .. holder .. '\n' .. key)
      if heard ~= 0 and type(heard) ~= 'table' then
        reply = 2
        if place > 0 then call('ZREM', queue, who, with) end
        if who == id then more = -c else pcall('PEXPIRE', 'redlock:live:' .. who, '700', 'LT') end
      end
    end
    if reply == 0 then
      reply, holder = call('DEL', key), false
      rouse(queue, key)
    end
  elseif mine and holder == after then
    more = -c
  elseif id then
    there = mine and call('ZADD', queue, 'XX', 'INCR', '0', mine)
    local own = id .. ' ' .. ARGV[nexts + n + i]
    local at = call('ZADD', queue, 'XX', 'INCR', '0', own)
    if at then
      local alone = at ~= there and at == call('ZADD', queue, 'XX', 'INCR', '0', id)
      call('ZREM', queue, own, alone and id or own)
      if not holder then rouse(queue, key, pcall('ZRANGE', key, '0', '0')[1] == 'redlock:shared' and tonumber(at)) end
    end
  end
  if there then
    more = tonumber(there)
  elseif mine and more == 0 and not buried then
    local last = call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]
    local beside = sharer(key) and call('ZRANGE', 'redlock:sharers:' .. key, '-1', '-1', 'WITHSCORES')[2]
    more = math.max(tonumber(last or 0), tonumber(beside or 0), c) + 1
    last = last or beside
    if more >= 9007199254740991 or calls and reply == 1 and not last then
      more = 0
    else
      local place = string.format('%.0f', more)
      call('ZADD', queue, place, id, place, mine)
      call('PEXPIRE', queue, '300000')
      if not alive then
        call('SET', 'redlock:live:' .. id, sign, 'PX', '3000')
        call('SET', 'redlock:waiting', '1', 'PX', '3000')
        alive = true
      end
    end
  end
  held[key], counted[stripe] = holder, c
  out[i], out[n + i] = reply, more
end
return out
