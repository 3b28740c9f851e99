-- rouse calls who may go, in their order, up to the first that hears it; those who wait to
-- share go together, up to 128 of them. from: others share the name, so only sharers may
-- go, of that place and behind.
local function rouse(queue, key, from)
  local line = pcall('EXISTS', 'redlock:sharing') == 1 and 'redlock:sharers:' .. key
  local at, beside, together = 0, 0, 0
  while together < 128 do
    local head = pcall('ZRANGE', queue, at, at, 'WITHSCORES')
    local who, place, of = head[1], tonumber(head[2] or math.huge), queue
    if who and string.find(who, ' ', 1, true) then
      at = at + 1
    else
      local other = line and pcall('ZRANGE', line, beside, beside, 'WITHSCORES') or {}
      if other[1] and tonumber(other[2]) < place then who, place, of = other[1], tonumber(other[2]), line end
      if not who or who == id and of == queue then return end
      local live, alone = 'redlock:live:' .. who, of == queue and (together > 0 or from)
      if of == line and from and place < from then
        beside = beside + 1
      elseif (alone or pcall('PEXPIRE', live, '700', 'LT') == 0) and pcall('EXISTS', live) == 0 then
        if type(pcall('ZREM', of, who)) == 'table' then return end
      elseif alone then
        return
      elseif pcall('PUBLISH', 'redlock:wake:' .. who, key) == 0 then
        if of == line then beside = beside + 1 else at = at + 1 end
      elseif of == line then
        beside, together = beside + 1, together + 1
      else
        return
      end
    end
  end
end
