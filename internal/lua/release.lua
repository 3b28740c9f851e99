-- release: delete one lock if it is ours, and wake who waits for it. It grants to
-- nobody (hand.lua does), so any node may run it.
-- KEYS[1] the resource
-- KEYS[2] redlock:dead:<owner value>, with a tombstone only
-- ARGV    owner, the tombstone's life (ms), with a tombstone only
-- returns 1 deleted; 0 absent or another's
-- atomic because the owner must be ours when the key goes. The tombstone is left
-- whether there was a key or not: it stands for an acquire that may still come.
-- Who waits is kept as ask.lua and share.lua say, and is called in their order on
-- redlock:wake:<id>, up to the first that hears it; those who wait to share go together,
-- up to 128 of them. A call shortens the sign of
-- life to 700 ms: one that lives gives another before that, and keeps its place
-- whether it heard the call or not; one that is dead holds up the next no longer.
-- What fails in that (an ACL without these rights) must not make a release that
-- has happened look like one that has not.
local gone = 0
local val = redis.call('MGET', KEYS[1], 'redlock:waiting')
if val[1] == ARGV[1] then gone = redis.call('DEL', KEYS[1]) end
if KEYS[2] and redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
end
if gone == 1 and val[2] then
  local pcall, id = redis.pcall, nil
-- include rouse.lua
  rouse('redlock:queue:' .. KEYS[1], KEYS[1])
end
return gone
