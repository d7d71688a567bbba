-- Part of the script that asks for a fair lock.
-- part  stand(line, field, ask): a waiter's place, and what belongs to a sign of life; `ask` has head (of the queue), mode,
--       ticket, is_front and reserve. Returns the ticket, the waiter before it at the tail, if it came now, and whether it had lost its place (1, 0)
--       is_mixed_with(line, head, tail): whether a release of Redisson's may be the one that this waiter waits for
--
-- A deadline without a queue is what is left of lost data: no place. The keys get their ends with the first waiter of ours, and with each beat.
local function is_heard(line, field)
    local heard = tonumber(redis.call('ZSCORE', line.clients, string.sub(field, 1, 36)) or 0)
    return heard > line.now - line.dead / 5
end

local function stand(line, field, ask)
    local place = { ticket = ask.ticket, returned = 0 }
    if ask.mode == 'try' then
        return place
    end
    read_time(line)
    local is_beat, is_new = ask.mode == 'beat', false
    if not ask.head or not redis.call('ZSCORE', line.deadlines, field) then
        place.ticket, place.tail = join(line, field, ask.ticket, ask.reserve)
        place.returned = ask.ticket ~= '0' and 1 or 0
        is_new = redis.call('HLEN', line.waiters) == 1
    elseif is_beat or ask.ticket == '0' then
        place.ticket = upkeep(line, field, ask.ticket, ask.reserve)
    end
    if ask.is_front and (is_beat or not is_heard(line, field)) then
        beat(line, field)
    end
    if is_beat or is_new then
        keep(line)
    end
    return place
end

local function is_mixed_with(line, head, tail)
    if foreign(line) > 0 or not is_ours(head) or tail and not is_ours(tail) then
        return true
    end
    for _, holder in ipairs(redis.call('HKEYS', line.lock)) do
        if not is_ours(holder) then
            return true
        end
    end
    return false
end
