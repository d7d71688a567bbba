-- Part of the scripts of a fair lock: its keys, and what every other part asks.
-- part  line_of(keys and times): the keys and times of one fair lock, for the other parts
--       read_time(line): sets `line.now`, the server's time in ms, and `line.micros`; once in a run, and only where needed
--       is_ours(owner): a waiter of this library, whose client's uuid has version 8, and not of Redisson
--       ticket_of(line, owner): when a waiter of ours came, in the server's microseconds; 0: not known
--       foreign(line): how many waiters of Redisson are in the queue
--
-- What is behind the colon in `waiters` is when the waiter's deadline was last moved.
local function line_of(lock, queue, deadlines, clients, waiters, amnesty, dead, java_wait)
    return {
        lock = lock,
        queue = queue,
        deadlines = deadlines,
        clients = clients,
        waiters = waiters,
        amnesty = amnesty,
        dead = tonumber(dead),
        java_wait = tonumber(java_wait),
    }
end

local function read_time(line)
    if not line.now then
        local time = redis.call('TIME')
        line.micros = time[1] * 1000000 + time[2]
        line.now = math.floor(line.micros / 1000)
    end
end

local function is_ours(owner)
    return string.sub(owner, 15, 15) == '8'
end

local function ticket_of(line, owner)
    local known = redis.call('HGET', line.waiters, owner)
    return tonumber(string.match(known or '', '^(%d+):') or 0)
end

local function foreign(line)
    return math.max(0, redis.call('LLEN', line.queue) - redis.call('HLEN', line.waiters))
end
