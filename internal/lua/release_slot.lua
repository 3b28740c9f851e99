-- release_slot: release.lua for a slot (ask_slot.lua), and the leave of the slots' line.
-- KEYS[1] the slot; of a leave redlock:slots:<name>, where nothing is stored
-- KEYS[2] redlock:dead:<owner value>, with a tombstone only
-- ARGV    owner, the name, n, a mode as release_batch.lua's, the process's id, a place in
--         line, and with a tombstone its life (ms)
-- returns 1 deleted; 0 absent or another's
-- atomic as release.lua. The first in line is woken where the slot went: with the slot's
-- key, so that it asks for that one. By mode 1 our entry goes, if it stands at that place
-- or before (a later one is that of a goroutine which waits still); where there was one,
-- the first is woken if a slot is free here: its turn may have come with that. By mode 2
-- our entry stays, and nobody behind it is woken, nor we ourselves: else two who give back
-- what they got of one slot wake each other for ever.
-- Waking is release.lua's: it fails alone, and who does not hear is not the last.
local gone, mode, id = 0, ARGV[4], ARGV[5]
local val = redis.call('MGET', KEYS[1], 'redlock:waiting')
if val[1] == ARGV[1] then gone = redis.call('DEL', KEYS[1]) end
if KEYS[2] and redis.call('PTTL', KEYS[2]) < tonumber(ARGV[7]) then
  redis.call('SET', KEYS[2], '1', 'PX', ARGV[7])
end
local call, line, free = redis.pcall, 'redlock:queue:redlock:slots:' .. ARGV[2], gone == 1 and KEYS[1]
local place = mode == '1' and call('ZSCORE', line, id)
if type(place) == 'string' then
  if tonumber(place) <= tonumber(ARGV[6]) then call('ZREM', line, id) end
  for i = 0, (free and 0 or tonumber(ARGV[3])) - 1 do
    local slot = 'redlock:slot:' .. i .. ':' .. ARGV[2]
    if call('EXISTS', slot) == 0 then
      free = slot
      break
    end
  end
end
local at = 0
while free and val[2] do
  local who = call('ZRANGE', line, at, at)[1]
  if not who or who == id and mode == '2' then break end
  local live = 'redlock:live:' .. who
  if call('PEXPIRE', live, '700', 'LT') == 0 and call('EXISTS', live) == 0 then
    if type(call('ZREM', line, who)) == 'table' then break end
  elseif call('PUBLISH', 'redlock:wake:' .. who, free) == 0 then
    at = at + 1
  else
    break
  end
end
return gone
