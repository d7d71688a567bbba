-- Part of the script that gives a waiter of a fair lock its place.
-- part  join(line, field, ticket, reserve): puts it into the queue, by its ticket if it had one ('0': none); returns its
--       ticket as text, and the waiter before it at the tail, if any
-- stays with no end of its own: `keep` gives it one in the same run
--
-- Redisson takes its wait off every deadline with each of its grants. So a waiter of ours comes with one such wait for each
-- foreign waiter, and a reserve, and never with less than the waiter before it. A waiter that was skipped and lives after
-- all goes back before the first one that came later than it.
local function deadline(line, tail, reserve)
    local ends = line.now + foreign(line) * line.java_wait + reserve
    if not tail then
        return ends
    end
    local last = tonumber(redis.call('ZSCORE', line.deadlines, tail) or 0)
    return math.max(ends, is_ours(tail) and last or last + reserve)
end

local function go_back(line, field, ticket)
    local waiting = redis.call('LRANGE', line.queue, 0, 64)
    for _, other in ipairs(waiting) do
        if not is_ours(other) or ticket_of(line, other) > ticket then
            return redis.call('LINSERT', line.queue, 'BEFORE', other, field)
        end
    end
    local last = waiting[#waiting]
    return last and redis.call('LINSERT', line.queue, 'AFTER', last, field) or redis.call('RPUSH', line.queue, field)
end

local function join(line, field, ticket, reserve)
    local tail = redis.call('LINDEX', line.queue, -1)
    if not tail and ticket == '0' then
        redis.call('DEL', line.waiters)
    end
    local ends = deadline(line, tail, reserve)
    local last = tail and is_ours(tail) and ticket_of(line, tail)
    local number = tonumber(ticket)
    if number == 0 then
        number = math.max(line.micros, (last or 0) + 1)
        ticket = string.format('%.0f', number)
        redis.call('RPUSH', line.queue, field)
    elseif not tail or last and last < number then
        redis.call('LREM', line.queue, 0, field)
        redis.call('RPUSH', line.queue, field)
    else
        redis.call('LREM', line.queue, 0, field)
        go_back(line, field, number)
    end
    redis.call('ZADD', line.deadlines, ends, field)
    redis.call('HSET', line.waiters, field, string.format('%s:%.0f', ticket, line.now))
    return ticket, tail
end
