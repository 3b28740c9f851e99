-- amend: add the cluster's news to a member's record.
-- KEYS[1] redlock:node
-- ARGV    epoch, maxttl (ms; 0: as it is), retired: names, one a line,
--         strict (1, or empty: as it is), old and new names, alternating
-- returns 1 done (or it stood there already)
--         0 refused: the old name is not retired here, or another has its place, or the list
--           of nodes was changed, and only such a change puts a name there
--        -1 abstained: the epoch is missing or another
-- atomic because the record must be the one that was read. MaxTTL does not fall. A mark never
-- goes, nor does strict, and a place is given once. A refused call changes nothing.
-- maxttl_least is the smallest MaxTTL that was raised. A node that voted in a round, forgot and
-- was taken in again before the round's end, in less than the round's TTL, was so by a joiner
-- that read a shorter MaxTTL on N-q+1 others. One of these votes in the round too, and was
-- raised in between. So a round counts for less than maxttl_least, unless each node that votes
-- was seen with the longer MaxTTL before the round began, under the epoch of its vote: within an
-- epoch no MaxTTL falls. That needs no clock, and so the field need not be cleared: it bears on
-- the rounds that were under way when a client first saw the raise.
local function has(list, line) return string.find('\n' .. list .. '\n', '\n' .. line .. '\n', 1, true) end
local function add(list, line) return list == '' and line or list .. '\n' .. line end
local rec = redis.call('HMGET', KEYS[1], 'epoch', 'maxttl', 'names', 'retired', 'replaced', 'gen', 'settled', 'maxttl_least')
if rec[1] ~= ARGV[1] then return -1 end
local names, retired, replaced = rec[3] or '', rec[4] or '', rec[5] or ''
local changed = tonumber(rec[6] or 0) > 0 or (rec[7] or '') ~= ''
for name in string.gmatch(ARGV[3], '[^\n]+') do
  if not has(retired, name) then retired = add(retired, name) end
end
for i = 5, #ARGV, 2 do
  local old, new = ARGV[i], ARGV[i + 1]
  if not has(replaced, old .. '\t' .. new) then
    if changed or not has(retired, old) or not has(names, old) or has(names, new) or has(retired, new) then return 0 end
    local out = ''
    for name in string.gmatch(names, '[^\n]+') do
      out = add(out, name == old and new or name)
    end
    names, replaced = out, add(replaced, old .. '\t' .. new)
  end
end
local before = tonumber(rec[2] or 0)
local maxttl = math.max(before, tonumber(ARGV[2]))
if maxttl > before then redis.call('HSET', KEYS[1], 'maxttl_least', string.format('%.0f', math.min(before, tonumber(rec[8] or before)))) end
redis.call('HSET', KEYS[1], 'maxttl', string.format('%.0f', maxttl), 'names', names, 'retired', retired,
  'replaced', replaced)
if ARGV[4] == '1' then redis.call('HSET', KEYS[1], 'strict', 1) end
return 1
