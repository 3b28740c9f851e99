-- hand_one: hand.lua for one lock.
-- KEYS[1] the resource
-- KEYS[2] redlock:node
-- ARGV    owner, epoch, hint, stripe; and of a process that has stood in line for it,
--         its id, its clock's reading (ms), the owner of the attempt with which it
--         goes on, and of that with which it stood (empty: with none)
-- returns, where nobody waits for it and no id is given, 1 deleted; 0 absent or another's
--   else hand.lua's two integers
-- atomic as hand.lua.
local call, pcall = redis.call, redis.pcall
local key, owner, id, after = KEYS[1], ARGV[1], ARGV[5], ARGV[7]
local goes = id and after ~= ''
local val = goes and call('MGET', key, 'redlock:waiting', 'redlock:dead:' .. after) or call('MGET', key, 'redlock:waiting')
local holder = val[1]
local stripe, sign, queue = ARGV[4], ARGV[6], 'redlock:queue:' .. key
if not id and (not val[2] or call('EXISTS', queue, 'redlock:sharers:' .. key) == 0) then return holder == owner and call('DEL', key) or 0 end
local rec = call('HMGET', KEYS[2], 'epoch', 'base', stripe)
local votes, c = rec[1] == ARGV[2], math.max(tonumber(rec[2] or 0), tonumber(rec[3] or 0))
local mine, buried, calls = votes and goes and id .. ' ' .. after, val[3], ARGV[3] == '-1'
local reply, more, there = 0, 0, nil

-- include head.lua
-- include rouse.lua

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
  local to = math.max(c + 1, tonumber(ARGV[3]), place or 0)
  if with and not calls and to < 9007199254740991 then
    local heir, token = string.sub(with, #who + 2), string.format('%.0f', to)
    call('HSET', KEYS[2], stripe, token)
    c = to
    call('SET', key, heir, 'PX', '3000')
    local heard = who == id or pcall('PUBLISH', 'redlock:wake:' .. who,
      'redlock:push\n' .. ARGV[2] .. '\n' .. token .. '\n' .. reading .. '\n' .. heir .. '\n' .. key)
    if heard ~= 0 and type(heard) ~= 'table' then
      reply = 2
      if place > 0 then call('ZREM', queue, who, with) end
      if who == id then more = -c else pcall('PEXPIRE', 'redlock:live:' .. who, '700', 'LT') end
    end
  end
  if reply == 0 then
    reply = call('DEL', key)
    rouse(queue, key)
  end
elseif mine and holder == after then
  more = -c
elseif id then
  there = mine and call('ZADD', queue, 'XX', 'INCR', '0', mine)
  local own = id .. ' ' .. ARGV[8]
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
    call('SET', 'redlock:live:' .. id, sign, 'PX', '3000')
    call('SET', 'redlock:waiting', '1', 'PX', '3000')
  end
end
return {reply, more}
