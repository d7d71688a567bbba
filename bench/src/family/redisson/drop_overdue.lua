-- Part of the replayed scripts of Redisson's fair lock.
-- part  drop_overdue(queue, deadlines, now): removes waiters from the head of the queue whose time is over; returns the head
local function drop_overdue(queue, deadlines, now)
    while true do
        local head = redis.call('LINDEX', queue, 0)
        local ends = head and redis.call('ZSCORE', deadlines, head)
        if not ends or tonumber(ends) > now then
            return head
        end
        redis.call('ZREM', deadlines, head)
        redis.call('LPOP', queue)
    end
end
