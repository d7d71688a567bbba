-- The first holds of several tenures of one owner, each on a lock of its own: all of them or none.
-- KEYS  the locks; then for each of them in turn, if it has them: the last fence, holder details
-- ARGV  1 the largest fence that the client has seen; then for each lock: field of the tenure, lease in ms, whether it has
--       fences (1 or 0), who it is (empty: no details)
-- reply a list: 0, and for each lock its fence, or an empty text; or the number of the first lock that is busy and what its
--       holder's lease still has, in ms (-1: it never ends)
-- stays the last fence: it must grow from holder to holder, however long the lock is free in between
--
-- First looks at all of them, with everything that could fail; writes only if all are free or have the field, which means that
-- this very call ran before. A lock that cannot be taken all the same gives back those before it.
local keys, args, seen = KEYS, ARGV, ARGV[1]
local count = (#args - 1) / 4

for row = 1, count do
    local lock, field = keys[row], args[row * 4 - 2]
    local left = redis.call('PTTL', lock)
    if left ~= -2 and redis.call('HEXISTS', lock, field) == 0 then
        return { row, left }
    end
end
local reply, extra = { 0 }, count
for row = 1, count do
    local lock, field, lease = keys[row], args[row * 4 - 2], args[row * 4 - 1]
    local has_fence, who = args[row * 4] == '1', args[row * 4 + 1]
    local last_fence, details, taken
    if has_fence then
        extra = extra + 1
        last_fence = keys[extra]
    end
    if who ~= '' then
        extra = extra + 1
        details = keys[extra]
    end
    if has_fence then
        taken = grant(lock, last_fence, details, field, lease, seen, who)
    elseif redis.call('EXISTS', lock) == 0 then
        taken = take(lock, details, field, lease, who)
    end
    if type(taken) == 'table' then
        for before = 1, row - 1 do
            redis.call('HDEL', keys[before], args[before * 4 - 2])
        end
        return taken
    end
    reply[row + 1] = taken or ''
end
return reply
