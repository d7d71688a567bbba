-- Part of the scripts that ask whether readers are there.
-- part  longest_read(lock): the longest time in ms that a read hold still has, 0 if none lives; and whether all were seen
--
-- A read hold lives as long as one of its hold keys; those of this library have one, Redisson's as many as the count says.
-- Of many fields the first living one is enough. A hold key without an end counts for nothing, as in Redisson.
local function longest_read(lock)
    local fields = redis.call('HLEN', lock)
    if fields <= 1 then
        return 0, true
    end
    local base = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
    local longest, cursor = 0, '0'
    repeat
        local page = redis.call('HSCAN', lock, cursor)
        cursor = page[1]
        for i = 1, #page[2], 2 do
            local field, count = page[2][i], tonumber(page[2][i + 1]) or 0
            local keys = string.sub(field, -6) == ':write' and 0 or math.min(math.floor(count), 1000)
            for n = keys, 1, -1 do
                local key = base .. ':' .. field .. ':rwlock_timeout:' .. string.format('%d', n)
                longest = math.max(longest, redis.call('PTTL', key))
            end
            if longest > 0 and fields > 17 then
                return longest, false
            end
        end
    until cursor == '0'
    return longest, true
end
