-- release_slot: release.lua for a slot (ask_slot.lua); it also leaves the slots' queue.
-- KEYS[1] the slot; for a leave redlock:slots:<name>, where nothing is stored
-- KEYS[2] redlock:dead:<owner value>, with a tombstone only
-- ARGV    owner, the name, n, a mode as release_batch.lua's, the process's id, a place in
--         the queue, and with a tombstone its life (ms)
-- returns 1 deleted; 0 absent or another owner's
-- atomic as release.lua. If the slot went, the head is woken with the slot's key, so that
-- it asks for that one. In mode 1 our entry goes, if it stands at that place or before (a
-- later one belongs to a goroutine that still waits). If there was one, the head is woken
-- when a slot is free here: its turn may have come with our leave. In mode 2 our entry
-- stays, and neither we nor anybody behind us is woken: else two processes that give back
-- their minorities of one slot would wake each other for ever.
-- Waking is release.lua's: its failure does not fail the release, and a waiter that does
-- not hear passes the turn to the next.
local gone, mode, id = 0, ARGV[4], ARGV[5]
local val = redis.call('MGET', KEYS[1], 'redlock:waiting')
if val[1] == ARGV[1] then gone = redis.call('DEL', KEYS[1]) end
if KEYS[2] then
  -- include tombstone.lua
  leaveTombstone(KEYS[2], ARGV[7])
end
local call, queue, free = redis.pcall, 'redlock:queue:redlock:slots:' .. ARGV[2], gone == 1 and KEYS[1]
local place = mode == '1' and call('ZSCORE', queue, id)
if type(place) == 'string' then
  if tonumber(place) <= tonumber(ARGV[6]) then call('ZREM', queue, id) end
  for i = 0, (free and 0 or tonumber(ARGV[3])) - 1 do
    local slot = 'redlock:slot:' .. i .. ':' .. ARGV[2]
    if call('EXISTS', slot) == 0 then
      free = slot
      break
    end
  end
end
local index = 0
while free and val[2] do
  local waiter = call('ZRANGE', queue, index, index)[1]
  if not waiter or waiter == id and mode == '2' then break end
  local live = 'redlock:live:' .. waiter
  if call('PEXPIRE', live, '700', 'LT') == 0 and call('EXISTS', live) == 0 then
    if type(call('ZREM', queue, waiter)) == 'table' then break end
  elseif call('PUBLISH', 'redlock:wake:' .. waiter, free) == 0 then
    index = index + 1
  else
    break
  end
end
return gone
