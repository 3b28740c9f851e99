-- release: delete one lock if it is ours, and wake its waiters. It grants nothing
-- (hand.lua does), so any node may run it.
-- KEYS[1] the resource
-- KEYS[2] redlock:dead:<owner value>, with a tombstone only
-- ARGV    owner, the tombstone's life (ms), with a tombstone only
-- returns 1 deleted; 0 absent or another owner's
-- atomic because the owner must be ours when the key goes. The tombstone is left
-- even if there was no key: it stops an acquire that may still come.
-- Waiters are stored as ask.lua and share.lua say. They are woken in that order on
-- redlock:wake:<id>, up to the first that hears it; sharers are woken together, up to 128
-- of them. Waking shortens the sign of life to 700 ms. A living waiter renews it before
-- that, and keeps its place even if it did not hear; a dead one blocks the next no longer.
-- A failure in waking (an ACL without these rights) must not make the release look as if
-- it had failed: so pcall.
local gone = 0
local val = redis.call('MGET', KEYS[1], 'redlock:waiting')
if val[1] == ARGV[1] then gone = redis.call('DEL', KEYS[1]) end
if KEYS[2] then
  -- include tombstone.lua
  leaveTombstone(KEYS[2], ARGV[2])
end
if gone == 1 and val[2] then
  local pcall, id = redis.pcall, nil
-- include wake.lua
  wake('redlock:queue:' .. KEYS[1], KEYS[1])
end
return gone
