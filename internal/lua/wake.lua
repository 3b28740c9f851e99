-- wake wakes the waiters whose turn it is, in order, up to the first that hears it; sharers
-- are woken together, up to 128 of them. With minPlace others share the name: then only
-- sharers are woken, from that place on.
local function wake(exclusive, key, minPlace)
  local sharers = pcall('EXISTS', 'redlock:sharing') == 1 and 'redlock:sharers:' .. key
  local index, sharerIndex, woken = 0, 0, 0
  while woken < 128 do
    local head = pcall('ZRANGE', exclusive, index, index, 'WITHSCORES')
    local waiter, place, queue = head[1], tonumber(head[2] or math.huge), exclusive
    if waiter and string.find(waiter, ' ', 1, true) then
      index = index + 1
    else
      local sharer = sharers and pcall('ZRANGE', sharers, sharerIndex, sharerIndex, 'WITHSCORES') or {}
      if sharer[1] and tonumber(sharer[2]) < place then waiter, place, queue = sharer[1], tonumber(sharer[2]), sharers end
      if not waiter or waiter == id and queue == exclusive then return end
      local live, blocked = 'redlock:live:' .. waiter, queue == exclusive and (woken > 0 or minPlace)
      if queue == sharers and minPlace and place < minPlace then
        sharerIndex = sharerIndex + 1
      elseif (blocked or pcall('PEXPIRE', live, '700', 'LT') == 0) and pcall('EXISTS', live) == 0 then
        if type(pcall('ZREM', queue, waiter)) == 'table' then return end
      elseif blocked then
        return
      elseif pcall('PUBLISH', 'redlock:wake:' .. waiter, key) == 0 then
        if queue == sharers then sharerIndex = sharerIndex + 1 else index = index + 1 end
      elseif queue == sharers then
        sharerIndex, woken = sharerIndex + 1, woken + 1
      else
        return
      end
    end
  end
end
