-- what release scripts include: leave a tombstone on an owner value. The node's own mark
-- lasts as long as the longest: without it, acquire.lua looks for no tombstone.
local function leaveTombstone(key, life)
  for _, mark in ipairs({key, 'redlock:tombstones'}) do
    if redis.call('PTTL', mark) < tonumber(life) then
      redis.call('SET', mark, '1', 'PX', life) -- a line of its own: an error of Redis 7.0 tells only the line
    end
  end
end
