-- Part of the scripts after which a waiter of a fair lock may have its turn.
-- part  wake(owner, channel, inbox): tells that waiter; returns how many clients got the message
--       wake_next(line, channel, inbox): tells the first living waiter, if there is one; returns the same
--
-- A waiter of ours is told in the inbox of its client, by its number; one of Redisson on a channel of its own. Nothing may
-- be written after it.
local function wake(owner, channel, inbox)
    if is_ours(owner) then
        return redis.call('PUBLISH', inbox .. ':' .. string.sub(owner, 1, 36), string.sub(owner, 38))
    end
    return redis.call('PUBLISH', channel .. ':' .. owner, '0')
end

local function wake_next(line, channel, inbox)
    if redis.call('EXISTS', line.queue) == 0 then
        return 0
    end
    local head = skip(line)
    return head and wake(head, channel, inbox) or 0
end
