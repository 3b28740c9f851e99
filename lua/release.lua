-- release: delete one lock if it is ours, and wake who waits for it.
-- KEYS[1] the resource
-- KEYS[2] redlock:dead:<owner value>, with a tombstone only
-- ARGV    owner, the tombstone's life (ms), with a tombstone only
-- returns 1 deleted; 0 absent or another's
-- atomic because the owner must be ours when the key goes. The tombstone is left
-- whether there was a key or not: it stands for an acquire that may still come.
-- Who waits is kept as ask.lua says; the head is told on redlock:wake:<id>, and
-- dropped if nobody hears it. What fails in that (an ACL without these rights)
-- must not make a release that has happened look like one that has not.
local gone = 0
local val = redis.call('MGET', KEYS[1], 'redlock:waiting')
if val[1] == ARGV[1] then gone = redis.call('DEL', KEYS[1]) end
if KEYS[2] and redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
end
if gone == 1 and val[2] then
  local call, queue = redis.pcall, 'redlock:queue:' .. KEYS[1]
  local head = call('ZRANGE', queue, 0, 0)
  while head[1] do
    local heard = call('EXISTS', 'redlock:live:' .. head[1]) == 1 and call('PUBLISH', 'redlock:wake:' .. head[1], KEYS[1])
    if heard and heard ~= 0 or type(call('ZREM', queue, head[1])) == 'table' then break end
    head = call('ZRANGE', queue, 0, 0)
  end
end
return gone
