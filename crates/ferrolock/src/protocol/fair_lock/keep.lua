-- Part of the script with which a client shows that its waiters for a fair lock live.
-- part  beat(line, field): the client of that field was heard now
--       upkeep(line, field, ticket, reserve): gives a waiter's deadline the time back that has passed; returns its ticket
--       keep(line): the keys of the queue stay for an hour, or for good while a foreign waiter is in it
--
-- Redisson evicts waiters of ours without removing them from `waiters`: each beat looks at three of them. A deadline that
-- was moved is noted, so that a repeat adds nothing.
local function beat(line, field)
    excuse(line)
    redis.call('ZADD', line.clients, line.now, string.sub(field, 1, 36))
    local remembered = math.max(60000, 2 * line.dead)
    redis.call('ZREMRANGEBYSCORE', line.clients, '-inf', string.format('(%.0f', line.now - remembered))
    redis.call('PEXPIRE', line.clients, remembered)
    for _, other in ipairs(redis.call('HRANDFIELD', line.waiters, 3)) do
        if not redis.call('ZSCORE', line.deadlines, other) then
            redis.call('HDEL', line.waiters, other)
        end
    end
end

local function upkeep(line, field, ticket, reserve)
    local known = redis.call('HGET', line.waiters, field)
    local number, since = string.match(known or '', '^(%d+):(%d+)$')
    local passed = line.now - (since or line.now)
    number = number or ticket ~= '0' and ticket or string.format('%.0f', line.micros)
    if since and passed <= reserve / 2 then
        return number
    end
    local ends = redis.call('ZSCORE', line.deadlines, field)
    redis.call('ZADD', line.deadlines, ends + passed, field)
    redis.call('HSET', line.waiters, field, string.format('%s:%.0f', number, line.now))
    return number
end

local function keep(line)
    redis.call('PEXPIRE', line.waiters, 3600000)
    if foreign(line) == 0 then
        redis.call('PEXPIRE', line.queue, 3600000)
        redis.call('PEXPIRE', line.deadlines, 3600000)
    else
        redis.call('PERSIST', line.queue)
        redis.call('PERSIST', line.deadlines)
    end
end
