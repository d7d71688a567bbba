-- How each kind of call is made; a part of the script that runs a batch, after `scripts`.
-- ARGV  as in batch.lua, whose text follows
-- reply none by itself: it defines `timed` and `run`
local is_server = ARGV[1] == 'server'

local function micros()
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
end

local start = micros()
local now = math.floor(start / 1000)

-- `@5000` is a time in ms from now, `@s5` one in seconds.
local function timed(word)
    local seconds, offset = string.match(word, '^@(s?)(-?%d+)$')
    if offset == nil then
        return word
    elseif seconds == 's' then
        return string.format('%.0f', math.floor(now / 1000) + offset)
    end
    return string.format('%.0f', now + offset)
end

-- Redis 7.0 has a clock that goes on while a script runs, so a deadline close to another may be later or not.
local function are_close(a, b)
    return math.abs(a - b) < 100
end

local units = {pexpire = 1, expire = 1000, pexpireat = 1}
local function is_close(words)
    local command = string.lower(words[1] or '')
    local unit, time = units[command], tonumber(words[3] or '')
    if not is_server or unit == nil or time == nil or words[4] == nil then
        return false
    end
    local base = command == 'pexpireat' and 0 or now
    local old = redis.call('PEXPIRETIME', words[2])
    return old >= 0 and are_close(base + time * unit, old)
end

-- A read hold that is about to end does so for a script or not: some look at the hold keys of all fields.
local function is_read_ending(lock)
    for _, field in ipairs(redis.pcall('HKEYS', lock)) do
        local left = redis.call('PTTL', '{' .. lock .. '}:' .. field .. ':rwlock_timeout:1')
        if left >= 0 and left < 100 then
            return true
        end
    end
    return false
end

local run = {}

function run.command(words)
    if is_close(words) then
        return 'close'
    end
    return redis.pcall(unpack(words))
end

-- Words that are numbers, and not too long ones, go to the command as numbers of Lua.
function run.numbers(words)
    for i, word in ipairs(words) do
        local number = tonumber(word)
        if i > 1 and number and #word < 16 then
            words[i] = number
        end
    end
    return run.command(words)
end

function run.script(words)
    local keys, args = {}, {}
    for i = 3, #words do
        local list = #keys < tonumber(words[2]) and keys or args
        list[#list + 1] = words[i]
    end
    for _, key in ipairs(is_server and keys or {}) do
        -- An amnesty gets its time from the same argument each time, and its end is compared with none.
        local left = string.find(key, '_amnesty:', 1, true) and -1 or redis.call('PTTL', key)
        for _, arg in ipairs(args) do
            if left >= 0 and are_close(left, tonumber(arg) or -1000) then
                return 'close'
            end
        end
    end
    if is_server and string.find(words[1], 'rw_lock/', 1, true) == 1 and is_read_ending(keys[1]) then
        return 'close'
    end
    local ok, value = pcall(scripts[words[1]], keys, args)
    return ok and value or not ok and {err = value}
end

function run.skip()
    return 'close'
end
