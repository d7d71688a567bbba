-- Part of the scripts that look for the first living waiter of a fair lock.
-- part  excuse(line): if no client was heard lately, no waiter is judged for a while; returns whether that is so
--       skip(line, own): removes dead waiters from the head, but not `own`; returns the head then, and how many it removed
-- stays deadlines: while a waiter of Redisson is in the queue they have no end, see `keep`
--
-- A waiter of ours is dead if its client was not heard for `dead`. A server that stood still or lost its keys has heard no
-- client at all, and a clock that was set back has heard one in the future: then every client gets one more `dead`.
-- A foreign waiter is dead at its deadline. It gets one if it has none, and no later one than Redisson itself would give it.
local function excuse(line)
    local last = redis.call('ZREVRANGE', line.clients, 0, 0, 'WITHSCORES')[2]
    local silence = line.now - (last or 0)
    if silence < -1000 then
        redis.call('ZREMRANGEBYSCORE', line.clients, string.format('(%.0f', line.now + 1000), '+inf')
    elseif silence <= line.dead / 2 then
        return false
    end
    redis.call('SET', line.amnesty, string.format('%.0f', line.now + line.dead), 'PX', line.dead)
    return true
end

local function may_judge(line)
    if line.judges == nil then
        local excused = tonumber(redis.call('GET', line.amnesty) or 0) or 0
        local is_excused = excused > line.now and excused <= line.now + line.dead
        line.judges = not excuse(line) and not is_excused
    end
    return line.judges
end

local function is_dead(line, owner)
    local ends = tonumber(redis.call('ZSCORE', line.deadlines, owner) or nil)
    if is_ours(owner) then
        local heard = tonumber(redis.call('ZSCORE', line.clients, string.sub(owner, 1, 36)) or 0)
        local is_heard = heard > line.now - line.dead and heard <= line.now + line.dead
        return not is_heard and (ends and ends <= line.now or may_judge(line))
    end
    local latest = line.now + line.java_wait + math.max(0, redis.call('PTTL', line.lock))
    if not ends or ends > latest then
        redis.call('ZADD', line.deadlines, ends and latest or line.now + line.java_wait, owner)
        return false
    end
    return ends <= line.now
end

local function skip(line, own)
    read_time(line)
    for removed = 0, 1000 do
        local head = redis.call('LINDEX', line.queue, 0)
        if not head or head == own or removed == 1000 or not is_dead(line, head) then
            return head, removed
        end
        redis.call('LPOP', line.queue)
        redis.call('ZREM', line.deadlines, head)
        redis.call('HDEL', line.waiters, head)
    end
end
