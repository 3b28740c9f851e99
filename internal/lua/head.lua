-- livingHead drops dead entries and our own ended attempts from the head of the queue. It
-- returns the head's id, place and reading, and its claim: the member with its owner.
local function livingHead(queue, ownEntry)
  while true do
    local head = call('ZRANGE', queue, '0', '1', 'WITHSCORES')
    local waiter, claim = head[1], head[3]
    if not waiter then return end
    if claim and (head[4] ~= head[2] or string.sub(claim, 1, #waiter + 1) ~= waiter .. ' ') then claim = nil end
    if waiter == id then
      if ownEntry and claim == ownEntry then return waiter, tonumber(head[2]), ownReading, claim end
    elseif not string.find(waiter, ' ', 1, true) then
      local reading = call('MGET', 'redlock:live:' .. waiter)[1]
      if reading then return waiter, tonumber(head[2]), reading, claim end
    end
    call('ZREM', queue, waiter, claim or waiter)
  end
end

-- firstSharer is the place of the first living waiter that wants to share the name.
local sharing
local function firstSharer(key)
  if sharing == nil then sharing = call('EXISTS', 'redlock:sharing') == 1 end
  while sharing do
    local head = call('ZRANGE', 'redlock:sharers:' .. key, '0', '0', 'WITHSCORES')
    if not head[1] then return end
    if call('EXISTS', 'redlock:live:' .. head[1]) == 1 then return tonumber(head[2]) end
    call('ZREM', 'redlock:sharers:' .. key, head[1])
  end
end
