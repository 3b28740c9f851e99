-- first is the living head but for ended attempts of our own: its id, place, reading,
-- and the member that says which owner it waits with.
local function first(queue, mine)
  while true do
    local head = call('ZRANGE', queue, '0', '1', 'WITHSCORES')
    local who, with = head[1], head[3]
    if not who then return end
    if with and (head[4] ~= head[2] or string.sub(with, 1, #who + 1) ~= who .. ' ') then with = nil end
    if who == id then
      if mine and with == mine then return who, tonumber(head[2]), sign, with end
    elseif not string.find(who, ' ', 1, true) then
      local reading = call('MGET', 'redlock:live:' .. who)[1]
      if reading then return who, tonumber(head[2]), reading, with end
    end
    call('ZREM', queue, who, with or who)
  end
end

-- sharer is the place of the first living process that waits to share the name.
local sharing
local function sharer(key)
  if sharing == nil then sharing = call('EXISTS', 'redlock:sharing') == 1 end
  while sharing do
    local head = call('ZRANGE', 'redlock:sharers:' .. key, '0', '0', 'WITHSCORES')
    if not head[1] then return end
    if call('EXISTS', 'redlock:live:' .. head[1]) == 1 then return tonumber(head[2]) end
    call('ZREM', 'redlock:sharers:' .. key, head[1])
  end
end
