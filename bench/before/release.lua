-- release: delete one lock if it is ours.
-- KEYS[1] the resource
-- KEYS[2] redlock:dead:<owner value>, with a tombstone only
-- ARGV    owner, the tombstone's life (ms), with a tombstone only
-- returns 1 deleted; 0 absent or another's
-- atomic because the owner must be ours when the key goes. The tombstone is left
-- whether there was a key or not: it stands for an acquire that may still come.
local gone = 0
if redis.call('MGET', KEYS[1])[1] == ARGV[1] then gone = redis.call('DEL', KEYS[1]) end
if KEYS[2] and redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
end
return gone
